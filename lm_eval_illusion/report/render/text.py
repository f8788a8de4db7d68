"""The report for a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from lm_eval_illusion.report.build import Report
from lm_eval_illusion.report.render.grid import Table
from lm_eval_illusion.report.render.safe import inert
from lm_eval_illusion.report.render.tables import comparison_tables, run_table

__all__ = ["render_text"]

_STYLE = {"alarm": "bold red", "warning": "yellow", "info": ""}


def render_text(report: Report) -> RenderableType:
    """Headline, notes and the main tables; report.md holds the rest. Foreign text is never read as markup."""
    file = report.file
    parts: list[RenderableType] = [Text("What the numbers allow", style="bold")]
    parts += [
        Text(f"  {inert(line, 600)}", style="bold red" if line.startswith("ALARM") else "") for line in file.headline
    ]
    parts.append(_table(run_table(file)))
    parts += [Text(f"  {inert(note.text, 600)}", style=_STYLE[note.level]) for note in file.notes]
    for comparison in file.comparisons:
        parts.append(Text(f"\n{inert(comparison.pruned)} against {inert(comparison.dense)}", style="bold"))
        parts += [_table(table) for table in comparison_tables(comparison) if table.brief]
        parts += [Text(f"  {inert(note.text, 600)}", style=_STYLE[note.level]) for note in comparison.notes]
        parts.append(Text(f"  {comparison.headline[-1]}"))
    return Group(*parts)


def _table(table: Table) -> RichTable:
    rows = table.rows[: table.overall]
    note = table.note + (" Datasets and languages: report.md." if len(rows) < len(table.rows) else "")
    drawn = RichTable(
        title=Text(table.title, style="bold"),
        caption=Text(note) if note else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for index, column in enumerate(table.columns):
        drawn.add_column(Text(column), justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(inert(cell)) for cell in row))
    return drawn
