"""Curves against sparsity as tables: overall with intervals, and by language."""

from __future__ import annotations

from lm_eval_illusion.report.curve_figures import MEASURES, CurveMean, CurvePanel, CurvePoint, Curves
from lm_eval_illusion.report.naming import structured
from lm_eval_illusion.report.numbers import DASH, decimals, interval
from lm_eval_illusion.report.render.grid import Table

__all__ = ["PANELS_A_TABLE", "curve_tables", "panel_name"]

PANELS_A_TABLE = 6
"""Languages side by side; more make another table."""


def panel_name(panel: CurvePanel) -> str:
    """As `scope_name`: `overall`, `tydiqa sw`; an asterisk where the sample is too small for a verdict."""
    name = " ".join(part for part in (panel.dataset, panel.language) if part) or "overall"
    return name if panel.decided else f"{name} *"


def curve_tables(curves: Curves | None) -> list[Table]:
    """The overall table, then the languages' (report.md alone shows those)."""
    if curves is None:
        return []
    return [_overall(curves), *_languages(curves)]


def _overall(curves: Curves) -> Table:
    panel = curves.panels[0]
    rows = [] if panel.dense is None else [["dense", "1", *_estimates(panel.dense)]]
    for line in panel.lines:
        for mean in line.means:
            here = [point for point in line.points if point.sparsity == mean.sparsity]
            cells = _estimates(here[0]) if len(here) == 1 else _spread(mean, here)
            name = curves.lines[line.line].name
            rows.append([f"{name} {mean.sparsity:g}{_patterns(here, name)}", str(len(here)), *cells])
    columns = ["line and sparsity", "runs", *MEASURES.values()]
    return Table("Right answers against sparsity", columns, rows, _note(curves), spare=((1,),))


def _estimates(point: CurvePoint) -> list[str]:
    return [interval(getattr(point, name)) for name in MEASURES]


def _spread(mean: CurveMean, points: list[CurvePoint]) -> list[str]:
    cells = []
    for name in MEASURES:
        values = [estimate.value for point in points if (estimate := getattr(point, name)) is not None]
        middle = getattr(mean, name)
        known = middle is not None and all(value is not None for value in values)
        cells.append(f"{decimals(middle)} ({decimals(min(values))} to {decimals(max(values))})" if known else DASH)
    return cells


def _patterns(points: list[CurvePoint], name: str) -> str:
    """The n:m pattern where the line's name tells the family alone."""
    found = {point.pattern for point in points if point.pattern and structured(point.pattern)}
    patterns = sorted(found - set(name.split()))
    return f" ({', '.join(patterns)})" if patterns else ""


def _note(curves: Curves) -> str:
    panel = curves.panels[0]
    points = [point for line in panel.lines for point in line.points]
    said = ["Overall, with 95 % intervals."]
    if any(mean.runs > 1 for line in panel.lines for mean in line.means):
        said.append("Several runs of one point: mean (least to greatest).")
    joined = sorted({point.joined for point in points})
    if len(joined) > 1:
        said.append(f"Each point has the items that it shares with the dense run: {joined[0]} to {joined[-1]}.")
    said += [f"Not on a curve: {left.run} ({left.why})." for left in curves.left_out]
    return " ".join(said)


def _languages(curves: Curves) -> list[Table]:
    panels = [panel for panel in curves.panels if panel.scope != "overall"]
    if len(panels) < 2:
        return []
    tables = []
    for start in range(0, len(panels), PANELS_A_TABLE):
        chunk = panels[start : start + PANELS_A_TABLE]
        rows = [["dense", *(_three(panel.dense) for panel in chunk)]]
        for number, line in enumerate(curves.lines):
            means = {mean.sparsity for panel in chunk for mean in panel.lines[number].means}
            for sparsity in sorted(means):
                found = [next((m for m in p.lines[number].means if m.sparsity == sparsity), None) for p in chunk]
                rows.append([f"{line.name} {sparsity:g}", *map(_three, found)])
        title = "By language: MC near / MC far / generation" if not start else "By language, continued"
        tables.append(Table(title, ["line and sparsity", *map(panel_name, chunk)], rows, brief=False))
    return tables


def _three(source: CurvePoint | CurveMean | None) -> str:
    if source is None:
        return DASH
    values = (getattr(source, name) for name in MEASURES)
    return " / ".join(decimals(value.value if hasattr(value, "value") else value) for value in values)
