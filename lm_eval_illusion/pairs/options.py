"""What multiple choice shows: four options with the gold in a place that a hash decides, and where each came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .draw import draw, shuffled

NUMBER_OF_OPTIONS = 4
"""Always: the gold and three distractors."""


@dataclass(frozen=True)
class Options:
    """The four options of one item under one condition."""

    choices: tuple[str, ...]
    """Texts as shown."""
    gold: int
    """Position of the right one."""
    sources: tuple[str, ...]
    """Origin of each: gold, passage:KIND, author, paragraph:ID, article:ID or language:ID."""


def arrange(gold: str, distractors: Sequence[tuple[str, str]], key: Sequence[object]) -> Options:
    """Put the gold among three (text, source) distractors; the order depends on `key` alone.

    Args:
        gold: The right answer.
        distractors: Exactly three (text, source) pairs.
        key: Parts of the hash; without the language in parallel data, so that the key is in one place in all of them.
    """
    if len(distractors) != NUMBER_OF_OPTIONS - 1:
        raise ValueError(f"three distractors expected, found {len(distractors)}")
    order = shuffled(range(len(distractors)), *key, "order")
    place = draw(*key, "place") % NUMBER_OF_OPTIONS
    rows = [distractors[i] for i in order]
    rows.insert(place, (gold, "gold"))
    return Options(tuple(text for text, _ in rows), place, tuple(source for _, source in rows))
