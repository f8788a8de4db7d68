"""Joined items as columns of numbers, one array per question the report asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lm_eval_illusion.report.halves import MATCHERS, NORMALISERS, ChoiceHalf
from lm_eval_illusion.report.join import Halves, Item
from lm_eval_illusion.report.stats import Clusters

__all__ = ["FLAGS", "Columns", "Distance", "Floats", "Side", "columns_of"]

Floats = NDArray[np.float64]
Distance = Literal["near", "far"]


@dataclass(frozen=True)
class Side:
    """One model's answers on n items. NaN: unknown; None: the condition lacks on at least one item."""

    right: dict[Distance, dict[str, Floats] | None]
    """distance -> normaliser -> (n,) 0 or 1."""
    chance: dict[Distance, Floats | None]
    """(n,) 1/k of each item."""
    ties: dict[Distance, int]
    rank: dict[Distance, Floats | None]
    """(n,) first-token rank of the gold, from 1; NaN where unknown."""
    generated: dict[str, Floats] | None
    """matcher -> (n,) 0 or 1."""
    f1: Floats | None
    char_f1: Floats | None
    flags: dict[str, Floats] | None
    """failure -> (n,) 0 or 1 or NaN."""
    tied: Floats | None
    """(n,) tied greedy steps of the answer; NaN where unknown."""
    parting_rank: dict[Distance, Floats | None]
    """(n,) rank of the gold's token, from 1, where it parts from the strongest rival; NaN where unknown."""
    parting_margin: dict[Distance, Floats | None]
    """(n,) the gold's log-probability less the rival's there, nats; NaN where unknown."""

    def recognised(self, distance: Distance) -> Floats | None:
        """R under the fixed normaliser."""
        table = self.right[distance]
        return None if table is None else table[NORMALISERS[0]]

    @property
    def answered(self) -> Floats | None:
        """G under the fixed matcher."""
        return None if self.generated is None else self.generated[MATCHERS[0]]


@dataclass(frozen=True)
class Columns:
    """n items of both models with their clusters."""

    items: Sequence[Item]
    clusters: Clusters
    dense: Side
    pruned: Side


FLAGS = ("empty", "repeated", "cut", "unclosed_thought", "gold_inside")
"""How the form of an open answer failed; gold_inside: it counts as wrong, yet a gold stands somewhere in it."""


def columns_of(items: Sequence[Item]) -> Columns:
    """Turn items into columns; their order is kept."""
    clusters = Clusters.from_keys([i.dataset for i in items], [i.language for i in items], [i.cluster for i in items])
    return Columns(items, clusters, _side([i.dense for i in items]), _side([i.pruned for i in items]))


def _side(halves: Sequence[Halves]) -> Side:
    near = [h.near for h in halves if h.near is not None]
    far = [h.far for h in halves if h.far is not None]
    written = [h.generation for h in halves if h.generation is not None]
    lists: dict[Distance, list[ChoiceHalf] | None] = {
        "near": near if len(near) == len(halves) else None,
        "far": far if len(far) == len(halves) else None,
    }
    complete = len(written) == len(halves)
    return Side(
        right={
            d: None if c is None else {n: _floats([h.right.get(n) for h in c]) for n in NORMALISERS}
            for d, c in lists.items()
        },
        chance={d: None if c is None else _floats([1 / len(h.choices) for h in c]) for d, c in lists.items()},
        ties={d: 0 if c is None else sum(h.picked is None for h in c) for d, c in lists.items()},
        rank={d: None if c is None else _floats([h.first_token_rank for h in c]) for d, c in lists.items()},
        generated={m: _floats([h.right.get(m) for h in written]) for m in MATCHERS} if complete else None,
        f1=_floats([h.f1 for h in written]) if complete else None,
        char_f1=_floats([h.char_f1 for h in written]) if complete else None,
        flags={f: _floats([h.flags.get(f) for h in written]) for f in FLAGS} if complete else None,
        tied=_floats([h.tied_steps for h in written]) if complete else None,
        parting_rank={
            d: None if c is None else _floats([h.parting.gold_rank if h.parting else None for h in c])
            for d, c in lists.items()
        },
        parting_margin={
            d: None if c is None else _floats([h.parting.margin if h.parting else None for h in c])
            for d, c in lists.items()
        },
    )


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
