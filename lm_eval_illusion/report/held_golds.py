"""Wrong answers in which the gold stands all the same, beside what a copier would hold by chance."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.pairs.answers import match
from lm_eval_illusion.report.halves import MATCHERS
from lm_eval_illusion.report.join import Halves
from lm_eval_illusion.report.schema import Note

__all__ = ["WORTH_A_WARNING", "held_golds", "held_note"]

WORTH_A_WARNING = 0.1
"""Share of a model's wrong answers, control taken off, from which the note is a warning."""


def held_golds(answered: Sequence[Halves]) -> tuple[int, int, float]:
    """Count wrong answers that hold a gold somewhere.

    Args:
        answered: Items as one model answered them; those without a valid open answer are left out.

    Returns:
        Wrong answers; those of them in which a gold stands; in how many an option of the item's own that is wrong
        stands (mean over its near options, far ones where it has none): what copying the passage would give. It is not
        looked for, and 0, where no gold is held.
    """
    open_answers = [(h.generation, h.near or h.far) for h in answered if h.generation and h.generation.valid]
    wrong = [(written, options) for written, options in open_answers if not written.right[MATCHERS[0]]]
    held = sum(bool(written.right["anywhere"]) for written, _ in wrong)
    control = 0.0
    for written, options in wrong if held else ():
        others = [c for i, c in enumerate(options.choices) if i != options.gold] if options else []
        if others:
            found = sum(match(written.answer, [other], written.language).anywhere for other in others)
            control += found / len(others)
    return len(wrong), held, control


def held_note(answered: Sequence[Halves], label: str) -> Note | None:
    """Say how many wrong answers hold the gold; None where none does.

    Args:
        answered: Items as one model answered them.
        label: The model's.
    """
    wrong, held, control = held_golds(answered)
    if not held:
        return None
    told = (
        f"Of {wrong} wrong answers of {label} {held} hold the gold somewhere, where {control:.1f} hold a wrong "
        "option of their own: too long or not by itself, which the standard calls wrong (docs/report.md, gold inside)."
    )
    return Note(level="warning" if (held - control) / wrong > WORTH_A_WARNING else "info", text=told)
