"""The report as Markdown, set by a template; every foreign text goes through a filter that makes it inert."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from lm_eval_illusion.report.build import Report
from lm_eval_illusion.report.render.curve_tables import curve_tables
from lm_eval_illusion.report.render.graded_picture import has_graded
from lm_eval_illusion.report.render.overview import MANY, overview_table, shown_first
from lm_eval_illusion.report.render.probe_tables import probe_tables
from lm_eval_illusion.report.render.safe import inert_markdown, inert_prose
from lm_eval_illusion.report.render.statement_tables import answers_table, statements_table, sweep_table
from lm_eval_illusion.report.render.tables import comparison_tables, run_table
from lm_eval_illusion.report.render.words import WORDS
from lm_eval_illusion.report.schema import Comparison

__all__ = ["render_markdown"]


def render_markdown(report: Report) -> str:
    """The whole report.md."""
    file = report.file
    concluded = {c.pruned: c for c in file.conclusions.comparisons} if file.conclusions else {}
    comparisons = [
        {
            "of": comparison,
            "tables": comparison_tables(comparison),
            "probes": [table for table in probe_tables(comparison, file.settings) if table.pages],
            "conclusion": concluded.get(comparison.pruned),
            "turned": _turned_against(comparison),
        }
        for comparison in file.comparisons
    ]
    many = len(file.comparisons) >= MANY
    return str(
        _template().render(
            file=file,
            many=many,
            headline=shown_first(file),
            overview=overview_table(file) if many else None,
            curves=curve_tables(file.curves),
            answers=answers_table(file.conclusions),
            sweep=sweep_table(file.conclusions),
            statements=statements_table,
            limits=list(dict.fromkeys(comparison.headline[-1] for comparison in file.comparisons)),
            graded=has_graded(file.comparisons),
            runs=run_table(file),
            comparisons=comparisons,
            words=WORDS.items(),
        )
    )


def _turned_against(comparison: Comparison) -> str:
    """Options against which the listed items turned: near ones wherever they were asked, as `items.examples` takes."""
    languages = [row.dense for row in comparison.rows if row.scope == "language" and row.dense is not None]
    near = [model.near is not None for model in languages]
    if all(near):
        return "near options"
    return "near options, or far ones where near were not asked" if any(near) else "far options"


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        autoescape=False,  # Markdown, not HTML: the filters below escape both
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["foreign"] = inert_markdown
    environment.filters["prose"] = inert_prose
    return environment.get_template("report.md.j2")
