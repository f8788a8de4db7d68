"""Pruned against dense on the same items: flips, excess gap, induced illusion, transitions, rank shift."""

from __future__ import annotations

import math

import numpy as np

from lm_eval_illusion.report.classes import count_transitions
from lm_eval_illusion.report.close_calls import tied_flips
from lm_eval_illusion.report.columns import Columns, Distance, Floats
from lm_eval_illusion.report.figures import difference, quadrants_of, share
from lm_eval_illusion.report.measures import (
    Contrast,
    DistanceContrast,
    EquivalenceFigures,
    Estimate,
    Flips,
    RankShift,
)
from lm_eval_illusion.report.stats import (
    Clusters,
    detectable_difference,
    judge_equivalence,
    mcnemar,
    mean_interval,
    sign_flip,
)

__all__ = ["contrast"]


def contrast(columns: Columns, *, margin: float, enough: bool) -> Contrast:
    """Compare both models on these items.

    Args:
        columns: The items.
        margin: Equivalence margin.
        enough: Whether the sample reaches the least size for verdicts.
    """
    before, after = columns.dense.answered, columns.pruned.answered
    generation = None
    if before is not None and after is not None:
        generation = _flips(before, after, columns.clusters, margin, enough)
    return Contrast(
        near=_distance(columns, "near", margin, enough),
        far=_distance(columns, "far", margin, enough),
        generation=generation,
        tied_flips=tied_flips(columns.dense, columns.pruned),
    )


def _equivalence(
    values: Floats, clusters: Clusters, bounds: tuple[float, float], margin: float, enough: bool
) -> EquivalenceFigures:
    interval = mean_interval(values, clusters, scale="difference", bounds=bounds, level=0.9)
    judged = judge_equivalence(interval, margin, enough=enough)
    low, high = (None if math.isnan(end) else end for end in (judged.low, judged.high))
    return EquivalenceFigures.model_validate({"verdict": judged.verdict, "margin": margin, "low": low, "high": high})


def _flips(before: Floats, after: Floats, clusters: Clusters, margin: float, enough: bool) -> Flips:
    change = after - before
    lost, won, count = int((change < 0).sum()), int((change > 0).sum()), len(change)
    return Flips(
        lost=lost,
        won=won,
        delta=difference(change, clusters),
        flips=(lost + won) / count,
        changed=share((change != 0).astype(np.float64), clusters),
        p=mcnemar(lost, won),
        p_cluster=sign_flip(change, clusters.cluster) if clusters.clustered else None,
        p_holm=None,
        detectable=detectable_difference(count, (lost + won) / count),
        equivalence=_equivalence(change, clusters, (-1.0, 1.0), margin, enough),
    )


def _distance(columns: Columns, distance: Distance, margin: float, enough: bool) -> DistanceContrast | None:
    dense, pruned, clusters = columns.dense, columns.pruned, columns.clusters
    before, after, chance = dense.recognised(distance), pruned.recognised(distance), dense.chance[distance]
    if before is None or after is None or chance is None:
        return None
    result = DistanceContrast(
        accuracy=_flips(before, after, clusters, margin, enough),
        excess_gap=None,
        excess_p=None,
        excess_equivalence=None,
        induced=None,
        induced_count=None,
        transitions=None,
        rank=None,
    )
    said_before, said_after = dense.answered, pruned.answered
    if said_before is None or said_after is None:
        return result
    excess = (after - said_after) - (before - said_before)
    moves = list(zip(quadrants_of(before, said_before), quadrants_of(after, said_after), strict=True))
    both = np.array([start == "both" for start, _ in moves], dtype=np.bool_)
    became = np.array([end == "recognition_only" for _, end in moves], dtype=np.float64)
    return result.model_copy(
        update={
            "excess_gap": difference(excess, clusters, (-2.0, 2.0)),
            "excess_p": sign_flip(excess, clusters.cluster),
            "excess_equivalence": _equivalence(excess, clusters, (-2.0, 2.0), margin, enough),
            "induced": _induced(became, chance, both, clusters),
            "induced_count": int(became[both].sum()),
            "transitions": count_transitions(moves),
            "rank": _rank(columns, distance, became.astype(np.bool_)),
        }
    )


def _induced(became: Floats, chance: Floats, both: np.ndarray, clusters: Clusters) -> Estimate | None:
    if not both.any():
        return None
    return difference(became[both] - chance[both], clusters.subset(both))


def _rank(columns: Columns, distance: Distance, chosen: np.ndarray) -> RankShift | None:
    dense, pruned = columns.dense.rank[distance], columns.pruned.rank[distance]
    if dense is None or pruned is None:
        return None
    known = chosen & ~np.isnan(dense) & ~np.isnan(pruned)
    if not known.any():
        return RankShift(items=0, dense_median=None, pruned_median=None)
    return RankShift(
        items=int(known.sum()),
        dense_median=float(np.median(dense[known])),
        pruned_median=float(np.median(pruned[known])),
    )
