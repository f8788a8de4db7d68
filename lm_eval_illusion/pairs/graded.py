"""Options graded by distance: the gold beside one wrong option from the passage, its article, elsewhere, and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .choose import Candidate, choose_one
from .draw import draw
from .noise import random_string
from .rules import ALIGNED, Answer, admissible, entangled

FOUND: tuple[str, ...] = ("paragraph", "article", "language")
"""Distances whose options are found in the data, nearest first: the same passage, the same article, another one."""
RANDOM = "random"
"""Distance of a string that means nothing."""
GOLD = "gold"
"""What stands for the right option's distance."""
TRIES = 40
"""How many random strings are tried before the distance is left out."""


@dataclass(frozen=True)
class Distant:
    """One wrong option and how far from the question it was found."""

    distance: str
    """paragraph, article, language or random."""
    text: str
    """As shown."""
    source: str
    """Where it came from, as in `options.Options`; "random" for noise."""


@dataclass(frozen=True)
class Graded:
    """The options of one item by distance, in the order in which they are scored."""

    choices: tuple[str, ...]
    """Texts as shown."""
    gold: int
    """Position of the right one."""
    sources: tuple[str, ...]
    """Origin of each."""
    distances: tuple[str, ...]
    """Distance of each, "gold" for the right one."""


def choose_distances(
    found: Mapping[str, Sequence[Candidate]], gold: Answer, place: int | None, key: Sequence[object]
) -> dict[str, Candidate]:
    """Choose one candidate at each distance, nearest first; a distance without one is left out.

    Args:
        found: Distance -> admissible candidates.
        gold: The right answer.
        place: Offset of its first occurrence in the passage, in characters.
        key: Parts of the hash.
    """
    chosen: dict[str, Candidate] = {}
    for distance in FOUND:
        beside = [candidate.answer for candidate in chosen.values()]
        one = choose_one(found[distance], gold, place, (*key, "graded", distance), beside)
        if one is not None:
            chosen[distance] = one
    return chosen


def random_option(
    golds: Sequence[Answer], passage: str, beside: Sequence[Answer], key: Sequence[object]
) -> Distant | None:
    """Make a string in the gold's script and length that keeps the rules of distractors and is not in the passage.

    Args:
        golds: Every right answer, the shown one first.
        passage: The item's passage.
        beside: The other options.
        key: Parts of the hash.
    """
    gold, folded = golds[0], passage.casefold()
    digits = any(c.isdecimal() for c in gold.text)
    for number in range(TRIES):
        text = random_string(gold.text, passage, (*key, RANDOM, number))
        made = Answer(text, gold.language)
        if (
            text.casefold() not in folded
            and admissible(made, golds, length=ALIGNED, kind=digits)
            and not any(entangled(made, other) for other in beside)
        ):
            return Distant(RANDOM, text, RANDOM)
    return None


def grade(
    golds: Sequence[Answer], passage: str, found: Sequence[Distant], order: Sequence[object], noise: Sequence[object]
) -> Graded:
    """Add noise to the options that were found and put all in an order that a hash decides.

    Args:
        golds: Every right answer, the shown one first.
        passage: The item's passage.
        found: One option a distance.
        order: Parts of the hash of the order; without the language in parallel data.
        noise: Parts of the hash of the random string.
    """
    made = random_option(golds, passage, [Answer(d.text, golds[0].language) for d in found], noise)
    wrong = [*found, *([made] if made else [])]
    rows = sorted(wrong, key=lambda d: draw(*order, "graded order", d.distance))
    place = draw(*order, "graded place") % (len(rows) + 1)
    rows.insert(place, Distant(GOLD, golds[0].text, GOLD))
    return Graded(tuple(d.text for d in rows), place, tuple(d.source for d in rows), tuple(d.distance for d in rows))
