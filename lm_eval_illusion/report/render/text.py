"""The report for a terminal."""

from __future__ import annotations

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from lm_eval_illusion.report.build import Report
from lm_eval_illusion.report.render.curve_tables import curve_tables
from lm_eval_illusion.report.render.grid import Table
from lm_eval_illusion.report.render.overview import MANY, distinct_notes, overview_table, shown_first
from lm_eval_illusion.report.render.probe_tables import probe_tables
from lm_eval_illusion.report.render.safe import inert
from lm_eval_illusion.report.render.statement_tables import in_brief
from lm_eval_illusion.report.render.tables import comparison_tables, run_table
from lm_eval_illusion.report.schema import Note, ReportFile

__all__ = ["render_text"]

_STYLE = {"alarm": "bold red", "warning": "yellow", "info": ""}
_BETWEEN, _EDGES = 3, 2
"""Blanks between columns, and at both ends together."""


def render_text(report: Report) -> RenderableType:
    """Headline, notes and the main tables; report.md holds the rest. Foreign text is never read as markup.

    With many comparisons one overview stands for their tables. What the numbers allow is said on top and again at the
    end, where the eye is when all has scrolled by.
    """
    file = report.file
    many = len(file.comparisons) >= MANY
    allowed = _allowed(file)
    parts: list[RenderableType | Table] = [*allowed]
    if many:
        parts.append(overview_table(file))
    concluded = {c.pruned: c for c in file.conclusions.comparisons} if file.conclusions else {}
    if many and file.conclusions:
        parts += [Text(f"  {inert(label)}: {inert(in_brief(c.statements), 1200)}") for label, c in concluded.items()]
    if file.conclusions and file.conclusions.sweep:
        parts.append(Text(f"  Across the sweep: {inert(in_brief(file.conclusions.sweep), 1200)}."))
    parts += [table for table in curve_tables(file.curves) if table.brief]
    parts.append(run_table(file))
    parts += _notes(file.notes)
    if many:
        parts += _notes(distinct_notes(file.comparisons))
        parts.append(Text("  Every comparison, by language and with all tables: report.md."))
    for comparison in file.comparisons if not many else ():
        parts.append(Text(f"\n{inert(comparison.pruned)} against {inert(comparison.dense)}", style="bold"))
        parts += [table for table in comparison_tables(comparison) if table.brief]
        parts += [table for table in probe_tables(comparison, file.settings) if table.brief]
        if comparison.pruned in concluded:
            parts.append(Text(f"  The paper's statements: {in_brief(concluded[comparison.pruned].statements)}."))
        parts += _notes(comparison.notes)
    limits = dict.fromkeys(comparison.headline[-1] for comparison in file.comparisons)
    return _Shown([*parts, Text(), *allowed, *(Text(f"  {line}") for line in limits)])


def _allowed(file: ReportFile) -> list[RenderableType]:
    lines = [
        Text(f"  {inert(line, 600)}", style="bold red" if line.startswith("ALARM") else "")
        for line in shown_first(file)
    ]
    return [Text("What the numbers allow", style="bold"), *lines]


def _notes(notes: list[Note]) -> list[RenderableType]:
    return [Text(f"  {inert(note.text, 600)}", style=_STYLE[note.level]) for note in notes]


class _Shown:
    """Texts and tables; a gloss is said at the first table that needs it."""

    def __init__(self, parts: list[RenderableType | Table]) -> None:
        self.parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw all of it for this width."""
        told: set[str] = set()
        for part in self.parts:
            yield _fitted(part, options.max_width, told) if isinstance(part, Table) else part


def _fitted(table: Table, width: int, told: set[str]) -> RichTable:
    """A table without the spare columns for which there is no room, which it names."""
    kept = list(range(len(table.columns)))
    rows = [[inert(cell) for cell in row] for row in table.rows[: table.overall]]
    for spare in table.spare:
        if _width(table.columns, rows, kept) <= width:
            break
        kept = [column for column in kept if column not in spare]
    below = table.said(rows, kept, told)
    told.update(gloss.text for gloss in table.glosses if gloss.text in below)
    said = [below] if below else []
    if len(rows) < len(table.rows):
        said.append("Datasets and languages: report.md.")
    left_out = [name for index, name in enumerate(table.columns) if index not in kept]
    if left_out:
        said.append(f"Too wide for here: {', '.join(left_out)}; report.md has them.")
    drawn = RichTable(
        title=Text(table.title, style="bold"),
        caption=Text(" ".join(said)) if said else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for place, index in enumerate(kept):
        heading = Text(table.columns[index])
        drawn.add_column(heading, justify="right" if place else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(row[index]) for index in kept))
    return drawn


def _width(columns: list[str], rows: list[list[str]], kept: list[int]) -> int:
    """Columns of text that a table takes without folding a cell."""
    widths = (max(cell_len(cells[index]) for cells in [columns, *rows]) for index in kept)
    return sum(widths) + _BETWEEN * (len(kept) - 1) + _EDGES
