"""Numbers as words and tables write them; a dash is "not measured" or "undefined", never zero."""

from __future__ import annotations

from lm_eval_illusion.report.measures import Estimate

__all__ = ["DASH", "arrow", "decimals", "interval", "percent", "probability"]

DASH = "–"


def decimals(value: float | None, places: int = 2, *, sign: bool = False) -> str:
    """A plain number."""
    if value is None:
        return DASH
    text = f"{value:+.{places}f}" if sign else f"{value:.{places}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("+-").rjust(1)


def percent(value: float | None) -> str:
    """A share as a percentage."""
    return DASH if value is None else f"{100 * value:.0f} %"


def probability(value: float | None) -> str:
    """A p value, three decimals."""
    if value is None:
        return DASH
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def interval(estimate: Estimate | None, *, sign: bool = False) -> str:
    """`value [low, high]`, or the value alone where there is no interval."""
    if estimate is None or estimate.value is None:
        return DASH
    value = decimals(estimate.value, sign=sign)
    if estimate.low is None or estimate.high is None:
        return f"{value} [{DASH}]"
    return f"{value} [{decimals(estimate.low, sign=sign)}, {decimals(estimate.high, sign=sign)}]"


def arrow(before: Estimate | None, after: Estimate | None) -> str:
    """`dense → pruned`, values alone."""
    if before is None or after is None:
        return DASH
    return f"{decimals(before.value)} → {decimals(after.value)}"
