"""The illusion gap of every run, a panel a language, near and far together."""

from __future__ import annotations

from lm_eval_illusion.report.numbers import interval
from lm_eval_illusion.report.page.figures.dots import FORMS, Dot, Series, dot_panel, dot_words, span_of
from lm_eval_illusion.report.page.figures.model import Figure, Key, Panel
from lm_eval_illusion.report.render.grid import DISTANCES, Table, far_or_near, scope_name
from lm_eval_illusion.report.schema import Comparison, ReportFile, Row

__all__ = ["gap_figure"]

_LOOK = {"near": Series("c0", "circle"), "far": Series("c1", "triangle-up")}
_Place = tuple[str | None, str | None]


def gap_figure(file: ReportFile) -> Figure | None:
    """Gap by language and run with intervals; None where no run has both halves."""
    fullest = max(file.comparisons, key=lambda comparison: comparison.rows[0].joined)
    places: dict[_Place, list[tuple[str, Row, bool]]] = {}
    for row in fullest.rows:
        places.setdefault((row.dataset, row.language), []).append((fullest.dense, row, True))
    for comparison in file.comparisons:
        for row in comparison.rows:
            places.setdefault((row.dataset, row.language), []).append((comparison.pruned, row, False))
    found = {place: _dots(rows) for place, rows in places.items() if _shown(place, fullest)}
    found = {place: dots for place, dots in found.items() if dots}
    if not found:
        return None
    span = span_of([dot.estimate for dots in found.values() for dot in dots], (0.0, 0.5))
    panels = []
    for place, dots in found.items():
        name = scope_name(places[place][0][1])
        svg = dot_panel(dots, _LOOK, span, "illusion gap")
        panels.append(Panel(name, svg, f"Illusion gap, {name}. {dot_words(dots)}."))
    rows = [
        [scope_name(places[place][0][1]), dot.row, dot.series, interval(dot.estimate), "no" if dot.doubtful else "yes"]
        for place, dots in found.items()
        for dot in dots
    ]
    columns = ["scope", "run", "options", "gap [95 % interval]", "multiple choice told from chance"]
    note = (
        "Told from chance: the interval of multiple choice lies above 1/k, so that a gap can be read at all. Whether "
        "there is one, its own interval says; whether pruning changed it, the conclusion on top."
    )
    keys = [Key(f"{name} options", look.colour, FORMS[look.form]) for name, look in _LOOK.items()]
    return Figure(
        "Gap between recognising and answering",
        "Share of right choices less share of right open answers, with 95 % intervals. Hollow: the choices cannot be "
        "told from guessing, so the gap says nothing. An asterisk: too few items or passages for a verdict.",
        panels,
        keys,
        Table("Illusion gap", columns, rows, note),
    )


def _shown(place: _Place, comparison: Comparison) -> bool:
    """Where there is one language, its panel is the overall one again."""
    return place == (None, None) or (
        place[1] is not None and sum(row.scope == "language" for row in comparison.rows) > 1
    )


def _dots(rows: list[tuple[str, Row, bool]]) -> list[Dot]:
    dots = []
    for label, row, first in rows:
        for distance in DISTANCES:
            figures = far_or_near(row.dense if first else row.pruned, distance)
            if figures is not None and figures.gap is not None and figures.gap.value is not None:
                dots.append(Dot(label, distance, figures.gap, not figures.interpretable))
    return dots
