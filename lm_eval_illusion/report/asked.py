"""One model's answers on the items of a row, by condition: what every measure of the probes starts from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lm_eval_illusion.report.columns import Columns, Floats
from lm_eval_illusion.report.figures import difference, share
from lm_eval_illusion.report.halves import MATCHERS, Half
from lm_eval_illusion.report.join import Halves
from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.stats import Clusters

__all__ = ["Asked", "asked_of"]

H = TypeVar("H")


@dataclass(frozen=True)
class Asked:
    """One model on n joined items; an item is named by its position."""

    halves: Sequence[Halves]
    places: Sequence[tuple[str, str]]
    """(dataset, language) of each item."""
    clusters: Clusters
    least: tuple[int, int]
    """Items and passages below which nothing is claimed."""

    def having(self, condition: str, kind: type[H]) -> dict[int, H]:
        """Items with a valid record under this condition."""
        found: dict[int, H] = {}
        for index, halves in enumerate(self.halves):
            half = _half(halves, condition)
            if isinstance(half, kind) and getattr(half, "valid", False):
                found[index] = half
        return found

    def probes(self) -> set[str]:
        """Conditions beside the pair's that any item was asked under."""
        return set().union(*(halves.probes for halves in self.halves))

    def asked_of_all(self, condition: str) -> bool:
        """Whether no item was left out in any language that was asked: else the items were chosen."""
        asked = [condition in halves.probes for halves in self.halves]
        places = {place for place, there in zip(self.places, asked, strict=True) if there}
        return all(there or place not in places for place, there in zip(self.places, asked, strict=True))

    def produced(self) -> Sequence[bool] | None:
        """G of each item; None where open generation was not run on all of them."""
        written = [halves.generation for halves in self.halves]
        if any(half is None for half in written):
            return None
        return [bool(half and half.right[MATCHERS[0]]) for half in written]

    def inside(self, items: Iterable[int]) -> Clusters:
        """The clusters of some items, in the order of the row."""
        mask = np.zeros(len(self.halves), dtype=np.bool_)
        mask[list(items)] = True
        return self.clusters.subset(mask)

    def decided(self, items: Iterable[int]) -> bool:
        """Whether some items reach the least size."""
        chosen = list(items)
        return len(chosen) >= self.least[0] and self.inside(chosen).count >= self.least[1]

    def share(self, values: Mapping[int, float]) -> Estimate:
        """Mean of zeros and ones over the items that are keys."""
        return share(_column(values), self.inside(values))

    def mean(self, values: Mapping[int, float], bounds: tuple[float, float] = (-1.0, 1.0)) -> Estimate:
        """Mean of other numbers over the items that are keys."""
        return difference(_column(values), self.inside(values), bounds)


def asked_of(columns: Columns, least: tuple[int, int]) -> tuple[Asked, Asked]:
    """Both models of a row.

    Args:
        columns: The joined items and their clusters.
        least: Items and passages below which nothing is claimed.
    """
    places = [(item.dataset, item.language) for item in columns.items]
    dense, pruned = [item.dense for item in columns.items], [item.pruned for item in columns.items]
    return Asked(dense, places, columns.clusters, least), Asked(pruned, places, columns.clusters, least)


def _half(halves: Halves, condition: str) -> Half | None:
    if condition == "mc":
        return halves.near
    if condition == "mc_far":
        return halves.far
    return halves.generation if condition == "gen" else halves.probes.get(condition)


def _column(values: Mapping[int, float]) -> Floats:
    return np.array([float(values[index]) for index in sorted(values)], dtype=np.float64)
