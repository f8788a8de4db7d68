"""Names that the task templates call; the work is done in lm_eval_illusion.pairs."""

from lm_eval_illusion.harness.fewshot import ItemSampler
from lm_eval_illusion.pairs.results import count_valid, process_far, process_generation, process_near
from lm_eval_illusion.pairs.tables import keep_demonstrations, keep_sampled, load

__all__ = [
    "ItemSampler",
    "count_valid",
    "keep_demonstrations",
    "keep_sampled",
    "load",
    "process_far",
    "process_generation",
    "process_near",
]
