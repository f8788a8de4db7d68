"""Exact tests for two models on the same items, their correction for many tests, and what a sample could have shown."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["detectable_difference", "holm", "mcnemar", "sign_flip"]


def mcnemar(lost: int, won: int) -> float:
    """Exact two-sided McNemar p: given b + c discordant items, is b binomial with 1/2?

    Args:
        lost: b, items right before and wrong after.
        won: c, items wrong before and right after.

    Returns:
        p in (0, 1]; 1 where no item is discordant.
    """
    return float(stats.binomtest(lost, lost + won, 0.5).pvalue) if lost + won else 1.0


def sign_flip(values: NDArray[np.float64] | Sequence[float], clusters: NDArray[np.int64] | Sequence[int]) -> float:
    """Exact two-sided sign-flip test over clusters: P(|sum of randomly signed cluster totals| >= |observed sum|).

    The whole null distribution is built by convolution, so nothing is sampled. With one item a cluster and values -1, 0
    and 1 this is the exact McNemar test.

    Args:
        values: (n,) whole numbers, the change of each item.
        clusters: (n,) 0-based cluster codes.

    Returns:
        p in (0, 1]; 1 where every total is 0.

    Raises:
        ValueError: A value is no whole number.
    """
    changes = np.asarray(values, dtype=np.float64)
    if not np.array_equal(changes, np.round(changes)):
        raise ValueError("sign_flip needs whole numbers, such as -1, 0 and 1")
    totals = np.bincount(np.asarray(clusters, dtype=np.int64), weights=changes).round().astype(np.int64)
    reach = int(np.abs(totals).sum())
    chance = np.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for total in np.abs(totals[totals != 0]):
        moved = np.zeros_like(chance)
        moved[total:] += 0.5 * chance[:-total]
        moved[:-total] += 0.5 * chance[total:]
        chance = moved
    distance = np.abs(np.arange(-reach, reach + 1))
    return min(1.0, float(chance[distance >= abs(int(totals.sum()))].sum()))


def holm(pvalues: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction over one family: the i-th smallest of m times (m - i + 1), kept monotone, at most 1.

    None stays None and is not counted. (statsmodels has it too, but brings pandas and collects garbage at each call.)
    """
    ranked = sorted((p, index) for index, p in enumerate(pvalues) if p is not None)
    corrected: list[float | None] = [None] * len(pvalues)
    highest = 0.0
    for rank, (p, index) in enumerate(ranked):
        highest = max(highest, min(1.0, (len(ranked) - rank) * p))
        corrected[index] = highest
    return corrected


def detectable_difference(items: int, discordance: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Smallest paired difference of two shares found with the given power: sqrt(z^2 d / (n + z^2)), z = z_a + z_b.

    Args:
        items: n.
        discordance: d, share of items on which the two models differ, 0 to 1.
        power: Chance to find it.
        alpha: Two-sided level.
    """
    z = float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power))
    return math.sqrt(z * z * discordance / (items + z * z))
