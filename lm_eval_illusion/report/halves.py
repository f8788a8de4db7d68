"""The `illusion` metric of one sample record, typed: one half (one condition) of an item as one model answered it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.pair_halves import ChoiceHalf, GenerationHalf, Parting
from lm_eval_illusion.report.probe_halves import Output, RankHalf, SeveralHalf, SpanHalf

__all__ = [
    "HALVES",
    "MATCHERS",
    "NORMALISERS",
    "RECORD_SCHEMA",
    "ChoiceHalf",
    "GenerationHalf",
    "Half",
    "Output",
    "Parting",
    "RankHalf",
    "SeveralHalf",
    "SpanHalf",
    "answered",
    "parse_half",
]

RECORD_SCHEMA = 1
"""Version of the sample record's `illusion` metric that this package reads."""

HALVES: dict[str, str] = {
    "mc": "multiple choice, near options",
    "mc_far": "multiple choice, far options",
    "gen": "open generation",
}
"""The conditions of the pair itself, which decide what is joined, with their names in words."""

NORMALISERS = ("chars", "sum", "bytes", "pmi")
"""Ways to normalise a choice's log-probability; the first one defines R."""

MATCHERS = ("standard", "exact", "f1", "contained", "anywhere")
"""Ways to match an answer with the golds; the first one defines G, the last, of any length, is no part of it."""

Half = ChoiceHalf | GenerationHalf | SeveralHalf | RankHalf | SpanHalf

_KINDS: dict[str, type[Half]] = {
    "choice": ChoiceHalf,
    "generation": GenerationHalf,
    "several": SeveralHalf,
    "rank": RankHalf,
    "spans": SpanHalf,
}


def answered(half: Half) -> str | None:
    """What was answered: the text written or the option picked; None of an invalid item, a tie, or another kind."""
    if not half.valid:
        return None
    if isinstance(half, GenerationHalf):
        return half.answer
    if not isinstance(half, ChoiceHalf) or half.picked is None:
        return None
    return half.choices[half.picked]


def parse_half(metric: Mapping[str, Any]) -> Half:
    """Check and type one `illusion` metric.

    Args:
        metric: What the sample file held under `illusion`, its condition one of `CONDITIONS`.

    Raises:
        pydantic.ValidationError: Missing or mistyped fields; the caller names file and line.
    """
    return _KINDS[CONDITIONS[metric["condition"]].kind].model_validate(metric)
