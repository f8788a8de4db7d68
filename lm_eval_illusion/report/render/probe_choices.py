"""Tables of what offers options, and of self-correction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.numbers import DASH, decimals, interval, percent, probability
from lm_eval_illusion.report.probe_measures import ProbeFigures
from lm_eval_illusion.report.render.grid import CHOSEN_MARK, Table, by_scope
from lm_eval_illusion.report.schema import Comparison, Row

__all__ = ["DISTANCE_WORDS", "MOVED", "choice_tables", "marked", "moved", "options_table", "side_by_side"]

DISTANCE_WORDS = {
    "paragraph": "same passage",
    "article": "same article",
    "language": "other passage",
    "random": "random string",
}
"""Distances of the graded curve, from the nearest, in words."""
ACCURACIES = {
    "mc_letters": "letters",
    "closed_mc": "no passage, near options",
    "closed_gen": "no passage, open answer",
    "choices_only": "options alone, near",
    "choices_only_far": "options alone, far",
    "question_only": "no passage, options after the question, near",
    "question_only_far": "no passage, options after the question, far",
}


MOVED = ("lost", "won", "p")
"""Columns of `moved`."""


def moved(row: Row, table: str, name: str) -> list[str]:
    """Items that were right before and wrong after, the other way round, and exact McNemar; over items of both."""
    found = row.probe_contrast.discordance.get(table, {}).get(name) if row.probe_contrast else None
    return [DASH] * len(MOVED) if found is None else [str(found.lost), str(found.won), probability(found.p)]


def choice_tables(comparison: Comparison) -> list[Table]:
    """The graded curve, self-correction, further accuracies."""
    return [_graded(comparison), _revisions(comparison), _accuracies(comparison)]


def _sides(row: Row) -> tuple[ProbeFigures | None, ProbeFigures | None]:
    return row.dense_probes, row.pruned_probes


def marked(text: str, conditions: Iterable[str], probes: ProbeFigures | None) -> str:
    """A cell, with a mark where one of the conditions behind it was asked on chosen items only."""
    chosen = probes is not None and text != DASH and not set(probes.partly).isdisjoint(conditions)
    return f"{text} {CHOSEN_MARK}" if chosen else text


def side_by_side(
    comparison: Comparison,
    names: Mapping[str, str],
    shares_of: Callable[[ProbeFigures], dict[str, Estimate]],
    conditions_of: Callable[[str], tuple[str, ...]],
    table: str,
) -> list[tuple[Row, list[str]]]:
    """Rows of both models' shares, with their items, for each name that either of them has.

    Args:
        comparison: Two models.
        names: Name -> words for it, in the order of the rows.
        shares_of: The shares of one model by name.
        conditions_of: The conditions behind a name; where one was asked on chosen items, the items are marked.
        table: Name of their discordant counts.
    """
    rows = []
    for row in comparison.rows:
        sides = [shares_of(probes) if probes else {} for probes in _sides(row)]
        for name, words in names.items():
            found = [side.get(name) for side in sides]
            if any(found):
                counts = [marked(_items(n), conditions_of(name), p) for n, p in zip(found, _sides(row), strict=True)]
                rows.append((row, [words, *counts, *map(interval, found), *moved(row, table, name)]))
    return rows


def _graded(comparison: Comparison) -> Table:
    rows = side_by_side(
        comparison,
        DISTANCE_WORDS,
        lambda probes: {p.distance: p.preferred for p in probes.graded},
        lambda _: ("mc_graded",),
        "graded",
    )
    note = "Share of items whose gold is likelier, per character, than one option at this distance; a guesser has 0.50."
    columns = ["the option is from", "n dense", "n pruned", "dense", "pruned", *MOVED]
    title = "Against one option, by its distance"
    return by_scope(title, columns, rows, note, brief=False)


def _revisions(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        for label, probes in zip((comparison.dense, comparison.pruned), _sides(row), strict=True):
            for f in probes.revisions if probes else []:
                name = "open" if f.format == "gen" else "choice"
                items = marked(str(f.items), [f"revise{f.round}_{f.format}"], probes)
                counts = [items, *(str(count) for count in (f.right_before, f.mended, f.spoilt, f.kept))]
                rows.append((row, [label, str(f.round), name, *counts, probability(f.p)]))
    note = (
        "The model sees its earlier answer and answers again. p: exact McNemar; a dash where some items were not asked "
        "(answers that were right, choices that tied)."
    )
    columns = ["model", "round", "answer", "items", "right before", "mended", "spoilt", "kept", "p"]
    return by_scope("Self-correction", columns, rows, note, brief=False)


def options_table(comparison: Comparison) -> Table:
    """KL and flips beside accuracy: equal accuracy may hide many flips. Needs no probe."""
    rows = []
    for row in comparison.rows:
        for f in row.probe_contrast.options if row.probe_contrast else []:
            moved = [interval(f.kl), f"{percent(f.flips)} ({f.flipped})", str(f.lost), str(f.won)]
            rows.append((row, [f.distance, str(f.items), *moved, decimals(f.accuracy_change, sign=True)]))
    note = (
        "KL of the pruned model's distribution over an item's options from the dense one's, nats; flips: another "
        "option is picked. Equal accuracy may hide many."
    )
    columns = ["options", "items", "KL", "flips", "lost", "won", "accuracy change"]
    title = "How far the choice among options moved, dense to pruned"
    return by_scope(title, columns, rows, note, brief=False)


def _accuracies(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        dense, pruned = _sides(row)
        for name, words in ACCURACIES.items():
            found = [probes.accuracies.get(name) if probes else None for probes in (dense, pruned)]
            chances = [probes.chances.get(name) for probes in (pruned, dense) if probes]
            chance = next((value for value in chances if value is not None), None)
            if any(found):
                condition = (name.removesuffix("_far"),)
                counts = [marked(_items(n), condition, p) for n, p in zip(found, (dense, pruned), strict=True)]
                cells = [decimals(chance), *counts, *map(interval, found), *moved(row, "accuracies", name)]
                rows.append((row, [words, *cells]))
    note = "Without the passage, a clean set leaves a model that knows nothing of it at chance."
    columns = ["condition", "chance", "n dense", "n pruned", "dense", "pruned", *MOVED]
    return by_scope("Further conditions", columns, rows, note, brief=False)


def _items(estimate: Estimate | None) -> str:
    return DASH if estimate is None else str(estimate.items)
