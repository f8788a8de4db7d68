"""Equivalence by two one-sided tests: the 90 % interval lies within the margin. A large p is no equivalence."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lm_eval_illusion.report.stats.intervals import Interval

__all__ = ["Equivalence", "judge_equivalence"]


@dataclass(frozen=True)
class Equivalence:
    """Verdict of two one-sided tests at 5 %."""

    verdict: str
    """`equivalent`, `different` (wholly outside the margin), `not shown`, or `undecided` (too little data)."""
    margin: float
    low: float
    high: float


def judge_equivalence(interval90: Interval, margin: float, *, enough: bool) -> Equivalence:
    """Compare a 90 % interval with (-margin, margin).

    Args:
        interval90: Interval of a difference at level 0.90.
        margin: Largest difference that does not matter, positive.
        enough: Whether the sample reaches the least size to decide.
    """
    low, high = interval90.low, interval90.high
    if not enough or math.isnan(low):
        verdict = "undecided"
    elif -margin < low and high < margin:
        verdict = "equivalent"
    elif low > margin or high < -margin:
        verdict = "different"
    else:
        verdict = "not shown"
    return Equivalence(verdict, margin, low, high)
