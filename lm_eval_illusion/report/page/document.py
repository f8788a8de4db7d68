"""The page as one text: a template, a style sheet and a script of this package, and the report's figures and items."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.build import Report
from lm_eval_illusion.report.classes import QUADRANTS
from lm_eval_illusion.report.page.figures import (
    QUADRANT_WORDS,
    curve_figure,
    flow_figure,
    gap_figure,
    ladder_figure,
    layer_figure,
    rank_figure,
    recovery_figure,
)
from lm_eval_illusion.report.page.pack import pack_items
from lm_eval_illusion.report.probe_measures import VERDICTS
from lm_eval_illusion.report.render.curve_tables import curve_tables
from lm_eval_illusion.report.render.legend import COLOURS, GROUNDS
from lm_eval_illusion.report.render.overview import MANY, distinct_notes, overview_table
from lm_eval_illusion.report.render.probe_tables import probe_tables
from lm_eval_illusion.report.render.safe import inert
from lm_eval_illusion.report.render.statement_tables import answers_table, statements_table, sweep_table
from lm_eval_illusion.report.render.tables import comparison_tables, run_table

__all__ = ["SCRIPTS", "render_page"]

SCRIPTS = ("data.js", "filters.js", "list.js", "detail.js", "main.js")
"""Set one after the other into one script element."""
_HERE = Path(__file__).parent / "assets"


def render_page(report: Report) -> str:
    """The whole report.html. It loads nothing; its policy allows its own script alone."""
    file = report.file
    labels = [run.label for run in file.runs]
    script = _script()
    return str(
        _template().render(
            file=file,
            many=len(file.comparisons) >= MANY,
            alarms=[line for line in file.headline if line.startswith("ALARM")],
            overview=overview_table(file) if len(file.comparisons) >= MANY else None,
            answers=answers_table(file.conclusions),
            sweep=sweep_table(file.conclusions),
            limits=list(dict.fromkeys(comparison.headline[-1] for comparison in file.comparisons)),
            notes=[*file.notes, *distinct_notes(file.comparisons)],
            gap=gap_figure(file),
            curves=curve_figure(file.curves),
            curve_tables=curve_tables(file.curves)[1:],
            layers=layer_figure(file.runs),
            runs=run_table(file),
            comparisons=[_comparison(file, index) for index in range(len(file.comparisons))],
            packed=pack_items(report.items, labels),
            words={
                "quadrants": {name: QUADRANT_WORDS[name] for name in QUADRANTS},
                "verdicts": {name: name.replace("_", " ") for name in VERDICTS},
                "conditions": {name: condition.words for name, condition in CONDITIONS.items()},
            },
            palette={"light": COLOURS["light"], "dark": COLOURS["dark"]},
            grounds=GROUNDS,
            style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
        )
    )


def _comparison(file: Any, index: int) -> dict[str, Any]:
    comparison = file.comparisons[index]
    concluded = {c.pruned: c for c in file.conclusions.comparisons} if file.conclusions else {}
    conclusion = concluded.get(comparison.pruned)
    figures = [ladder_figure(comparison, file.settings), recovery_figure(comparison, file.settings)]
    probed = [table for table in probe_tables(comparison, file.settings) if table.pages]
    tables = [*comparison_tables(comparison), *probed]
    return {
        "of": comparison,
        "number": index + 1,
        "flow": flow_figure(comparison),
        "moves": _moves(comparison),
        "probes": [figure for figure in figures if figure is not None],
        "ranks": rank_figure(comparison),
        "conclusion": conclusion,
        "tables": [*([statements_table(conclusion)] if conclusion else []), *tables],
    }


def _moves(comparison: Any) -> list[tuple[str, dict[str, dict[str, int]]]]:
    """The transitions that a figure shows, to be links into the items."""
    contrast = comparison.rows[0].contrast
    sides = [("near", contrast.near), ("far", contrast.far)] if contrast else []
    return [(name, side.transitions) for name, side in sides if side is not None and side.transitions is not None]


def _script() -> str:
    parts = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["foreign"] = lambda text: inert(str(text), 400)
    environment.filters["prose"] = lambda text: inert(str(text), 2000)
    environment.filters["spoken"] = lambda text: inert(str(text), 6000)
    environment.filters["drawn"] = Markup
    return environment.get_template("page.html.j2")
