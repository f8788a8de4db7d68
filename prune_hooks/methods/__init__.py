"""The methods, one file each; importing this package registers them all."""

from prune_hooks.methods import dense, magnitude, random, sparsegpt, wanda

__all__ = ["dense", "magnitude", "random", "sparsegpt", "wanda"]
