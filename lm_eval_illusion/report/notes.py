"""Sentences about a comparison that warn: what would make a reader trust its numbers too much."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.report.halves import HALVES
from lm_eval_illusion.report.held_golds import held_note
from lm_eval_illusion.report.join import Item
from lm_eval_illusion.report.measures import ModelFigures
from lm_eval_illusion.report.schema import LeakFigures, Note, Row

__all__ = ["comparison_notes"]

TOO_EASY = 0.95
"""Dense near multiple choice above this leaves no room to see a loss."""
TOO_HARD = 0.2
"""Dense generation below this leaves little to lose; the prompt may be wrong for the model."""
FORMAT_LOSS = 0.1
"""Share of empty, repeated, cut or unclosed answers from which a formatting loss is named."""


def comparison_notes(
    row: Row,
    items: Sequence[Item],
    leaks: Sequence[LeakFigures],
    tasks: Sequence[str],
    dense: str,
    pruned: str,
    dtypes: tuple[str | None, str | None],
) -> list[Note]:
    """Notes about one comparison, from its overall row and items.

    Args:
        row: The overall row.
        items: What was joined.
        leaks: Leak figures of those items.
        tasks: Tasks that were run.
        dense: Label of the first run.
        pruned: Label of the other run.
        dtypes: Both models' dtypes, where known.
    """
    notes = []
    if items and all(item.dense == item.pruned for item in items):
        notes.append(
            _alarm(
                f"{pruned} gave exactly the scores and answers of {dense} on all {len(items)} items: is it the "
                "same model?"
            )
        )
    for condition in row.missing:
        notes.append(
            _warning(
                f"Not measured in every language: {HALVES[condition]}. Never read one distance without the "
                "other; run both "
                f"models with --tasks {_with(tasks, condition)}."
            )
        )
    if row.joined and row.excluded / (row.joined + row.excluded) > 0.1:
        reasons = ", ".join(f"{count} {reason}" for reason, count in row.excluded_reasons.items())
        notes.append(
            _warning(f"{row.excluded} item(s) excluded as invalid ({reasons}); the rest may be the easier ones.")
        )
    if row.unmatched:
        notes.append(_warning(f"Not compared, since in one run only or lacking a half: {row.unmatched} item(s)."))
    if row.dense is not None:
        notes += _reference(row.dense, dense)
    for label, model in ((dense, row.dense), (pruned, row.pruned)):
        notes += _format(model, label)
    for label, halves in ((dense, [i.dense for i in items]), (pruned, [i.pruned for i in items])):
        held = held_note(halves, label)
        notes += [held] if held else []
    notes += _rounding(row, dense, pruned, dtypes)
    for leak in leaks:
        allowed = leak.chance + 3 * (leak.chance * (1 - leak.chance) / leak.items) ** 0.5
        if leak.longest > allowed:
            notes.append(
                _warning(
                    f"{leak.longest:.0%} of golds are the longest {leak.distance} option (chance "
                    f"{leak.chance:.0%}): a leak."
                )
            )
    return notes


def _reference(dense: ModelFigures, label: str) -> list[Note]:
    notes = []
    near = dense.near.accuracy.value if dense.near else None
    written = dense.generation.value if dense.generation else None
    if near is not None and near > TOO_EASY:
        notes.append(_warning(f"{label} scores {near:.2f} against near options: too easy to show a loss."))
    if written is not None and written < TOO_HARD:
        notes.append(
            _warning(
                f"{label} answers only {written:.2f} of the questions: there is little to lose. If the prompt is at "
                "fault: a base model wants --num_fewshot 1, an instruct model --apply_chat_template."
            )
        )
    return notes


def _format(model: ModelFigures | None, label: str) -> list[Note]:
    if model is None or model.failures is None:
        return []
    shares = model.failures.model_dump(exclude={"intervals", "gold_inside"})
    high = [f"{share:.0%} {name.replace('_', ' ')}" for name, share in shares.items() if share and share > FORMAT_LOSS]
    if not high:
        return []
    return [_warning(f"Answers of {label}: {', '.join(high)}. Part of its loss may be of form, not of knowledge.")]


def _rounding(row: Row, dense: str, pruned: str, dtypes: tuple[str | None, str | None]) -> list[Note]:
    """Answers that hang on a tie of two tokens: the reader must not take rounding for an illusion."""
    notes = []
    for label, model, dtype in zip((dense, pruned), (row.dense, row.pruned), dtypes, strict=True):
        if model is None or model.tied is None or not model.tied.answers.tied:
            continue
        tied = model.tied.answers
        parts = [f"{c.tied} of {c.of} recognition-only ({d})" for d, c in model.tied.recognition_only.items()]
        flips = row.contrast.tied_flips if row.contrast and model is row.pruned else None
        if flips is not None:
            parts.append(f"{flips.tied} of {flips.of} flips of generation")
        notes.append(
            _warning(
                f"{tied.tied} of {tied.of} answers of {label} contain a greedy step where two tokens tie in "
                f"{dtype or 'its dtype'}: rounding, not pruning, may have chosen. Among them: {', '.join(parts)}."
            )
        )
    return notes


def _with(tasks: Sequence[str], condition: str) -> str:
    """The tasks that would measure a missing condition, as groups."""
    groups = set()
    for task in tasks:
        for known in sorted(HALVES, key=len, reverse=True):
            if f"_{known}_" in task:
                groups.add(f"{task.split(f'_{known}_')[0]}_{condition}")
                break
    return ",".join(sorted(groups)) or f"<set>_{condition}"


def _alarm(text: str) -> Note:
    return Note(level="alarm", text=text)


def _warning(text: str) -> Note:
    return Note(level="warning", text=text)
