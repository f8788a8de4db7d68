"""Intervals for means over clustered items: cluster-robust t, stratified, with a small-sample correction.

The variance is CR2 (each cluster's summed residual is divided by sqrt(1 - its share of the stratum)), the degrees of
freedom are those of Bell and McCaffrey (2002, Survey Methodology 28) under working independence, in closed form for a
mean. Near the ends of the scale a t interval is too short (it has length zero where every item agrees), so shares use
Wilson's interval and differences one pseudo item (half +1, half -1, after Agresti and Min 2005, Statistics in Medicine
24), both on the effective number of items: the variance of one item over the variance of the mean.
``benchmarks/coverage.py`` measures what that covers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["MIN_CLUSTERS", "Clusters", "Interval", "Scale", "cr2_variance", "interval_ends", "mean_interval"]

MIN_CLUSTERS = 2
"""Below this no variance between clusters can be seen and there is no interval."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Scale = Literal["share", "difference"]


@dataclass(frozen=True)
class Clusters:
    """Which items belong together: codes per item, 0-based and dense."""

    cluster: Ints
    """(n,) cluster of each item."""
    stratum: Ints
    """(n,) stratum of each item; a cluster lies in one stratum."""

    @classmethod
    def from_keys(cls, datasets: list[str], languages: list[str], clusters: list[str]) -> Clusters:
        """Clusters are (dataset, passage); strata are the languages, but a whole dataset where a passage spans several.

        Strata with one cluster are pooled, since a variance needs two.
        """
        spans: dict[tuple[str, str], str] = {}
        parallel: set[str] = set()
        for dataset, language, cluster in zip(datasets, languages, clusters, strict=True):
            if spans.setdefault((dataset, cluster), language) != language:
                parallel.add(dataset)
        keys = list(zip(datasets, clusters, strict=True))
        strata = [(d, "*" if d in parallel else lang) for d, lang in zip(datasets, languages, strict=True)]
        return cls(_codes(keys), _pool(_codes(keys), _codes(strata)))

    def subset(self, mask: NDArray[np.bool_]) -> Clusters:
        """The clusters of some items, coded anew and pooled anew."""
        clusters = np.unique(self.cluster[mask], return_inverse=True)[1].astype(np.int64)
        strata = np.unique(self.stratum[mask], return_inverse=True)[1].astype(np.int64)
        return Clusters(clusters, _pool(clusters, strata))

    @property
    def count(self) -> int:
        """Number of clusters."""
        return int(self.cluster.max()) + 1 if self.cluster.size else 0

    @property
    def clustered(self) -> bool:
        """Whether any cluster has more than one item."""
        return self.count < self.cluster.size


def _codes(keys: list[tuple[str, str]]) -> Ints:
    table = {key: index for index, key in enumerate(sorted(set(keys)))}
    return np.array([table[key] for key in keys], dtype=np.int64)


def _pool(clusters: Ints, strata: Ints) -> Ints:
    """Join strata of one cluster with each other; a lone one joins the smallest other stratum."""
    if not strata.size:
        return strata
    sizes = {int(s): len(np.unique(clusters[strata == s])) for s in np.unique(strata)}
    lone = [s for s, size in sizes.items() if size < MIN_CLUSTERS]
    rest = sorted((size, s) for s, size in sizes.items() if size >= MIN_CLUSTERS)
    if not lone or (len(lone) == 1 and not rest):
        return strata
    target = rest[0][1] if len(lone) == 1 else lone[0]
    return np.where(np.isin(strata, lone), target, strata).astype(np.int64)


@dataclass(frozen=True)
class Interval:
    """A mean and its interval; ends are NaN where they are undefined."""

    value: float
    low: float
    high: float
    items: int
    clusters: int
    degrees: float
    """Degrees of freedom."""


def cr2_variance(sums: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Variance of a ratio mean from cluster sums, and its degrees of freedom.

    Args:
        sums: (..., C) summed values of each cluster.
        sizes: (..., C) items of each cluster (0 for padding).

    Returns:
        Variances (...) and the squared norms (...) of the matrix of the variance's quadratic form, whose trace is 1/n:
        degrees of freedom are (1/n)**2 over them, and strata are combined by adding both.
    """
    total = sizes.sum(-1)
    mean = sums.sum(-1) / total
    leverage = sizes / total[..., None]
    correction = 1.0 / np.maximum(1.0 - leverage, 1e-12)
    residual = sums - sizes * mean[..., None]
    variance = (residual**2 * correction).sum(-1) / total**2
    across = correction * sizes**2 / total[..., None]
    squares = (sizes**2).sum(-1) + across.sum(-1) ** 2 - (across**2).sum(-1)
    return variance, squares / total**4


def mean_interval(
    values: Floats,
    clusters: Clusters,
    *,
    scale: Scale,
    bounds: tuple[float, float],
    level: float = 0.95,
    equal_strata: bool = False,
) -> Interval:
    """Mean over items with a cluster-robust interval.

    Args:
        values: (n,) one number an item, no NaN.
        clusters: Clusters and strata of the same items.
        scale: `share` for values 0 and 1, `difference` for anything between a negative and a positive bound.
        bounds: Least and greatest possible mean; the interval is cut there.
        level: Coverage asked for.
        equal_strata: Every stratum weighs the same (a mean over languages), else every item does.

    Returns:
        The interval; value NaN for no items, ends NaN where a stratum has fewer than `MIN_CLUSTERS` clusters.
    """
    count = len(values)
    if not count:
        return Interval(math.nan, math.nan, math.nan, 0, 0, math.nan)
    strata = np.unique(clusters.stratum)
    mean, variance, trace, squares = 0.0, 0.0, 0.0, 0.0
    weights = np.zeros(count)
    fewest = clusters.count
    for stratum in strata:
        inside = clusters.stratum == stratum
        weight = 1.0 / len(strata) if equal_strata else inside.sum() / count
        codes = np.unique(clusters.cluster[inside], return_inverse=True)[1]
        sums: Floats = np.bincount(codes, weights=values[inside]).astype(np.float64)
        sizes: Floats = np.bincount(codes).astype(np.float64)
        fewest = min(fewest, len(sizes))
        here, spread = cr2_variance(sums, sizes)
        mean += weight * float(sums.sum() / sizes.sum())
        variance += weight**2 * float(here)
        trace += weight**2 / float(sizes.sum())
        squares += weight**4 * float(spread)
        weights[inside] = weight / inside.sum()
    if fewest < MIN_CLUSTERS:
        return Interval(float(mean), math.nan, math.nan, count, clusters.count, math.nan)
    degrees = trace**2 / squares
    item_variance = float(weights @ (values - mean) ** 2)
    low, high = interval_ends(
        np.float64(mean),
        np.float64(variance),
        np.float64(item_variance),
        np.float64(1.0 / (weights**2).sum()),
        np.float64(degrees),
        scale=scale,
        level=level,
    )
    return Interval(
        float(mean), max(float(low), bounds[0]), min(float(high), bounds[1]), count, clusters.count, float(degrees)
    )


def interval_ends(
    mean: Floats | np.float64,
    variance: Floats | np.float64,
    item_variance: Floats | np.float64,
    items: Floats | np.float64,
    degrees: Floats | np.float64,
    *,
    scale: Scale,
    level: float,
) -> tuple[Floats, Floats]:
    """Ends from a mean, its variance and the variance of one item; works on arrays (the coverage benchmark does).

    The effective number of items is `item_variance / variance`, at most twice the items (a lucky small variance is not
    believed), and the items themselves where all agree.
    """
    quantile = stats.t.ppf(0.5 + level / 2, degrees)
    seen = (item_variance > 1e-12) & (variance > 0)
    effective = np.where(seen, item_variance / np.where(seen, variance, 1.0), items)
    effective = np.minimum(effective, 2 * items)
    if scale == "share":
        squared = quantile**2
        centre = (mean + squared / (2 * effective)) / (1 + squared / effective)
        spread = mean * (1 - mean) / effective + squared / (4 * effective**2)
        half = quantile / (1 + squared / effective) * np.sqrt(np.maximum(spread, 0.0))
        return np.asarray(centre - half), np.asarray(centre + half)
    centre = mean * effective / (effective + 1)
    second = ((item_variance + mean**2) * effective + 1) / (effective + 1)
    half = quantile * np.sqrt(np.maximum(second - centre**2, 0.0) / (effective + 1))
    return np.asarray(centre - half), np.asarray(centre + half)
