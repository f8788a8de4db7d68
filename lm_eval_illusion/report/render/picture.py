"""Curves against sparsity as a picture: where every mark and line of `curves.svg` stands."""

from __future__ import annotations

from lm_eval_illusion.report.curve_figures import MEASURES, CurvePanel, CurvePoint, Curves
from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.naming import structured
from lm_eval_illusion.report.numbers import decimals, interval
from lm_eval_illusion.report.render.curve_tables import panel_name
from lm_eval_illusion.report.render.frame import LEFT, RIGHT, WIDTH, Mark, Picture, Trace, draw, height_of
from lm_eval_illusion.report.render.legend import SHAPES, legend, style_of
from lm_eval_illusion.report.render.safe import inert

__all__ = ["describe", "render_picture"]

TITLE = "Right answers against sparsity"
APART = 4.0
"""Shift between lines at one sparsity, so that their intervals do not cover each other."""


def render_picture(curves: Curves) -> str:
    """The whole of curves.svg. The same structure gives the same bytes."""
    panels = _shown(curves)
    structured_points = any(line.pattern.startswith("n:") for line in curves.lines)
    span = _span(curves)
    return draw(
        title=TITLE,
        description=describe(curves),
        axis="sparsity",
        legend=lambda room: legend([line.name for line in curves.lines], room, structured_points),
        panels=[_panel(panel, curves, span) for panel in panels],
        x_ticks=[(LEFT + _across(tick, span), f"{tick:g}") for tick in _ticks(span)],
        decided=all(panel.decided for panel in panels),
    )


def describe(curves: Curves) -> str:
    """The overall panel in words, for those who do not see the picture."""
    panel = curves.panels[0]
    said = [] if panel.dense is None else [f"dense: {_words(panel.dense)}"]
    for line in panel.lines:
        name = inert(curves.lines[line.line].name)
        said += [f"{name} at sparsity {mean.sparsity:g}: {_words(mean)}" for mean in line.means]
    return f"Share of right answers against sparsity, {panel_name(panel)}. " + "; ".join(said) + "."


def _words(source: object) -> str:
    parts = []
    for name, words in MEASURES.items():
        value = getattr(source, name)
        parts.append(f"{words} {decimals(value.value if isinstance(value, Estimate) else value)}")
    return ", ".join(parts)


def _shown(curves: Curves) -> list[CurvePanel]:
    """Where there is one language, overall is the same panel again."""
    return curves.panels if len(curves.panels) > 2 else curves.panels[-1:]


def _span(curves: Curves) -> float:
    """Greatest sparsity of the axis: the next tenth above all points."""
    most = max(point.sparsity for line in curves.panels[0].lines for point in line.points)
    return min(1.0, (int(most * 10 + 1e-6) + 1) / 10)


def _ticks(span: float) -> list[float]:
    step = 1 if span <= 0.8 else 2
    return [tenth / 10 for tenth in range(0, int(span * 10 + 1e-6) + 1, step)]


def _across(sparsity: float, span: float) -> float:
    return 8 + sparsity / span * (WIDTH - LEFT - RIGHT - 8)


def _panel(panel: CurvePanel, curves: Curves, span: float) -> Picture:
    marks, traces = [], []
    if panel.dense is not None:
        marks += _marks(panel.dense, LEFT + _across(0.0, span), "ink", SHAPES[0], False)
    for line in panel.lines:
        style, shape = style_of(line.line)
        shift = (line.line - (len(panel.lines) - 1) / 2) * min(APART, 16 / max(1, len(panel.lines) - 1))
        for point in line.points:
            several = sum(other.sparsity == point.sparsity for other in line.points) > 1
            place = LEFT + _across(point.sparsity, span) + (shift if point.sparsity else 0.0)
            marks += _marks(point, place, style, shape, several)
        for name in MEASURES:
            start = getattr(panel.dense, name, None)
            path = [] if start is None or start.value is None else [(LEFT + _across(0.0, span), start.value)]
            path += [
                (LEFT + _across(mean.sparsity, span) + (shift if mean.sparsity else 0.0), value)
                for mean in line.means
                if (value := getattr(mean, name)) is not None
            ]
            text = " ".join(f"{across:.1f},{height_of(value):.1f}" for across, value in path)
            traces.append(Trace(text, style, name))
    chance = sorted({height_of(value) for value in panel.chance.values()})
    note = _not_drawn(panel) if marks else "no items to compare"
    return Picture(panel_name(panel), marks, traces, chance, note)


def _not_drawn(panel: CurvePanel) -> str:
    lacking = [name for name, key in (("near", "mc"), ("far", "mc_far")) if key in panel.missing]
    if lacking:
        return f"MC {' and '.join(lacking)} not measured: MC not drawn"
    return "" if "gen" not in panel.missing else "generation not measured"


def _marks(point: CurvePoint, x: float, style: str, shape: str, small: bool) -> list[Mark]:
    marks = []
    for name, words in MEASURES.items():
        estimate = getattr(point, name)
        if estimate is None or estimate.value is None:
            continue
        ends = (estimate.low, estimate.high)
        low, high = (None if end is None else height_of(end) for end in ends)
        text = f"{inert(point.run)}: {words} {interval(estimate)}"
        hollow = structured(point.pattern) is not None
        marks.append(Mark(x, height_of(estimate.value), low, high, style, shape, hollow, small, text))
    return marks
