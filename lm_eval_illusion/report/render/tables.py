"""The report's tables as plain cells; terminal and Markdown only set them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lm_eval_illusion.report.classes import QUADRANTS
from lm_eval_illusion.report.columns import Distance
from lm_eval_illusion.report.halves import MATCHERS, NORMALISERS
from lm_eval_illusion.report.numbers import DASH, arrow, decimals, interval, percent, probability
from lm_eval_illusion.report.schema import (
    Comparison,
    Contrast,
    DistanceContrast,
    DistanceFigures,
    Flips,
    ModelFigures,
    PruningSummary,
    ReportFile,
    Row,
)

__all__ = ["Table", "comparison_tables", "run_table"]

DISTANCES: tuple[Distance, ...] = ("near", "far")


@dataclass(frozen=True)
class Table:
    """A titled table of plain text cells (not yet escaped)."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    brief: bool = True
    """Whether the terminal shows it too."""


def scope_name(row: Row) -> str:
    """`overall`, `tydiqa`, `tydiqa sw`; an asterisk where the sample is too small for a verdict."""
    name = " ".join(part for part in (row.dataset, row.language) if part) or "overall"
    return name if row.decided else f"{name} *"


def far_or_near(source: ModelFigures | None, distance: Distance) -> DistanceFigures | None:
    """One model's figures at one distance."""
    return None if source is None else source.near if distance == "near" else source.far


def contrast_at(source: Contrast | None, distance: Distance) -> DistanceContrast | None:
    """The contrast at one distance."""
    return None if source is None else source.near if distance == "near" else source.far


def run_table(file: ReportFile) -> Table:
    """What each run was."""
    rows = []
    for run in file.runs:
        pruning = run.pruning
        rows.append(
            [
                run.label,
                run.model,
                DASH if pruning is None else f"{pruning.method} {pruning.pattern or ''}".strip(),
                DASH if pruning is None else decimals(pruning.sparsity_asked, 3),
                DASH if pruning is None else decimals(pruning.sparsity_reached, 3),
                DASH if pruning is None else percent(pruning.coverage),
                _calibration(pruning),
                run.overlap.status,
            ]
        )
    columns = ["run", "backend", "method", "asked", "reached", "coverage", "calibration", "overlap with items"]
    return Table("Runs", columns, rows)


def _calibration(pruning: PruningSummary | None) -> str:
    if pruning is None or not pruning.calibration_source:
        return DASH
    tokens = ", ".join(f"{language} {count}" for language, count in (pruning.tokens_per_language or {}).items())
    return f"{pruning.calibration_source}: {pruning.calibration_rows} x {pruning.calibration_length} ({tokens})"


def comparison_tables(comparison: Comparison) -> list[Table]:
    """All tables of one comparison, the most important first."""
    tables = [
        _answers(comparison),
        _gaps(comparison),
        _change(comparison),
        _flips(comparison),
        _classes(comparison),
        _sensitivity(comparison),
        _form(comparison),
        _ranks(comparison),
        *_transitions(comparison),
        _official(comparison),
        _leaks(comparison),
    ]
    return [table for table in tables if table.rows]


def _answers(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        dense, pruned = row.dense, row.pruned
        cells = [scope_name(row), str(row.joined), str(row.excluded), str(row.unmatched)]
        for d in DISTANCES:
            one, two = far_or_near(dense, d), far_or_near(pruned, d)
            cells.append(arrow(one.accuracy if one else None, two.accuracy if two else None))
        cells.append(arrow(dense.generation if dense else None, pruned.generation if pruned else None))
        for d in DISTANCES:
            one, two = far_or_near(dense, d), far_or_near(pruned, d)
            cells.append(arrow(one.gap if one else None, two.gap if two else None))
        rows.append(cells)
    columns = ["scope", "joined", "excluded", "unmatched", "MC near", "MC far", "generation", "gap near", "gap far"]
    return Table(
        "Recognising and answering (dense → pruned)",
        columns,
        rows,
        "An asterisk: too few items or passages for a verdict.",
    )


def _models(comparison: Comparison) -> Iterator[tuple[Row, str, ModelFigures]]:
    for row in comparison.rows:
        for label, model in ((comparison.dense, row.dense), (comparison.pruned, row.pruned)):
            if model is not None:
                yield row, label, model


def _gaps(comparison: Comparison) -> Table:
    rows = []
    for row, label, model in _models(comparison):
        cells = [scope_name(row), label]
        for d in DISTANCES:
            figures = far_or_near(model, d)
            cells.append(interval(figures.gap if figures else None))
        for d in DISTANCES:
            figures = far_or_near(model, d)
            at_chance = figures is not None and figures.corrected_gap is not None and not figures.interpretable
            cells.append("not interpretable" if at_chance else interval(figures.corrected_gap if figures else None))
        cells.append(interval(model.far_less_near))
        rows.append(cells)
    columns = ["scope", "model", "gap near", "gap far", "corrected near", "corrected far", "far − near"]
    return Table("Illusion gap with 95 % intervals", columns, rows, "Not interpretable: the interval of R covers 1/k.")


def _change(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        if row.contrast is None:
            continue
        cells = [scope_name(row)]
        for d in DISTANCES:
            one, two = far_or_near(row.dense, d), far_or_near(row.pruned, d)
            cells.append(
                arrow(
                    one.quadrants["recognition_only"] if one and one.quadrants else None,
                    two.quadrants["recognition_only"] if two and two.quadrants else None,
                )
            )
        for d in DISTANCES:
            change = contrast_at(row.contrast, d)
            cells += [
                interval(change.excess_gap if change else None, sign=True),
                probability(change.excess_p if change else None),
            ]
        for d in DISTANCES:
            change = contrast_at(row.contrast, d)
            cells.append(interval(change.induced if change else None, sign=True))
        near = contrast_at(row.contrast, "near")
        cells.append(near.excess_equivalence.verdict if near and near.excess_equivalence else DASH)
        rows.append(cells)
    columns = [
        "scope",
        "rec.-only near",
        "rec.-only far",
        "excess near",
        "p",
        "excess far",
        "p",
        "induced near",
        "induced far",
        "equivalence near",
    ]
    return Table("What pruning changed", columns, rows, "p: exact sign-flip test over passages.")


def _flips(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        near, far = contrast_at(row.contrast, "near"), contrast_at(row.contrast, "far")
        kinds: list[tuple[str, Flips | None]] = [
            ("R near", near.accuracy if near else None),
            ("R far", far.accuracy if far else None),
            ("G", row.contrast.generation if row.contrast else None),
        ]
        for name, flips in kinds:
            if flips is not None:
                rows.append(
                    [
                        scope_name(row),
                        name,
                        str(flips.lost),
                        str(flips.won),
                        interval(flips.delta, sign=True),
                        probability(flips.p),
                        probability(flips.p_cluster),
                        probability(flips.p_holm),
                        flips.equivalence.verdict,
                        decimals(flips.detectable),
                    ]
                )
    columns = [
        "scope",
        "answer",
        "lost",
        "won",
        "delta",
        "McNemar p",
        "clustered p",
        "Holm p",
        "equivalence",
        "detectable",
    ]
    return Table("Flips", columns, rows, "Holm over languages x {R near, G} of this pruned run.")


def _classes(comparison: Comparison) -> Table:
    rows = []
    for row, label, model in _models(comparison):
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
    rows = []
    overall = comparison.rows[0]
    for d in DISTANCES:
        one, two = far_or_near(overall.dense, d), far_or_near(overall.pruned, d)
        if one is None or two is None or one.sensitivity is None or two.sensitivity is None:
            continue
        for n in NORMALISERS:
            before, after = one.sensitivity[n], two.sensitivity[n]
            rows.append([d, n, *(f"{decimals(before[m])} → {decimals(after[m])}" for m in MATCHERS)])
    note = f"Fixed in advance: {NORMALISERS[0]} and {MATCHERS[0]}."
    return Table("Gap under every normaliser and matcher, overall", ["options", "normaliser", *MATCHERS], rows, note)


def _form(comparison: Comparison) -> Table:
    rows = []
    for row, label, model in _models(comparison):
        if model.failures is None:
            continue
        shares = model.failures
        rows.append(
            [
                scope_name(row),
                label,
                *(percent(s) for s in (shares.empty, shares.repeated, shares.cut, shares.unclosed_thought)),
                *(DASH if f is None else str(f.ties) for f in (model.near, model.far)),
                decimals(model.exact),
                decimals(model.f1),
                decimals(model.char_f1),
            ]
        )
    columns = ["scope", "model", "empty", "repeated", "cut", "unclosed thought", "ties near", "ties far"]
    return Table("Form of the answers", [*columns, "exact", "F1", "character F1"], rows)


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
    return Table("Official mean over non-English languages", columns, rows)


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
