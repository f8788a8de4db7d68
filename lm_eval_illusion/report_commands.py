"""The command that reports, and what other commands end with; `cli` adds it to the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

HTML_HELP = "Write report.html too: one page that loads nothing."
FILE_WIDTH = 160
"""Columns of tables that go to a file or a pipe; a terminal tells its own."""
console = Console()


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_DENSE RUN_PRUNED [MORE ...]", help="Run folders; several of one model are joined with +."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for report.json, report.md and items.jsonl.")],
    html: Annotated[bool, typer.Option("--html", help=HTML_HELP)] = False,
) -> None:
    """Join runs item by item against the first one and say what pruning did."""
    write_and_show(runs, out, html=html)


def write_and_show(runs: list[Path], out: Path, *, html: bool) -> None:
    """Build the report of run folders, write it to a folder, and print it as tables."""
    from lm_eval_illusion.report.build import build_report
    from lm_eval_illusion.report.render.text import render_text
    from lm_eval_illusion.report.write import write_report

    built = build_report(runs)
    write_report(built, out, html=html)
    wide = "COLUMNS" not in os.environ and not console.is_terminal
    console.print(render_text(built), width=FILE_WIDTH if wide else None)
    page = [out / "report.html"] if html else []
    print(
        "report: "
        + ", ".join(str(path) for path in [*page, *(out / n for n in ("report.md", "report.json", "items.jsonl"))])
    )


def add_to(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(report)
