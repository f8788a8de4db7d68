"""Rules that spread the asked sparsity over the blocks, one file each; importing this package registers them all.

| name | a block keeps more the |
|---|---|
| `uniform` | - |
| `owl` | larger the share of its Wanda scores far above their mean |
| `correlation` | more (or less) alike the languages' channel norms are |
| `file` | more a JSON or YAML file says |

The mean over blocks, weighted by their weights, is the asked sparsity. n:m patterns keep the same everywhere, so they
go with `uniform` alone.
"""

from prune_hooks.allocation.by_file import by_file
from prune_hooks.allocation.correlation import correlation
from prune_hooks.allocation.owl import owl
from prune_hooks.allocation.uniform import uniform

__all__ = ["by_file", "correlation", "owl", "uniform"]
