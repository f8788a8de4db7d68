"""The methods, one file each; importing this package registers them all."""

from prune_hooks.methods.dense import dense
from prune_hooks.methods.magnitude import magnitude, magnitude_global
from prune_hooks.methods.random import random
from prune_hooks.methods.sparsegpt import sparsegpt
from prune_hooks.methods.wanda import wanda

__all__ = ["dense", "magnitude", "magnitude_global", "random", "sparsegpt", "wanda"]
