"""Rules that spread the asked sparsity over the blocks, one file each; importing this package registers them all."""

from prune_hooks.allocation.uniform import uniform

__all__ = ["uniform"]
