"""lm-eval-illusion: does a pruned language model still answer, or only recognise the answer?"""

from prune_hooks import __version__

__all__ = ["__version__"]
