"""Where the items of each quadrant went: bands from the dense model's quadrants to the pruned one's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lm_eval_illusion.report.classes import QUADRANTS
from lm_eval_illusion.report.page.figures.model import Figure, Key, Panel
from lm_eval_illusion.report.page.vega import colour, draw, values
from lm_eval_illusion.report.render.grid import DISTANCES, contrast_at
from lm_eval_illusion.report.schema import Comparison

__all__ = ["QUADRANT_WORDS", "flow_figure"]

QUADRANT_WORDS = {
    "both": "both",
    "recognition_only": "recognition only",
    "generation_only": "generation only",
    "neither": "neither",
}
_COLOURS = {"both": "c0", "recognition_only": "c1", "generation_only": "c2", "neither": "soft"}
_GAP = 0.02
"""Between bands of different quadrants, as a share of all items."""
_LINE = 0.065
"""Least distance between two labels, on the same scale."""
_STEPS = 24
_BAR = 0.03
Moves = Mapping[str, Mapping[str, int]]


def flow_figure(comparison: Comparison) -> Figure | None:
    """Transitions near and far; None where a half was not measured."""
    contrast = comparison.rows[0].contrast
    panels = []
    for distance in DISTANCES:
        change = contrast_at(contrast, distance)
        if (
            change is None
            or change.transitions is None
            or not any(sum(m.values()) for m in change.transitions.values())
        ):
            continue
        panels.append(Panel(f"{distance} options", _draw(change.transitions), _words(change.transitions, distance)))
    if not panels:
        return None
    return Figure(
        f"From dense to {comparison.pruned}",
        "Left the dense model's items by quadrant, right the pruned one's. Recognition only - the choice right, the "
        "open answer wrong - is the illusion.",
        panels,
        [Key(QUADRANT_WORDS[name], _COLOURS[name], "■") for name in QUADRANTS],
    )


def _words(moves: Moves, distance: str) -> str:
    said = [
        f"{count} from {QUADRANT_WORDS[before]} to {QUADRANT_WORDS[after]}"
        for before in QUADRANTS
        for after in QUADRANTS
        if (count := moves[before][after])
    ]
    return f"Items from dense to pruned, {distance} options: {', '.join(said)}."


def _draw(moves: Moves) -> str:
    total = sum(sum(row.values()) for row in moves.values())
    left = {name: sum(moves[name].values()) / total for name in QUADRANTS}
    right = {name: sum(moves[before][name] for before in QUADRANTS) / total for name in QUADRANTS}
    tops = (_tops(left), _tops(right))
    scale = {"domain": [1 + 3 * _GAP, 0], "nice": False, "zero": False}
    across = {"type": "quantitative", "axis": None, "scale": {"domain": [0, 1], "nice": False}}
    up = {"type": "quantitative", "axis": None, "scale": scale}
    tint: dict[str, Any] = {
        "field": "quadrant",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": list(QUADRANTS), "range": [colour(_COLOURS[name]) for name in QUADRANTS]},
    }
    places = {"x": {"field": "x", **across}, "y": {"field": "y", **up}, "y2": {"field": "y2"}}
    bars = list(_bars(left, tops[0], 0.0, moves)) + list(_bars(right, tops[1], 1.0 - _BAR, _turned(moves)))
    return draw(
        {
            "width": 110,
            "height": 220,
            "padding": {"left": 14, "right": 14, "top": 8, "bottom": 8},
            "layer": [
                {
                    "data": values(list(_bands(moves, total, tops))),
                    "mark": {"type": "area", "opacity": 0.55, "line": False},
                    "encoding": {**places, "color": tint, "detail": {"field": "band"}},
                },
                {
                    "data": values(bars),
                    "mark": {"type": "rect"},
                    "encoding": {**places, "x2": {"field": "x2"}, "color": tint},
                },
                *(_labels(bars, left_side) | {"encoding": _label_places(across, up)} for left_side in (True, False)),
            ],
        }
    )


def _label_places(across: Mapping[str, Any], up: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "x": {"field": "edge", **across},
        "y": {"field": "middle", **up},
        "text": {"field": "label"},
    }


def _labels(bars: list[dict[str, Any]], left_side: bool) -> dict[str, Any]:
    mine = [bar for bar in bars if bar["count"] and (bar["x"] < 0.5) == left_side]
    shift = -4 if left_side else 4
    mark = {"type": "text", "align": "right" if left_side else "left", "dx": shift, "baseline": "middle"}
    return {"data": values(mine), "mark": {**mark, "fontSize": 11}}


def _turned(moves: Moves) -> Moves:
    return {after: {before: moves[before][after] for before in QUADRANTS} for after in QUADRANTS}


def _tops(shares: Mapping[str, float]) -> dict[str, float]:
    tops, at = {}, 0.0
    for name in QUADRANTS:
        tops[name] = at
        at += shares[name] + _GAP
    return tops


def _bars(shares: Mapping[str, float], tops: Mapping[str, float], x: float, moves: Moves) -> Iterator[dict[str, Any]]:
    least = 0.0
    for name in QUADRANTS:
        count = sum(moves[name].values())
        middle = max(least, tops[name] + shares[name] / 2)
        least = middle + (_LINE if count else 0.0)
        yield {
            "quadrant": name,
            "x": x,
            "x2": x + _BAR,
            "edge": 0.0 if x == 0.0 else 1.0,
            "y": tops[name],
            "y2": tops[name] + shares[name],
            "middle": middle,
            "count": count,
            "label": f"{QUADRANT_WORDS[name]} {count}",
        }


def _bands(moves: Moves, total: int, tops: tuple[Mapping[str, float], Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    """Points of every band along its way; an S, so that bands cross without corners."""
    at = (dict(tops[0]), dict(tops[1]))
    for before in QUADRANTS:
        for after in QUADRANTS:
            share = moves[before][after] / total
            if not share:
                continue
            start, end = at[0][before], at[1][after]
            at[0][before] += share
            at[1][after] += share
            for step in range(_STEPS + 1):
                t = step / _STEPS
                y = start + (end - start) * t * t * (3 - 2 * t)
                x = _BAR + (1 - 2 * _BAR) * t
                yield {"quadrant": before, "band": f"{before}>{after}", "x": x, "y": y, "y2": y + share}
