"""From a model's responses to the numbers and the one record `illusion` of an item, under every condition.

The harness calls these as `process_results(doc, responses)`. A response may be the plain tuple or string of any
backend, or carry an attribute `illusion` with what only the model knows (did the prompt fit, the gold's first-token
rank, why generation ended, the other hypotheses). Nothing here raises on NaN, infinities or empty text: such an item is
invalid, and counted. Only an answer without the hypotheses or ranks that its condition is about is an error.
"""

from __future__ import annotations

from .records.choice import (
    best,
    process_choices_only,
    process_closed_mc,
    process_far,
    process_graded,
    process_letters,
    process_near,
    process_question_only,
    process_revise_mc,
)
from .records.common import SCHEMA, count_valid
from .records.generation import (
    process_closed_gen,
    process_generation,
    process_oneshot,
    process_revise_gen,
    process_shown,
    process_shown_nogold,
)
from .records.rank import process_rank, process_rank_spans
from .records.several import pass_at_k, process_beam, process_sample

__all__ = [
    "SCHEMA",
    "best",
    "count_valid",
    "pass_at_k",
    "process_beam",
    "process_choices_only",
    "process_closed_gen",
    "process_closed_mc",
    "process_far",
    "process_generation",
    "process_graded",
    "process_letters",
    "process_near",
    "process_oneshot",
    "process_question_only",
    "process_rank",
    "process_rank_spans",
    "process_revise_gen",
    "process_revise_mc",
    "process_sample",
    "process_shown",
    "process_shown_nogold",
]
