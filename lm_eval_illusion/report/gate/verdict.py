"""The arithmetic of one verdict: an estimate with its interval against a limit, and what noise leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lm_eval_illusion.report.gate.metrics import Reading
from lm_eval_illusion.report.gate.rules import Rule
from lm_eval_illusion.report.stats import Interval, judge_equivalence

__all__ = ["Outcome", "Verdict", "decide"]

Verdict = Literal["pass", "fail", "undecided"]


@dataclass(frozen=True)
class Outcome:
    """A verdict and why."""

    verdict: Verdict
    why: str


def decide(rule: Rule, reading: Reading, floor: float = 0.0) -> Outcome:
    """Judge a reading whose items suffice.

    `certain`: the interval, widened by the noise floor on both sides, lies on one side of the limit, else undecided.
    `possible`: the estimate fails beyond limit and floor, passes within the limit, and is undecided between.
    `equivalent`: two one-sided tests at 5 %: the widened 90 % interval lies within the margin on both sides of 0.

    Args:
        rule: What must hold.
        reading: Finite numbers.
        floor: What two runs of one model may differ by, at least 0.
    """
    assert reading.value is not None
    noise = f", noise {floor:.3g}" if floor else ""
    if rule.sure == "equivalent":
        return _equivalent(rule, reading, floor, noise)
    side = rule.of.bad_side
    limit = side * rule.limit
    if rule.of.counted:
        beyond = _beyond(side * reading.value, limit, rule.strict)
        return Outcome("fail", "beyond the limit") if beyond else Outcome("pass", "keeps the limit")
    if rule.sure == "possible":
        value = side * reading.value
        if not _beyond(value, limit, rule.strict):
            return Outcome("pass", "the estimate keeps the limit")
        if _beyond(value - floor, limit, rule.strict):
            return Outcome("fail", f"the estimate is beyond the limit{noise}")
        return Outcome(
            "undecided", f"the estimate is beyond the limit by less than two runs of one model may differ{noise}"
        )
    if reading.low is None or reading.high is None:
        return Outcome("undecided", "no interval")
    best, worst = sorted((side * reading.low, side * reading.high))
    if _beyond(best - floor, limit, rule.strict):
        return Outcome("fail", f"the whole interval is beyond the limit{noise}")
    if not _beyond(worst + floor, limit, rule.strict):
        return Outcome("pass", f"the whole interval keeps the limit{noise}")
    return Outcome("undecided", f"the interval holds the limit{noise}")


def _beyond(value: float, limit: float, strict: bool) -> bool:
    """Whether a value is on the bad side, high being bad; nine decimals, since shares are quotients."""
    apart = round(value - limit, 9)
    return apart >= 0 if strict else apart > 0


def _equivalent(rule: Rule, reading: Reading, floor: float, noise: str) -> Outcome:
    if reading.low90 is None or reading.high90 is None or reading.value is None:
        return Outcome("undecided", "no 90 % interval")
    shown = f"90 % interval {reading.low90:+.3f} to {reading.high90:+.3f}{noise}"
    if _judged(reading, rule.limit, floor) == "equivalent":
        return Outcome("pass", f"equivalent within {rule.limit:g}: {shown}")
    if _judged(reading, rule.limit + floor, 0.0) == "different":
        return Outcome("fail", f"wholly outside {rule.limit:g}: {shown}")
    return Outcome("undecided", f"equivalence within {rule.limit:g} is not shown: {shown}")


def _judged(reading: Reading, margin: float, floor: float) -> str:
    assert reading.value is not None
    assert reading.low90 is not None
    assert reading.high90 is not None
    ends = (reading.low90 - floor, reading.high90 + floor)
    inner = Interval(reading.value, *ends, reading.items, reading.clusters, 0.0)
    return judge_equivalence(inner, margin, enough=True).verdict
