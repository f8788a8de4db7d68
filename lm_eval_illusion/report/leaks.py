"""Leak measures that need no model: what would a reader of the options alone, or of the passage's surface, find?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lm_eval_illusion.report.columns import Distance
from lm_eval_illusion.report.halves import ChoiceHalf
from lm_eval_illusion.report.join import Item
from lm_eval_illusion.report.runs import Document
from lm_eval_illusion.report.schema import LeakFigures

__all__ = ["leak_figures"]


def leak_figures(items: Sequence[Item], documents: Mapping[str, Document]) -> list[LeakFigures]:
    """Measure both distances over items that have them; a clean set lies near `chance` everywhere."""
    result = []
    distances: tuple[Distance, ...] = ("near", "far")
    for distance in distances:
        halves = [(i.item_id, i.dense.near if distance == "near" else i.dense.far) for i in items]
        known = [(item_id, half) for item_id, half in halves if half is not None]
        if known:
            result.append(_one(distance, known, documents))
    return result


def _one(distance: Distance, known: Sequence[tuple[str, ChoiceHalf]], documents: Mapping[str, Document]) -> LeakFigures:
    longest, shortest, first, frequent = 0.0, 0.0, [], []
    positions = [0] * max(len(half.choices) for _, half in known)
    for item_id, half in known:
        lengths = [len(choice) for choice in half.choices]
        longest += _share(lengths, half.gold)
        shortest += _share([-length for length in lengths], half.gold)
        positions[half.gold] += 1
        passage = documents[item_id].passage if item_id in documents else ""
        starts = [passage.find(choice) for choice in half.choices]
        if starts[half.gold] >= 0 and sum(start >= 0 for start in starts) > 1:
            first.append(_share([-start if start >= 0 else -len(passage) - 1 for start in starts], half.gold))
            frequent.append(_share([passage.count(choice) for choice in half.choices], half.gold))
    count = len(known)
    return LeakFigures(
        distance=distance,
        items=count,
        chance=sum(1 / len(half.choices) for _, half in known) / count,
        longest=longest / count,
        shortest=shortest / count,
        first_in_passage=sum(first) / len(first) if first else None,
        most_frequent=sum(frequent) / len(frequent) if frequent else None,
        positions=positions,
    )


def _share(scores: Sequence[int], gold: int) -> float:
    """1 if the gold alone has the top score, 1/ties if it shares it, else 0."""
    top = max(scores)
    return 1 / scores.count(top) if scores[gold] == top else 0.0
