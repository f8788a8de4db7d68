"""One paragraph for each comparison: what the probes allow to conclude, and what they do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval_illusion.report.conclusion_figures import Conclusion, Conclusions, Statement
from lm_eval_illusion.report.curve_figures import Curves
from lm_eval_illusion.report.growth import sweep_statements
from lm_eval_illusion.report.numbers import decimals
from lm_eval_illusion.report.probe_measures import ProbeFigures, RankFigures, VerdictCounts
from lm_eval_illusion.report.schema import Comparison, Row, Settings
from lm_eval_illusion.report.statements import MEDIAN, brought_back, find_recovery, statements

__all__ = ["FORM", "conclude", "conclude_all"]

VERDICT_WORDS = {"demoted": "demoted", "recognised_only": "recognised only", "lost": "lost", "unprobed": "unprobed"}
FORM = {
    "repeated": "repeats itself",
    "empty": "is empty",
    "cut": "was cut",
    "unclosed_thought": "ends within a thought",
    "gold_inside": "holds the gold among other words",
}
"""How the form of an answer failed -> what is said of it, in the order shown."""


def conclude_all(
    comparisons: Sequence[Comparison], curves: Curves | None, items: Sequence[dict[str, Any]], settings: Settings
) -> Conclusions | None:
    """Conclude from every comparison with probes and from the sweep; None where there is neither.

    Args:
        comparisons: Judged comparisons.
        curves: Their lines against sparsity, of a single one too.
        items: What items.jsonl holds: runs of a sweep are compared item by item.
        settings: Least sizes and the margin.
    """
    found = [conclude(c.rows[0], c.dense, c.pruned, settings) for c in comparisons]
    known = [conclusion for conclusion in found if conclusion is not None]
    sweep = sweep_statements(curves, items, settings)  # it needs no probes
    return Conclusions(comparisons=known, sweep=sweep) if known or sweep else None


def conclude(row: Row, dense: str, pruned: str, settings: Settings) -> Conclusion | None:
    """Conclude from one comparison; None where the pruned run has no probes.

    Args:
        row: The overall row.
        dense: Label of the first run.
        pruned: Label of the other run.
        settings: Least sizes and the margin.
    """
    probes = row.pruned_probes
    if probes is None:
        return None
    judged = statements(row, settings)
    said = [
        _verdicts(probes, pruned),
        _turned(row, dense, pruned),
        _demoted(judged, pruned),
        _example(probes, settings),
        _display(probes, settings),
        _reference(row.dense_probes, dense, settings),
        *_slides(row),
        _form(probes.verdicts),
        _chosen(probes),
        _open_questions(judged),
    ]
    return Conclusion(pruned=pruned, statements=judged, paragraph=[sentence for sentence in said if sentence])


def _verdicts(probes: ProbeFigures, pruned: str) -> str:
    table = probes.verdicts
    if table is None:
        return ""
    failed = table.items - table.counts["produced"]
    if not failed:
        return f"{pruned} answers all of {table.items} items, so there is nothing to bring back."
    by = ", ".join(f"{probe} {count}" for probe, count in table.demoted_by.items() if count)
    alone = table.demoted_by_shown_alone
    shown = f"; {alone} with the candidates shown alone, where a guesser may pick the gold" if alone else ""
    found = f" (brought back by {by}{shown})" if by else ""
    rest = [f"{table.counts[name]} {words}" for name, words in VERDICT_WORDS.items() if name != "demoted"]
    if not table.counts["unprobed"]:
        rest.pop()
    return (
        f"Of {failed} items out of {table.items} that {pruned} does not answer, {table.counts['demoted']} "
        f"{_are(table.counts['demoted'])} demoted{found}, {_listed(rest)}."
    )


def _turned(row: Row, dense: str, pruned: str) -> str:
    table = row.probe_contrast.verdicts if row.probe_contrast else None
    if table is None:
        return ""
    moved = {name: count for name, count in table["produced"].items() if name != "produced"}
    count = sum(moved.values())
    if not count:
        return f"There is no item that {dense} answers and {pruned} does not."
    parts = [f"{moved[name]} {words}" for name, words in VERDICT_WORDS.items() if moved.get(name)]
    return f"Of {count} that {dense} answers and {pruned} no longer does: {_listed(parts)}."


def _demoted(judged: Sequence[Statement], pruned: str) -> str:
    """What comes back on the pair's own prompt, where neither a display nor an example helps."""
    tried = [statement for statement in judged if statement.key in ("beam", "sample") and statement.numbers]
    told = "; ".join(statement.numbers for statement in tried)
    if not tried:
        return "Neither beams nor samples were run, so nothing shows what comes back on the same prompt."
    if any(statement.answer == "yes" for statement in tried):
        return (
            f"So part of what {pruned} does not say is demoted, not erased: {told} (corrected by what the same outputs "
            "hit of the items' own wrong options)."
        )
    if all(statement.answer == "no" for statement in tried):
        return f"Hardly any answer comes back on the same prompt: {told}. Demotion explains few of these failures."
    return f"Whether lost answers come back on the same prompt is undecided: {told}."


def _example(probes: ProbeFigures, settings: Settings) -> str:
    found = find_recovery(probes, "oneshot")
    if found is None:
        return ""
    return (
        f"One more example: {brought_back(found, settings)}. The share for one example may be style rather than "
        "knowledge, since an example also shows what an answer looks like."
    )


def _display(probes: ProbeFigures, settings: Settings) -> str:
    shown, without = find_recovery(probes, "shown"), find_recovery(probes, "shown_nogold")
    if shown is None:
        return ""
    ablation = f"; without the gold among them {brought_back(without, settings)}" if without else ""
    return (
        f"With the candidates displayed: {brought_back(shown, settings)}{ablation}. Whoever reads the gold in the "
        "prompt need not know it."
    )


def _reference(probes: ProbeFigures | None, dense: str, settings: Settings) -> str:
    found = [find_recovery(probes, *names) for names in (("beam8", "beam4"), ("sample pass@",), ("oneshot",))]
    told = [brought_back(figures, settings) for figures in found if figures and figures.items]
    if not told:
        return ""
    return f"Of {dense}'s own failures, for comparison: {'; '.join(told)}; pruning has no part in those."


def _slides(row: Row) -> Iterable[str]:
    for figures in row.probe_contrast.ranks if row.probe_contrast else []:
        distance = figures.group.removeprefix("turned_")
        if distance != figures.group and figures.items and figures.slid is not None:
            yield _slide(figures, distance)


def _slide(figures: RankFigures, distance: str) -> str:
    before, after = (q[MEDIAN] if q else None for q in (figures.dense_first, figures.pruned_first))
    return (
        f"In {figures.items} item{'' if figures.items == 1 else 's'} that turned from answered to recognised only "
        f"({distance} options) the median rank of the gold's first token went from {decimals(before, 1)} to "
        f"{decimals(after, 1)}; {figures.slid} slid, {figures.rose} rose."
    )


def _form(table: VerdictCounts | None) -> str:
    """Broken answers among those that no probe brought back."""
    if table is None:
        return ""
    names = ("recognised_only", "lost")
    count = sum(table.counts[name] for name in names)
    counts = {flag: sum(table.failures.get(name, {}).get(flag, 0) for name in names) for flag in FORM}
    broken = [f"{words} in {counts[flag]}" for flag, words in FORM.items() if counts[flag]]
    if not count or not broken:
        return ""
    told = _listed(broken)
    return f"Of the {count} not brought back the answer {told}: there the form broke, and knowledge may be left."


def _chosen(probes: ProbeFigures) -> str:
    if not probes.partly:
        return ""
    return f"Run on chosen items only, so that what they would spoil is unknown: {', '.join(probes.partly)}."


def _open_questions(judged: Sequence[Statement]) -> str:
    parts = [f"{statement.claim} ({statement.reason})" for statement in judged if statement.answer == "undecided"]
    return f"Not decided: {'; '.join(parts)}." if parts else ""


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
