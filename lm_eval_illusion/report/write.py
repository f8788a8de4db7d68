"""Write report.json, report.md, items.jsonl, pictures and the page, each to a temporary file that is then renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.build import Report
from lm_eval_illusion.report.items import items_text
from lm_eval_illusion.report.render.graded_picture import has_graded, render_graded
from lm_eval_illusion.report.render.markdown import render_markdown
from lm_eval_illusion.report.render.picture import render_picture
from lm_eval_illusion.report.render.safe import escape_invisible

__all__ = ["replace_file", "write_report"]

_OPTIONAL = ("curves.svg", "graded.svg", "report.html")


def write_report(report: Report, out: Path, *, html: bool = False) -> None:
    """Write the files of a report into a folder, which is made if need be.

    `curves.svg` is written where the report has curves, `graded.svg` where a run has options at every distance; an
    older one is taken away where it has none, as is a `report.html` that was not asked for again.

    Args:
        report: What was judged.
        out: The folder.
        html: Whether to write `report.html` too.

    Raises:
        IllusionError: The folder cannot be made or written.
    """
    texts = {
        "report.json": report.file.model_dump_json(indent=1) + "\n",
        "report.md": render_markdown(report),
        "items.jsonl": items_text(report.items),
    }
    if report.file.curves is not None:
        texts["curves.svg"] = render_picture(report.file.curves)
    if has_graded(report.file.comparisons):
        texts["graded.svg"] = render_graded(report.file.comparisons)
    if html:
        from lm_eval_illusion.report.page import render_page  # the drawing library takes a while to load

        texts["report.html"] = render_page(report)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in _OPTIONAL:
            if name not in texts:
                (out / name).unlink(missing_ok=True)
        for name, text in texts.items():
            replace_file(out / name, escape_invisible(text) if name == "report.json" else text)
    except OSError as error:
        raise IllusionError(f"cannot write the report to {out} ({error}); give a writable folder with --out") from None


def replace_file(path: Path, text: str) -> None:
    """Write text beside `path` and rename it there, so that no reader ever sees half a file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
