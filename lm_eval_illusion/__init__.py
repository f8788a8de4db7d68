"""lm-eval-illusion: does a pruned language model still answer, or only recognise the answer?"""

__version__ = "0.1.0"

__all__ = ["__version__"]
