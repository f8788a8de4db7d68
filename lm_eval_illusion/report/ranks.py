"""Where the gold stands when the model does not say it: rank of its tokens, and where along it the model leaves it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.classes import quadrant
from lm_eval_illusion.report.halves import MATCHERS, NORMALISERS, RankHalf, SpanHalf
from lm_eval_illusion.report.join import Halves
from lm_eval_illusion.report.probe_measures import ForcedFigures, RankFigures, SpanFigures

__all__ = ["QUANTILES", "WITHIN", "forced_figures", "rank_figures", "span_figures"]

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
WITHIN = (1, 4, 10, 100)
"""Ranks up to which items are counted."""


def forced_figures(asked: Asked) -> ForcedFigures | None:
    """Where along the gold one model leaves it; None without the probe."""
    halves = asked.having("rank", RankHalf)
    if not halves:
        return None
    leaves = [half.leave for half in halves.values()]
    margins = [half.margin for half in halves.values() if half.leave is not None]
    return ForcedFigures(
        items=len(halves),
        never=leaves.count(None),
        at_first=leaves.count(0),
        later=sum(bool(leave) for leave in leaves),
        agreement=asked.mean({i: float(half.agreement or 0.0) for i, half in halves.items()}, (0.0, 1.0)),
        margin_median=_median(margins),
        answer_margin_median=_median([half.answer_margin for half in halves.values()]),
    )


def span_figures(asked: Asked) -> SpanFigures | None:
    """The gold's likelihood rank among the spans of its passage; None without the probe."""
    halves = asked.having("rank_spans", SpanHalf)
    if not halves:
        return None
    ranks = {i: half.gold_rank or 1 for i, half in halves.items()}
    above = [(ranks[i] - 1) / (half.spans - 1) for i, half in halves.items() if half.spans and half.spans > 1]
    return SpanFigures(
        items=len(halves),
        median_rank=float(np.median(list(ranks.values()))),
        first=asked.share({i: float(rank == 1) for i, rank in ranks.items()}),
        median_above=float(np.median(above)) if above else 0.0,
    )


def rank_figures(dense: Asked, pruned: Asked) -> list[RankFigures]:
    """Distributions of ranks in both models over the same items; empty where neither has the probe."""
    before, after = dense.having("rank", RankHalf), pruned.having("rank", RankHalf)
    if not before and not after:
        return []
    items = before.keys() & after.keys() if before and after else before.keys() | after.keys()
    groups: dict[str, set[int]] = {"all": set(items)}
    groups |= {f"turned_{distance}": _turned(dense, pruned, distance) & items for distance in ("near", "far")}
    produced = pruned.produced()
    groups["failures"] = {i for i in items if produced is not None and not produced[i]}
    return [
        _figures(name, sorted(chosen), before, after, dense.inside(chosen).count) for name, chosen in groups.items()
    ]


def _turned(dense: Asked, pruned: Asked, distance: str) -> set[int]:
    """Items that went from both to recognition-only."""
    return {
        index
        for index, (one, two) in enumerate(zip(dense.halves, pruned.halves, strict=True))
        if (_quadrant(one, distance), _quadrant(two, distance)) == ("both", "recognition_only")
    }


def _quadrant(halves: Halves, distance: str) -> str | None:
    choice = halves.near if distance == "near" else halves.far
    if choice is None or halves.generation is None:
        return None
    return quadrant(bool(choice.right[NORMALISERS[0]]), bool(halves.generation.right[MATCHERS[0]]))


def _figures(
    group: str, items: list[int], before: Mapping[int, RankHalf], after: Mapping[int, RankHalf], clusters: int
) -> RankFigures:
    one, two = _firsts(before, items), _firsts(after, items)
    both = one is not None and two is not None
    pairs = list(zip(one or [], two or [], strict=both))
    dense_parting, pruned_parting = _partings(before, items), _partings(after, items)
    return RankFigures(
        group=group,
        items=len(items),
        dense_first=_quantiles(one),
        pruned_first=_quantiles(two),
        dense_parting=_quantiles(dense_parting),
        pruned_parting=_quantiles(pruned_parting),
        dense_parted=None if dense_parting is None else len(dense_parting),
        pruned_parted=None if pruned_parting is None else len(pruned_parting),
        dense_within=_within(one),
        pruned_within=_within(two),
        slid=sum(rank < later for rank, later in pairs) if both else None,
        rose=sum(rank > later for rank, later in pairs) if both else None,
        clusters=clusters,
        dense_first_logprob=_median([before[i].first_logprob for i in items if i in before]),
        pruned_first_logprob=_median([after[i].first_logprob for i in items if i in after]),
        dense_parting_logprob=_median([before[i].parting_logprob for i in items if i in before]),
        pruned_parting_logprob=_median([after[i].parting_logprob for i in items if i in after]),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _firsts(halves: Mapping[int, RankHalf], items: list[int]) -> list[int] | None:
    return [halves[i].first or 1 for i in items] if halves else None


def _partings(halves: Mapping[int, RankHalf], items: list[int]) -> list[int] | None:
    if not halves:
        return None
    found = [halves[i].parting for i in items]
    return [rank for rank in found if rank is not None]


def _quantiles(ranks: list[int] | None) -> list[float] | None:
    return [float(q) for q in np.quantile(ranks, QUANTILES)] if ranks else None


def _within(ranks: list[int] | None) -> dict[str, float] | None:
    return {str(limit): sum(rank <= limit for rank in ranks) / len(ranks) for limit in WITHIN} if ranks else None
