"""Tables of close calls: answers that rounding may have chosen, and where gold and rival part."""

from __future__ import annotations

from lm_eval_illusion.report.classes import QUADRANTS
from lm_eval_illusion.report.measures import PartingFigures, TiedOf
from lm_eval_illusion.report.numbers import DASH, decimals
from lm_eval_illusion.report.render.grid import DISTANCES, Table, far_or_near, models_of, scope_name
from lm_eval_illusion.report.schema import Comparison

__all__ = ["parting_table", "tied_table"]


def tied_table(comparison: Comparison) -> Table:
    """Answers with a tied greedy step: all, the recognition-only ones, and those of the flips."""
    rows, overall = [], 0
    for row, label, model in models_of(comparison):
        if model.tied is None:
            continue
        flips = row.contrast.tied_flips if row.contrast and model is row.pruned else None
        counts = [model.tied.answers, *(model.tied.recognition_only.get(d) for d in DISTANCES), flips]
        rows.append([scope_name(row), label, *map(_of, counts)])
        overall += row.scope == "overall"
    note = (
        "Where the two highest logits are equal in the model's dtype, rounding chose the token. Flips: a tie in either."
    )
    columns = ["scope", "model", "answers", "rec.-only near", "rec.-only far", "flips of G"]
    return Table("Answers with a tied greedy step", columns, rows, note, overall=overall or None)


def parting_table(comparison: Comparison) -> Table:
    """Median rank of the gold's token and median margin at the token where gold and strongest rival part."""
    rows, overall = [], 0
    for row, label, model in models_of(comparison):
        for d in DISTANCES:
            figures = far_or_near(model, d)
            if figures is None or figures.parting is None:
                continue
            rows.append([scope_name(row), label, d, *(_parting(figures.parting[q]) for q in QUADRANTS)])
            overall += row.scope == "overall"
    note = (
        "Rank of the gold's token there among the whole vocabulary, 1 being what the model would write; margin of its "
        "log-probability over the rival's."
    )
    columns = ["scope", "model", "options", *(q.replace("_", "-") for q in QUADRANTS)]
    title = "Where the gold parts from its strongest rival: median rank, median margin in nats (number of items)"
    return Table(title, columns, rows, note, overall=overall or None, spare=((5,), (6,)))


def _of(counted: TiedOf | None) -> str:
    return DASH if counted is None else f"{counted.tied} of {counted.of}"


def _parting(figures: PartingFigures) -> str:
    if not figures.items:
        return DASH
    return f"{decimals(figures.median_rank, 1)}, {decimals(figures.median_margin, sign=True)} ({figures.items})"
