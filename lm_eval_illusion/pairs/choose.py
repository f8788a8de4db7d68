"""Three options out of many: good ones first, and so that neither length nor place nor count gives the key away.

For every item a hash fixes how many distractors should be longer than the gold (0 to 3) and how many should stand
after it in the passage; the triple that comes nearest is taken. Over many items the gold is then longest in about a
quarter of them, and no more often first than its passage forces.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from .draw import draw
from .rules import Answer, entangled

KEPT, EARLY = 11, 4
"""How many of the best candidates are combined (165 triples), the last few of them out of those before the gold."""
LENGTH_WEIGHT, PLACE_WEIGHT = 3.0, 2.5
"""Cost of missing the wished rank by one, in units of candidate quality."""


@dataclass(frozen=True)
class Candidate:
    """A possible distractor, already admissible beside the gold."""

    answer: Answer
    """The text, in the language that decides (any fixed one for parallel data)."""
    source: str
    """Where it came from, as recorded in the item."""
    cost: float
    """How far it is from ideal; 0 is best, 1 is a clear step down."""
    place: int | None = None
    """Offset of its first occurrence in the passage, in characters; None if it does not stand there."""


def _misses(gold_value: float, values: Sequence[float], wished: int) -> float:
    """Return by how many distractors the wished count above the gold is missed; equal values count half."""
    above = sum(1.0 if v > gold_value else 0.5 if v == gold_value else 0.0 for v in values)
    return abs(above - wished)


def choose_three(
    candidates: Sequence[Candidate], gold: Answer, gold_place: int | None, key: Sequence[object]
) -> list[Candidate] | None:
    """Return three candidates that are not entangled with one another, or None if there are no three.

    Args:
        candidates: Admissible ones in any order.
        gold: The right answer.
        gold_place: Offset of its first occurrence in the passage, in characters.
        key: Parts of the hash: item id, condition and seed.
    """
    order = sorted(candidates, key=lambda c: (c.cost, draw(*key, c.answer.text, c.source)))
    best: list[Candidate] = []
    for candidate in order:
        if not any(c.answer.key == candidate.answer.key for c in best):
            best.append(candidate)
    before = [c for c in best if c.place is not None and gold_place is not None and c.place < gold_place]
    mixed = best[: KEPT - EARLY] + [c for c in before if c not in best[: KEPT - EARLY]][:EARLY]
    for kept in (mixed, best[: 3 * KEPT]):
        chosen = _best_triple(kept, gold, gold_place, key)
        if chosen is not None:
            return chosen
    return None


def choose_one(
    candidates: Sequence[Candidate],
    gold: Answer,
    gold_place: int | None,
    key: Sequence[object],
    beside: Sequence[Answer] = (),
) -> Candidate | None:
    """Return one of the best candidates, or None if there is none; over many items half of them are longer.

    Args:
        candidates: Admissible ones in any order.
        gold: The right answer.
        gold_place: Offset of its first occurrence in the passage, in characters.
        key: Parts of the hash: item id, condition and seed.
        beside: Options that stand already; none may equal, contain or be contained in the new one.
    """
    longer, after = draw(*key, "longer") % 2, draw(*key, "after") % 2

    def cost(candidate: Candidate) -> float:
        length = LENGTH_WEIGHT * _misses(len(gold.text), [len(candidate.answer.text)], longer)
        if gold_place is None or candidate.place is None:
            return candidate.cost + length
        return candidate.cost + length + PLACE_WEIGHT * _misses(gold_place, [candidate.place], after)

    def tie(candidate: Candidate) -> int:
        return draw(*key, candidate.answer.text, candidate.source)

    free = [c for c in candidates if not any(entangled(c.answer, other) for other in beside)]
    kept = sorted(free, key=lambda c: (c.cost, tie(c)))[:KEPT]
    return min(kept, key=lambda c: (cost(c), tie(c)), default=None)


def _best_triple(
    kept: Sequence[Candidate], gold: Answer, gold_place: int | None, key: Sequence[object]
) -> list[Candidate] | None:
    longer, after = draw(*key, "longer") % 4, draw(*key, "after") % 4
    clash = {
        (a, b) for a, b in itertools.combinations(range(len(kept)), 2) if entangled(kept[a].answer, kept[b].answer)
    }
    found: list[tuple[float, tuple[int, ...]]] = []
    for triple in itertools.combinations(range(len(kept)), 3):
        if not clash.isdisjoint(itertools.combinations(triple, 2)):
            continue
        some = [kept[i] for i in triple]
        cost = sum(c.cost for c in some)
        cost += LENGTH_WEIGHT * _misses(len(gold.text), [len(c.answer.text) for c in some], longer)
        places = [c.place for c in some if c.place is not None]
        if gold_place is not None and len(places) == len(some):
            cost += PLACE_WEIGHT * _misses(gold_place, places, after)
        found.append((cost, triple))
    return [kept[i] for i in min(found)[1]] if found else None
