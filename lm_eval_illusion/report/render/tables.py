"""The report's tables as plain cells; terminal and Markdown only set them."""

from __future__ import annotations

from lm_eval_illusion.report.measures import Flips
from lm_eval_illusion.report.numbers import DASH, arrow, decimals, interval, percent, probability
from lm_eval_illusion.report.render.details import detail_tables
from lm_eval_illusion.report.render.grid import DISTANCES, Gloss, Table, contrast_at, far_or_near, models_of, scope_name
from lm_eval_illusion.report.schema import Comparison, PruningSummary, ReportFile

__all__ = ["comparison_tables", "run_table"]


MOST_LANGUAGES = 6
"""Languages of a calibration text that are listed one by one; report.json lists all."""
OWN_ZEROS = 0.001
"""Share of exact zeros in an unpruned checkpoint above which a footnote says whose they are."""


def run_table(file: ReportFile) -> Table:
    """What each run was."""
    rows = []
    for run in file.runs:
        pruning = run.pruning
        rows.append(
            [
                run.label,
                run.model,
                _short(run.identity.get("pretrained")),
                run.identity.get("dtype") or DASH,
                DASH if pruning is None else f"{pruning.method} {pruning.pattern or ''}".strip(),
                DASH if pruning is None else decimals(pruning.sparsity_asked, 3),
                DASH if pruning is None else decimals(pruning.sparsity_reached, 3),
                DASH if pruning is None else percent(pruning.coverage),
                _calibration(pruning),
                run.overlap.status,
            ]
        )
    columns = [
        "run",
        "backend",
        "model",
        "dtype",
        "method",
        "asked",
        "reached",
        "coverage",
        "calibration",
        "overlap with items",
    ]
    return Table("Runs", columns, rows, spare=((8,), (1,), (3,), (2,), (7,)), glosses=_own_zeros(file))


def _own_zeros(file: ReportFile) -> tuple[Gloss, ...]:
    """Names the checkpoints whose zeros no pruning made: a reader would take the dense model for a pruned one."""
    found = [
        run.label
        for run in file.runs
        if run.pruning is not None and not run.pruning.pruned and (run.pruning.sparsity_reached or 0.0) > OWN_ZEROS
    ]
    if not found:
        return ()
    why = "nothing was pruned, the checkpoint itself already holds that share of exact zeros."
    return (Gloss(f"Reached by {', '.join(found)}: {why}", (6,)),)


def _short(pretrained: str | None) -> str:
    """Return the last two parts of a path or hub name: the whole of it is in report.json."""
    return "/".join(pretrained.rstrip("/").split("/")[-2:]) if pretrained else DASH


def _calibration(pruning: PruningSummary | None) -> str:
    if pruning is None or not pruning.calibration_source:
        return DASH
    counts = pruning.tokens_per_language or {}
    tokens = ", ".join(f"{language} {count}" for language, count in counts.items())
    if len(counts) > MOST_LANGUAGES:
        tokens = f"{min(counts.values())} to {max(counts.values())} tokens in each of {len(counts)} languages"
    return f"{_short(pruning.calibration_source)}: {pruning.calibration_rows} x {pruning.calibration_length} ({tokens})"


def comparison_tables(comparison: Comparison) -> list[Table]:
    """All tables of one comparison, the most important first."""
    tables = [
        _answers(comparison),
        _gaps(comparison),
        _change(comparison),
        _flips(comparison),
        *detail_tables(comparison),
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
        spare=((2, 3), (1,), (7, 8)),
    )


def _gaps(comparison: Comparison) -> Table:
    rows = []
    for row, label, model in models_of(comparison):
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
    gloss = Gloss("Not interpretable: the interval of R is not above 1/k.", (4, 5), "not interpretable")
    return Table("Illusion gap with 95 % intervals", columns, rows, spare=((6,), (4, 5)), glosses=(gloss,))


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
        "p near",
        "excess far",
        "p far",
        "induced near",
        "induced far",
        "equivalence near",
    ]
    gloss = Gloss("p near, p far: of the excess, exact sign-flip test over passages.", (4, 6))
    return Table("What pruning changed", columns, rows, spare=((7, 8), (9,), (4, 6), (1, 2)), glosses=(gloss,))


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
    return Table("Flips", columns, rows, spare=((9,), (6,), (5,), (8,)), glosses=_P_VALUES)


_P_VALUES = (
    Gloss("Clustered p: each passage counts as one draw, since its items may rise and fall together.", (6,), once=True),
    Gloss(
        "Holm p: raised for the number of tests, since among many one is small by chance; the family is languages x "
        "{R near, G} of this pruned run.",
        (7,),
        once=True,
    ),
)
