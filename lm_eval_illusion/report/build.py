"""Build the report: files of runs in, one plain structure out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_illusion import __version__
from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.coherence import check_coherent
from lm_eval_illusion.report.comparability import check_comparable
from lm_eval_illusion.report.conclusion import conclude_all
from lm_eval_illusion.report.curves import gather_curves
from lm_eval_illusion.report.halves import HALVES, MATCHERS, NORMALISERS
from lm_eval_illusion.report.headline import headline, translated
from lm_eval_illusion.report.items import count_turned, examples, item_lines, items_digest
from lm_eval_illusion.report.join import join_runs
from lm_eval_illusion.report.leaks import leak_figures
from lm_eval_illusion.report.merge import read_merged
from lm_eval_illusion.report.notes import comparison_notes
from lm_eval_illusion.report.probe_notes import probe_notes
from lm_eval_illusion.report.rows import build_rows, official_means
from lm_eval_illusion.report.run_notes import run_notes
from lm_eval_illusion.report.runs import Run
from lm_eval_illusion.report.schema import Comparison, ReportFile, Settings
from lm_eval_illusion.report.summary import label_runs, summarise_run

__all__ = ["DEFAULTS", "Report", "build_from", "build_report"]

DEFAULTS = Settings(
    level=0.95, margin=0.05, min_items=30, min_clusters=8, normaliser=NORMALISERS[0], matcher=MATCHERS[0]
)
"""Fixed before looking. Below 30 items or 8 passages the verdict is "undecided"; benchmarks/coverage.py starts at 8."""


@dataclass(frozen=True)
class Report:
    """The judged structure, and the items it was judged from."""

    file: ReportFile
    """What report.json holds."""
    items: tuple[dict[str, Any], ...]
    """What items.jsonl holds, a line each."""


def build_report(runs: Sequence[Path], *, settings: Settings = DEFAULTS) -> Report:
    """Compare every run with the first, item by item.

    Nothing is sampled: the same files give the same report to the last digit.

    Args:
        runs: Run folders or results files, the dense run first; at least two. Several of one model, as when its
            failures were probed later, are joined with `+`.
        settings: Margin and least sizes.

    Raises:
        IllusionError: Fewer than two runs, or runs that cannot be read, compared or joined.
    """
    if len(runs) < 2:
        raise IllusionError(
            f"{len(runs)} run given, expected a dense one and at least one pruned: "
            "`lm-eval-illusion report RUN_DENSE RUN_PRUNED [MORE ...] --out DIR`"
        )
    return build_from([read_merged(Path(path)) for path in runs], settings=settings)


def build_from(read: list[Run], *, settings: Settings = DEFAULTS) -> Report:
    """`build_report` of runs that were read already, the dense one first."""
    for run in read:
        check_coherent(run)
    for other in read[1:]:
        check_comparable(read[0], other)
    labels = label_runs(read)
    summaries = [summarise_run(run, label) for run, label in zip(read, labels, strict=True)]
    comparisons = [
        _compare(read[0], other, labels[0], label, settings) for other, label in zip(read[1:], labels[1:], strict=True)
    ]
    notes = run_notes(summaries, [run.facts.use_cache for run in read])
    alarms = [note.text for note in [*notes, *(n for c in comparisons for n in c.notes)] if note.level == "alarm"]
    items = tuple(item_lines(read, labels))
    file = ReportFile(
        schema_name="lm-eval-illusion/report",
        schema_version=6,
        tool_version=__version__,
        items_sha256=items_digest(items),
        settings=settings,
        headline=[*(f"ALARM: {text}" for text in alarms), *(line for c in comparisons for line in c.headline[:-1])],
        notes=notes,
        runs=summaries,
        comparisons=comparisons,
        curves=gather_curves(summaries, comparisons),
        conclusions=conclude_all(comparisons, gather_curves(summaries, comparisons, least=1), items, settings),
    )
    return Report(file, items)


def _compare(first: Run, other: Run, dense: str, pruned: str, settings: Settings) -> Comparison:
    joined = join_runs(first, other)
    rows = build_rows(joined, settings)
    leaks = leak_figures(joined.items, first.documents)
    dtypes = first.facts.identity.get("dtype"), other.facts.identity.get("dtype")
    return Comparison(
        dense=dense,
        pruned=pruned,
        headline=headline(rows[0], dense, pruned, settings, translated=translated(rows)),
        notes=[
            *comparison_notes(rows[0], joined.items, leaks, first.tasks_under(HALVES), dense, pruned, dtypes),
            *probe_notes(rows[0], joined.items, dense, pruned, settings),
        ],
        rows=rows,
        official=official_means(joined),
        leaks=leaks,
        examples=examples(joined.items, first.documents),
        turned_items=count_turned(joined.items),
    )
