"""The tables behind the main ones: classes, sensitivity, form, ranks, transitions, official means, leaks."""

from __future__ import annotations

from lm_eval_illusion.report.classes import QUADRANTS
from lm_eval_illusion.report.columns import FLAGS
from lm_eval_illusion.report.halves import MATCHERS, NORMALISERS
from lm_eval_illusion.report.numbers import DASH, decimals, interval, percent
from lm_eval_illusion.report.render.close_calls import parting_table, tied_table
from lm_eval_illusion.report.render.grid import DISTANCES, Table, contrast_at, far_or_near, models_of, scope_name
from lm_eval_illusion.report.render.probe_choices import options_table
from lm_eval_illusion.report.schema import Comparison

__all__ = ["detail_tables"]


def detail_tables(comparison: Comparison) -> list[Table]:
    """The tables in their order; empty ones are dropped by the caller."""
    return [
        options_table(comparison),
        _classes(comparison),
        _sensitivity(comparison),
        _form(comparison),
        tied_table(comparison),
        _ranks(comparison),
        parting_table(comparison),
        *_transitions(comparison),
        _official(comparison),
        _leaks(comparison),
    ]


def _classes(comparison: Comparison) -> Table:
    rows = []
    for row, label, model in models_of(comparison):
        for d in DISTANCES:
            figures = far_or_near(model, d)
            if figures is None or figures.quadrants is None:
                continue
            rows.append(
                [
                    scope_name(row),
                    label,
                    d,
                    *(interval(figures.quadrants[q]) for q in QUADRANTS),
                    interval(figures.recognised_failures),
                    interval(figures.recognised_failures_corrected, sign=True),
                ]
            )
    names = [q.replace("_", "-") for q in QUADRANTS]
    columns = ["scope", "model", "options", *names, "recognised failures", "corrected"]
    return Table("Quadrants", columns, rows, brief=False)


def _sensitivity(comparison: Comparison) -> Table:
    rows: list[list[str]] = []
    overall = 0
    for row in comparison.rows:
        for d in DISTANCES:
            one, two = far_or_near(row.dense, d), far_or_near(row.pruned, d)
            if one is None or two is None or one.sensitivity is None or two.sensitivity is None:
                continue
            for n in NORMALISERS:
                before, after = one.sensitivity[n], two.sensitivity[n]
                shown = (f"{decimals(before[m])} → {decimals(after[m])}" for m in MATCHERS)
                rows.append([scope_name(row), d, n, *shown])
                overall += row.scope == "overall"
    note = (
        f"Fixed in advance, before any result was seen: {NORMALISERS[0]} and {MATCHERS[0]}. All matchers but "
        "anywhere judge long answers as wrong; anywhere takes a gold wherever it "
        "stands in the answer's line, as in a copier's."
    )
    columns = ["scope", "options", "normaliser", *MATCHERS]
    title = "Gap under every normaliser and matcher"
    return Table(title, columns, rows, note, overall=overall or None, spare=((5,),))


def _form(comparison: Comparison) -> Table:
    rows = []
    for row, label, model in models_of(comparison):
        if model.failures is None:
            continue
        shares = model.failures
        rows.append(
            [
                scope_name(row),
                label,
                *(percent(getattr(shares, flag)) for flag in FLAGS),
                *(DASH if f is None else str(f.ties) for f in (model.near, model.far)),
                decimals(model.exact),
                decimals(model.f1),
                decimals(model.char_f1),
            ]
        )
    columns = ["scope", "model", *(flag.replace("_", " ") for flag in FLAGS), "ties near", "ties far"]
    columns += ["exact", "F1", "character F1"]
    return Table("Form of the answers", columns, rows, spare=((7, 8), (5,), (11,)))


def _ranks(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        for d in DISTANCES:
            change = contrast_at(row.contrast, d)
            if change is not None and change.rank is not None and change.rank.items:
                rank = change.rank
                medians = [decimals(rank.dense_median, 1), decimals(rank.pruned_median, 1)]
                rows.append([scope_name(row), d, str(rank.items), *medians])
    columns = ["scope", "options", "items", "dense median", "pruned median"]
    title = "First-token rank of the gold in items that the pruned model only recognises"
    return Table(title, columns, rows, brief=False)


def _transitions(comparison: Comparison) -> list[Table]:
    tables = []
    names = [q.replace("_", "-") for q in QUADRANTS]
    for d in DISTANCES:
        change = contrast_at(comparison.rows[0].contrast, d)
        if change is not None and change.transitions is not None:
            table = change.transitions
            rows = [[name, *(str(table[q][r]) for r in QUADRANTS)] for name, q in zip(names, QUADRANTS, strict=True)]
            title = f"Transitions, {d} options, overall (rows: dense, columns: pruned)"
            tables.append(Table(title, ["dense", *names], rows, brief=False))
    return tables


def _official(comparison: Comparison) -> Table:
    rows = []
    for mean in comparison.official:
        for label, row in ((comparison.dense, mean.dense), (comparison.pruned, mean.pruned)):
            estimates = (row.near, row.far, row.generation, row.gap_near, row.gap_far)
            cells = [interval(estimate) for estimate in estimates]
            rows.append([mean.dataset, " ".join(mean.languages), label, *cells, decimals(row.exact), decimals(row.f1)])
    columns = ["set", "languages", "model", "MC near", "MC far", "generation", "gap near", "gap far", "exact", "F1"]
    return Table("Official mean over non-English languages", columns, rows, spare=((8, 9), (1,), (6, 7), (0,)))


def _leaks(comparison: Comparison) -> Table:
    rows = [
        [
            leak.distance,
            str(leak.items),
            decimals(leak.chance),
            decimals(leak.longest),
            decimals(leak.shortest),
            decimals(leak.first_in_passage),
            decimals(leak.most_frequent),
            " ".join(str(count) for count in leak.positions),
        ]
        for leak in comparison.leaks
    ]
    columns = [
        "options",
        "items",
        "chance",
        "longest",
        "shortest",
        "first in passage",
        "most frequent",
        "gold positions",
    ]
    return Table("Leaks: share of golds that ...", columns, rows, brief=False)
