"""The report for a terminal."""

from __future__ import annotations

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
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
from lm_eval_illusion.report.schema import Note

__all__ = ["render_text"]

_STYLE = {"alarm": "bold red", "warning": "yellow", "info": ""}
_BETWEEN, _EDGES = 3, 2
"""Blanks between columns, and at both ends together."""


def render_text(report: Report) -> RenderableType:
    """Headline, notes and the main tables; report.md holds the rest. Foreign text is never read as markup.

    With many comparisons one overview stands for their tables.
    """
    file = report.file
    many = len(file.comparisons) >= MANY
    parts: list[RenderableType] = [Text("What the numbers allow", style="bold")]
    parts += [
        Text(f"  {inert(line, 600)}", style="bold red" if line.startswith("ALARM") else "")
        for line in shown_first(file)
    ]
    if many:
        parts.append(_Fitted(overview_table(file)))
    concluded = {c.pruned: c for c in file.conclusions.comparisons} if file.conclusions else {}
    if many and file.conclusions:
        parts += [Text(f"  {inert(label)}: {inert(in_brief(c), 1200)}") for label, c in concluded.items()]
    parts += [_Fitted(table) for table in curve_tables(file.curves) if table.brief]
    parts.append(_Fitted(run_table(file)))
    parts += _notes(file.notes)
    if many:
        parts += _notes(distinct_notes(file.comparisons))
        parts += [Text(f"  {line}") for line in dict.fromkeys(c.headline[-1] for c in file.comparisons)]
        parts.append(Text("  Every comparison, by language and with all tables: report.md."))
        return Group(*parts)
    for comparison in file.comparisons:
        parts.append(Text(f"\n{inert(comparison.pruned)} against {inert(comparison.dense)}", style="bold"))
        parts += [_Fitted(table) for table in comparison_tables(comparison) if table.brief]
        parts += [_Fitted(table) for table in probe_tables(comparison) if table.brief]
        if comparison.pruned in concluded:
            parts.append(Text(f"  The paper's statements: {in_brief(concluded[comparison.pruned])}."))
        parts += _notes(comparison.notes)
        parts.append(Text(f"  {comparison.headline[-1]}"))
    return Group(*parts)


def _notes(notes: list[Note]) -> list[RenderableType]:
    return [Text(f"  {inert(note.text, 600)}", style=_STYLE[note.level]) for note in notes]


class _Fitted:
    """A table that leaves spare columns out where the terminal is too narrow for them, and says which."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it for this width."""
        kept = list(range(len(self.table.columns)))
        rows = [[inert(cell) for cell in row] for row in self.table.rows[: self.table.overall]]
        for spare in self.table.spare:
            if _width(self.table.columns, rows, kept) <= options.max_width:
                break
            kept = [column for column in kept if column not in spare]
        yield self._draw(rows, kept)

    def _draw(self, rows: list[list[str]], kept: list[int]) -> RichTable:
        said = [self.table.note] if self.table.note else []
        if len(rows) < len(self.table.rows):
            said.append("Datasets and languages: report.md.")
        left_out = [name for index, name in enumerate(self.table.columns) if index not in kept]
        if left_out:
            said.append(f"Too wide for here: {', '.join(left_out)}; report.md has them.")
        drawn = RichTable(
            title=Text(self.table.title, style="bold"),
            caption=Text(" ".join(said)) if said else None,
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        for place, index in enumerate(kept):
            heading = Text(self.table.columns[index])
            drawn.add_column(heading, justify="right" if place else "left", overflow="fold")
        for row in rows:
            drawn.add_row(*(Text(row[index]) for index in kept))
        return drawn


def _width(columns: list[str], rows: list[list[str]], kept: list[int]) -> int:
    """Columns of text that a table takes without folding a cell."""
    widths = (max(cell_len(cells[index]) for cells in [columns, *rows]) for index in kept)
    return sum(widths) + _BETWEEN * (len(kept) - 1) + _EDGES
