"""Right answers against sparsity: a panel a scope, a colour a method, a stroke a measure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lm_eval_illusion.report.curve_figures import MEASURES, CurvePanel, CurvePoint, Curves
from lm_eval_illusion.report.numbers import decimals
from lm_eval_illusion.report.page.figures.dots import FORMS
from lm_eval_illusion.report.page.figures.model import Figure, Key, Panel
from lm_eval_illusion.report.page.vega import colour, draw, values
from lm_eval_illusion.report.render.curve_tables import curve_tables, panel_name
from lm_eval_illusion.report.render.legend import COLOURS

__all__ = ["curve_figure"]

_STROKES: dict[str, list[int]] = {"generation": [1, 0], "near": [6, 3], "far": [2, 3]}
_APART = 0.008
"""Shift between lines at one sparsity, so that their intervals do not cover each other."""
_COLOURS = [f"c{index}" for index in range(len(COLOURS["light"]))]


def curve_figure(curves: Curves | None) -> Figure | None:
    """Every scope of a sweep; None where there is none."""
    if curves is None:
        return None
    shown = curves.panels if len(curves.panels) > 2 else curves.panels[-1:]
    panels = [Panel(panel_name(panel), _draw(panel, curves), _words(panel, curves)) for panel in shown]
    forms = list(FORMS)
    keys = [Key("generation", "ink", "───"), Key("MC near", "ink", "- - -"), Key("MC far", "ink", "·····")]
    keys += [
        Key(line.name, _COLOURS[index % len(_COLOURS)], FORMS[forms[index % len(forms)]])
        for index, line in enumerate(curves.lines)
    ]
    keys.append(Key("chance, 1/k", "soft", "───"))
    return Figure(
        "Right answers against sparsity",
        "Share of right answers with 95 % intervals; the dense model at 0. Several runs of one point: the line goes "
        "through their mean.",
        panels,
        keys,
        curve_tables(curves)[0],
    )


def _draw(panel: CurvePanel, curves: Curves) -> str:
    names = [str(index) for index in range(len(curves.lines))]
    forms = list(FORMS)
    tint: dict[str, Any] = {
        "field": "line",
        "type": "nominal",
        "legend": None,
        "scale": {
            "domain": [*names, "dense"],
            "range": [*(colour(_COLOURS[i % len(_COLOURS)]) for i in range(len(names))), colour("ink")],
        },
    }
    shape: dict[str, Any] = {
        "field": "line",
        "type": "nominal",
        "legend": None,
        "scale": {
            "domain": [*names, "dense"],
            "range": [*(forms[i % len(forms)] for i in range(len(names))), "circle"],
        },
    }
    dash: dict[str, Any] = {
        "field": "measure",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": list(_STROKES), "range": list(_STROKES.values())},
    }
    x = {"field": "sparsity", "type": "quantitative", "title": "sparsity", "scale": {"zero": True}}
    share = {"type": "quantitative", "scale": {"domain": [0, 1]}, "axis": {"title": None, "tickCount": 5}}
    return draw(
        {
            "width": 270,
            "height": 190,
            "layer": [
                {
                    "data": values([{"chance": value} for value in sorted(set(panel.chance.values()))]),
                    "mark": {"type": "rule", "color": colour("soft")},
                    "encoding": {"y": {"field": "chance", **share}},
                },
                {
                    "data": values(list(_traces(panel))),
                    "mark": {"type": "line", "strokeWidth": 2},
                    "encoding": {"x": x, "y": {"field": "value", **share}, "color": tint, "strokeDash": dash},
                },
                {
                    "data": values(list(_marks(panel))),
                    "mark": {"type": "rule", "opacity": 0.7},
                    "encoding": {"x": x, "y": {"field": "low", **share}, "y2": {"field": "high"}, "color": tint},
                },
                {
                    "data": values(list(_marks(panel))),
                    "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1},
                    "encoding": {"x": x, "y": {"field": "value", **share}, "color": tint, "shape": shape},
                },
            ],
        }
    )


def _points(panel: CurvePanel) -> Iterator[tuple[str, CurvePoint]]:
    if panel.dense is not None:
        yield "dense", panel.dense
    for line in panel.lines:
        for point in line.points:
            yield str(line.line), point


def _marks(panel: CurvePanel) -> Iterator[dict[str, Any]]:
    for name, point in _points(panel):
        for measure in MEASURES:
            estimate = getattr(point, measure)
            if estimate is not None and estimate.value is not None:
                ends = (estimate.low, estimate.high)
                low, high = ends if None not in ends else (estimate.value, estimate.value)
                place = _place(point.sparsity, name, panel)
                yield {"line": name, "sparsity": place, "value": estimate.value, "low": low, "high": high}


def _traces(panel: CurvePanel) -> Iterator[dict[str, Any]]:
    for line in panel.lines:
        for measure in MEASURES:
            start = getattr(panel.dense, measure, None)
            path = [] if start is None or start.value is None else [(0.0, start.value)]
            path += [(mean.sparsity, v) for mean in line.means if (v := getattr(mean, measure)) is not None]
            name = str(line.line)
            for sparsity, value in path:
                place = _place(sparsity, name, panel)
                yield {"line": name, "measure": measure, "sparsity": place, "value": value}


def _place(sparsity: float, line: str, panel: CurvePanel) -> float:
    """Where a mark stands: at its sparsity, a little aside where several lines meet."""
    return sparsity + _APART * (int(line) - (len(panel.lines) - 1) / 2) if sparsity and line != "dense" else sparsity


def _words(panel: CurvePanel, curves: Curves) -> str:
    said = []
    for line in panel.lines:
        for mean in line.means:
            parts = (f"{words} {decimals(getattr(mean, name))}" for name, words in MEASURES.items())
            said.append(f"{curves.lines[line.line].name} at sparsity {mean.sparsity:g}: {', '.join(parts)}")
    return f"Share of right answers against sparsity, {panel_name(panel)}. {'; '.join(said)}."
