"""The graded curve as a picture: how far off one option must be for the gold to be preferred, `graded.svg`."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.numbers import decimals, interval
from lm_eval_illusion.report.probe_measures import GradedPoint, ProbeFigures
from lm_eval_illusion.report.render.frame import LEFT, RIGHT, WIDTH, Mark, Picture, Trace, draw, height_of
from lm_eval_illusion.report.render.grid import scope_name
from lm_eval_illusion.report.render.legend import SHAPES, Entry, rows_of, style_of
from lm_eval_illusion.report.render.probe_choices import DISTANCE_WORDS
from lm_eval_illusion.report.render.safe import inert
from lm_eval_illusion.report.schema import Comparison, Row

__all__ = ["has_graded", "render_graded"]

TITLE = "Gold preferred to one option, by the option's distance"
CHANCE = 0.5
APART = 5.0
"""Shift between runs at one distance, so that their intervals do not cover each other."""

_Line = tuple[str, list[GradedPoint]]
"""A run's label and its points."""


def has_graded(comparisons: Sequence[Comparison]) -> bool:
    """Whether any run was asked for one option at each distance."""
    return any(_points(p) for c in comparisons for row in c.rows for p in (row.dense_probes, row.pruned_probes))


def render_graded(comparisons: Sequence[Comparison]) -> str:
    """The whole of graded.svg. The same structure gives the same bytes."""
    names = [comparison.pruned for comparison in comparisons]
    panels = _panels(comparisons)
    return draw(
        title=TITLE,
        description=_describe(comparisons),
        axis="the option is of the same …, or random",
        legend=lambda room: _legend(comparisons[0].dense, names, room),
        panels=[_panel(row, lines) for row, lines in panels],
        x_ticks=[(_across(place), name) for place, name in enumerate(DISTANCE_WORDS)],
        decided=all(row.decided for row, _ in panels),
    )


def _describe(comparisons: Sequence[Comparison]) -> str:
    """The overall panel in words, for those who do not see the picture."""
    _, lines = _panels(comparisons)[0]
    said = []
    for name, points in lines:
        shares = ", ".join(
            f"{DISTANCE_WORDS[point.distance]} {decimals(point.preferred.value)}" for point in _sorted(points)
        )
        if shares:
            said.append(f"{inert(name)}: {shares}")
    return f"{TITLE}. {'; '.join(said)}."


def _points(probes: ProbeFigures | None) -> list[GradedPoint]:
    return probes.graded if probes else []


def _sorted(points: Sequence[GradedPoint]) -> list[GradedPoint]:
    order = list(DISTANCE_WORDS)
    return sorted(points, key=lambda point: order.index(point.distance))


def _panels(comparisons: Sequence[Comparison]) -> list[tuple[Row, list[_Line]]]:
    """Every scope with its runs, the dense one first; where there is one language, overall alone."""
    tables = [{(row.scope, row.dataset, row.language): row for row in comparison.rows} for comparison in comparisons]
    panels = []
    for scope in dict.fromkeys(scope for table in tables for scope in table):
        rows = [table[scope] for table in tables if scope in table]
        dense = max((_points(row.dense_probes) for row in rows), key=_size)
        lines = [(comparisons[0].dense, dense)]
        for comparison, table in zip(comparisons, tables, strict=True):
            lines.append((comparison.pruned, _points(table[scope].pruned_probes) if scope in table else []))
        if any(points for _, points in lines):
            panels.append((rows[0], lines))
    return panels if len(panels) > 2 else panels[:1]


def _size(points: Sequence[GradedPoint]) -> int:
    return max((point.items for point in points), default=0)


def _legend(dense: str, names: Sequence[str], room: float) -> tuple[list[Entry], float]:
    wanted: list[tuple[str, str, str | None, str | None, bool]] = [
        (inert(dense, 60), "ink", SHAPES[0], None, False),
        *((inert(name, 60), *style_of(number), None, False) for number, name in enumerate(names)),
        ("chance", "chance", None, "chance", False),
    ]
    return rows_of(wanted, room)


def _across(place: float) -> float:
    """The centre of one of the distances."""
    return LEFT + (place + 0.5) / len(DISTANCE_WORDS) * (WIDTH - LEFT - RIGHT)


def _panel(row: Row, lines: Sequence[_Line]) -> Picture:
    marks, traces = [], []
    order = list(DISTANCE_WORDS)
    for number, (name, points) in enumerate(lines):
        style, shape = style_of(number - 1) if number else ("ink", SHAPES[0])
        shift = (number - (len(lines) - 1) / 2) * min(APART, 40 / max(1, len(lines) - 1))
        places = []
        for point in _sorted(points):
            if point.preferred.value is None:
                continue
            x = _across(order.index(point.distance)) + shift
            marks.append(_mark(x, point.preferred, style, shape, f"{inert(name)}: {DISTANCE_WORDS[point.distance]}"))
            places.append(f"{x:.1f},{height_of(point.preferred.value):.1f}")
        traces.append(Trace(" ".join(places), style, "solid"))
    return Picture(scope_name(row), marks, traces, [height_of(CHANCE)], "" if marks else "no items to compare")


def _mark(x: float, estimate: Estimate, style: str, shape: str, text: str) -> Mark:
    low, high = (None if end is None else height_of(end) for end in (estimate.low, estimate.high))
    words = f"{text} {interval(estimate)}"
    return Mark(x, height_of(estimate.value or 0.0), low, high, style, shape, False, False, words)
