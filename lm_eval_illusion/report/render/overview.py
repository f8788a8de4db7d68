"""Many runs at a glance: one row a run, so that a sweep is read before its details."""

from __future__ import annotations

from lm_eval_illusion.report.headline import in_short, translated
from lm_eval_illusion.report.measures import Flips, ModelFigures
from lm_eval_illusion.report.numbers import DASH, decimals, interval, probability
from lm_eval_illusion.report.render.grid import DISTANCES, Gloss, Table, contrast_at, far_or_near
from lm_eval_illusion.report.schema import Comparison, Note, ReportFile

__all__ = ["MANY", "distinct_notes", "overview_table", "shown_first"]

MANY = 4
"""Comparisons from which the terminal shows the overview instead of every comparison's tables."""

GUESSING = "†"
"""Beside a gap that is not interpretable."""


def overview_table(file: ReportFile) -> Table:
    """Overall figures of every run; the dense model's as the comparison with the most items has them."""
    fullest = max(file.comparisons, key=lambda comparison: comparison.rows[0].joined)
    rows = [[fullest.dense, str(fullest.rows[0].joined), *_model(fullest.rows[0].dense), *[DASH] * 6]]
    for comparison in file.comparisons:
        row = comparison.rows[0]
        cells = [comparison.pruned, f"{row.joined}{'' if row.decided else ' *'}", *_model(row.pruned)]
        for d in DISTANCES:
            change = contrast_at(row.contrast, d)
            cells += [
                interval(change.excess_gap if change else None, sign=True),
                probability(change.excess_p if change else None),
            ]
        flips = row.contrast.generation if row.contrast else None
        rows.append([*cells, interval(flips.delta if flips else None, sign=True), probability(_primary(flips))])
    columns = ["run", "items", "MC near", "MC far", "generation", "gap near", "gap far"]
    changes = ["excess near", "p near", "excess far", "p far", "G change", "p G"]
    glosses = (
        Gloss("p values are of each run alone, not corrected for the number of runs.", (8, 10, 12)),
        Gloss(f"{GUESSING}: multiple choice is not above chance, so the gap says nothing.", (5, 6), GUESSING),
    )
    spare = ((8, 10, 12), (11,), (7, 9), (5, 6))
    note = "Against the first run, overall."
    return Table("All runs at a glance", columns + changes, rows, note, spare=spare, glosses=glosses)


def shown_first(file: ReportFile) -> list[str]:
    """What the numbers allow: all sentences of few comparisons, of many the alarms and a sentence each."""
    if len(file.comparisons) < MANY:
        return file.headline
    alarms = [line for line in file.headline if line.startswith("ALARM")]
    told = [in_short(c.rows[0], c.pruned, file.settings, translated=translated(c.rows)) for c in file.comparisons]
    return [*alarms, *told]


def distinct_notes(comparisons: list[Comparison]) -> list[Note]:
    """Notes of all comparisons; one that several share is given once, with their number."""
    counts: dict[tuple[str, str], int] = {}
    for comparison in comparisons:
        for note in comparison.notes:
            counts[note.level, note.text] = counts.get((note.level, note.text), 0) + 1
    return [
        Note.model_validate({"level": level, "text": text if count == 1 else f"{text} ({count} comparisons)"})
        for (level, text), count in counts.items()
    ]


def _model(model: ModelFigures | None) -> list[str]:
    sides = [far_or_near(model, d) for d in DISTANCES]
    accuracies = [side.accuracy if side else None for side in sides]
    estimates = [*accuracies, model.generation if model else None]
    cells = [decimals(estimate.value if estimate else None) for estimate in estimates]
    for side in sides:
        gap = side.gap if side else None
        guessing = f" {GUESSING}" if gap is not None and side is not None and not side.interpretable else ""
        cells.append(f"{decimals(gap.value if gap else None)}{guessing}")
    return cells


def _primary(flips: Flips | None) -> float | None:
    return None if flips is None else flips.p if flips.p_cluster is None else flips.p_cluster
