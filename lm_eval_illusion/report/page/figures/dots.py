"""A mark with its interval in each row: the form that gaps, shares and ladders have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.numbers import interval
from lm_eval_illusion.report.page.vega import colour, draw, values

__all__ = ["FORMS", "Dot", "Series", "dot_panel", "dot_words", "span_of"]

FORMS = {"circle": "●", "triangle-up": "▲", "square": "■", "diamond": "◆", "triangle-down": "▼"}
"""Vega's names of marks, and characters that look like them."""


@dataclass(frozen=True)
class Series:
    """What marks of one kind look like."""

    colour: str
    form: str


@dataclass(frozen=True)
class Dot:
    """One estimate."""

    row: str
    series: str
    estimate: Estimate
    doubtful: bool = False
    """Drawn hollow."""


def span_of(estimates: Sequence[Estimate | None], least: tuple[float, float]) -> tuple[float, float]:
    """Ends of an axis that holds all intervals, to the next tenth outwards, and at least `least`."""
    ends = [end for e in estimates if e is not None for end in (e.value, e.low, e.high) if end is not None]
    low, high = min([least[0], *ends]), max([least[1], *ends])
    return int(low * 10 - (1 - 1e-9 if low < 0 else 0)) / 10, int(high * 10 + 1 - 1e-9) / 10


def dot_panel(
    dots: Sequence[Dot], series: Mapping[str, Series], span: tuple[float, float], axis: str, *, width: int = 170
) -> str:
    """Draw marks with intervals, a row each, the series of a row below one another.

    Args:
        dots: In the order in which rows stand from top to bottom.
        series: Name -> look.
        span: Ends of the axis.
        axis: Its title.
        width: Of the plotting area.
    """
    rows = list(dict.fromkeys(dot.row for dot in dots))
    names = [name for name in series if any(dot.series == name for dot in dots)]
    data = [
        {
            "row": dot.row,
            "series": dot.series,
            "value": dot.estimate.value,
            "low": dot.estimate.low,
            "high": dot.estimate.high,
            "doubtful": dot.doubtful,
        }
        for dot in dots
        if dot.estimate.value is not None
    ]
    where: dict[str, Any] = {
        "y": {"field": "row", "type": "nominal", "sort": rows, "scale": {"domain": rows}, "title": None},
        "yOffset": {"field": "series", "sort": names, "scale": {"domain": names}},
    }
    looks = [series[name] for name in names]
    tint: dict[str, Any] = {
        "field": "series",
        "scale": {"domain": names, "range": [colour(look.colour) for look in looks]},
        "legend": None,
    }
    across: dict[str, Any] = {"type": "quantitative", "scale": {"domain": list(span), "nice": False, "zero": False}}
    shape = {"field": "series", "scale": {"domain": names, "range": [look.form for look in looks]}, "legend": None}
    axis_of = {"title": axis, "tickCount": 5, "format": ".1f"}
    return draw(
        {
            "data": values(data),
            "width": width,
            "height": {"step": 12},
            "layer": [
                {"mark": {"type": "rule", "color": colour("soft")}, "encoding": {"x": {"datum": 0.0}}},
                {
                    "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {
                        **where,
                        "x": {"field": "low", **across, "axis": axis_of},
                        "x2": {"field": "high"},
                        "color": tint,
                    },
                },
                {
                    "mark": {"type": "point", "size": 55, "strokeWidth": 2, "opacity": 1},
                    "encoding": {
                        **where,
                        "x": {"field": "value", **across, "axis": axis_of},
                        "stroke": tint,
                        "fill": {"condition": {"test": "datum.doubtful", "value": colour("ground")}, **tint},
                        "shape": shape,
                    },
                },
            ],
        }
    )


def dot_words(dots: Sequence[Dot]) -> str:
    """The same in words."""
    return "; ".join(
        f"{dot.row}, {dot.series}: {interval(dot.estimate)}{' (not interpretable)' if dot.doubtful else ''}"
        for dot in dots
    )
