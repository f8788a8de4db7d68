"""How often do the report's intervals hold the truth, and how often does its test cry wolf?

Simulates runs with known truth (clusters of 1 to 8 items, correlated answers, one or four languages) and counts. Run
as ``python benchmarks/coverage.py [--runs 10000]``, about five minutes on one core; it prints Markdown tables. Exit
code 1 if a figure on which verdicts rest leaves 93.5 to 96.5 % on average over its scenarios with 12 clusters or more,
or the sign-flip test exceeds 6 %.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lm_eval_illusion.report.stats.intervals import Scale, cr2_variance, interval_ends
from lm_eval_illusion.report.stats.paired import sign_flip

Floats = NDArray[np.float64]
BAND = (0.935, 0.965)
CLUSTERS = (8, 12, 16, 20, 50, 200)
SIZES = ((1, 1), (1, 3), (4, 4), (1, 8))
CORRELATIONS = (0.1, 0.4)
FIGURES: dict[str, tuple[Scale, tuple[tuple[float, ...], ...]]] = {
    "gap": ("difference", ((0.5, 0.2), (0.6, 0.35), (0.3, 0.05))),
    "excess gap": ("difference", ((0.45, 0.2, 0.6, 0.4), (0.6, 0.4, 0.6, 0.4), (0.3, 0.05, 0.5, 0.3))),
    "share": ("share", ((0.5,), (0.2,), (0.05,))),
}
"""Figure -> kind of interval and shares right: (R, G), (R pruned, G pruned, R dense, G dense), or one share."""


@dataclass(frozen=True)
class Drawn:
    """Simulated runs: sums, sums of squares and sizes per cluster, (runs, clusters) each, and the truth."""

    sums: Floats
    squares: Floats
    sizes: Floats
    truth: float


def draw(
    rates: tuple[float, ...], clusters: int, sizes: tuple[int, int], correlation: float, runs: int, seed: int
) -> Drawn:
    """Draw runs. Answers of a cluster share a normal factor, and so do the answers to one item's conditions."""
    rng = np.random.default_rng(seed)
    items = rng.integers(sizes[0], sizes[1] + 1, (runs, clusters))
    inside = np.arange(sizes[1]) < items[..., None]
    shared = rng.standard_normal((runs, clusters))
    values = np.zeros((runs, clusters, sizes[1]))
    signs = (1.0, -1.0, -1.0, 1.0)
    for rate, sign in zip(rates, signs, strict=False):
        factor = shared if len(rates) == 1 else 0.6 * shared + 0.8 * rng.standard_normal((runs, clusters))
        own = rng.standard_normal(values.shape)
        right = np.sqrt(correlation) * factor[..., None] + np.sqrt(1 - correlation) * own < stats.norm.ppf(rate)
        values += sign * (right & inside)
    truth = float(sum(rate * sign for rate, sign in zip(rates, signs, strict=False)))
    return Drawn(values.sum(-1), (values**2).sum(-1), items.astype(np.float64), truth)


def ends(drawn: Drawn, scale: Scale, strata: int = 1, level: float = 0.95) -> tuple[Floats, Floats]:
    """The package's interval of every run; clusters are dealt to strata in turn."""
    total = drawn.sizes.sum(-1)
    mean, variance, trace, squares, second, weights = (np.zeros(len(total)) for _ in range(6))
    for stratum in range(strata):
        sums, sizes = drawn.sums[:, stratum::strata], drawn.sizes[:, stratum::strata]
        weight = sizes.sum(-1) / total
        here, spread = cr2_variance(sums, sizes)
        mean += weight * sums.sum(-1) / sizes.sum(-1)
        variance += weight**2 * here
        trace += weight**2 / sizes.sum(-1)
        squares += weight**4 * spread
        second += drawn.squares[:, stratum::strata].sum(-1) / total
        weights += weight**2 / sizes.sum(-1)
    return interval_ends(mean, variance, second - mean**2, 1 / weights, trace**2 / squares, scale=scale, level=level)


def percentile_ends(drawn: Drawn, resamples: int = 300, seed: int = 0) -> tuple[Floats, Floats]:
    """The percentile cluster bootstrap, for comparison: too short with few clusters."""
    rng = np.random.default_rng(seed)
    runs, clusters = drawn.sums.shape
    means = np.empty((resamples, runs))
    for index in range(resamples):
        pick = rng.integers(0, clusters, (runs, clusters))
        means[index] = np.take_along_axis(drawn.sums, pick, 1).sum(-1) / np.take_along_axis(drawn.sizes, pick, 1).sum(
            -1
        )
    return np.quantile(means, 0.025, axis=0), np.quantile(means, 0.975, axis=0)


def covered(interval: tuple[Floats, Floats], truth: float) -> float:
    """Share of intervals that hold the truth."""
    low, high = interval
    return float(np.mean((low <= truth + 1e-12) & (truth - 1e-12 <= high)))


def false_alarms(clusters: int, runs: int, seed: int) -> float:
    """Share of runs without any difference in which the sign-flip test says p <= 0.05."""
    drawn = draw((0.6, 0.4, 0.6, 0.4), clusters, (1, 8), 0.4, runs, seed)
    codes = np.arange(clusters)
    return float(np.mean([sign_flip(sums, codes) <= 0.05 for sums in drawn.sums]))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="simulated runs a scenario (default 10,000)")
    runs = parser.parse_args(argv).runs
    good = True
    columns = [
        "figure",
        "clusters",
        "scenarios",
        "mean",
        "least",
        "most",
        "in 93.5-96.5 %",
        "90 % interval",
        "percentile",
    ]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for figure, (scale, all_rates) in FIGURES.items():
        for clusters in CLUSTERS:
            shares, nineties, percentiles = [], [], []
            for sizes in SIZES:
                for correlation in CORRELATIONS:
                    for rates in all_rates:
                        seed = clusters * 1000 + sizes[1] * 100 + int(correlation * 10)
                        drawn = draw(rates, clusters, sizes, correlation, runs if clusters < 100 else runs // 5, seed)
                        for strata in (1, 4) if clusters >= 12 else (1,):
                            shares.append(covered(ends(drawn, scale, strata), drawn.truth))
                            nineties.append(covered(ends(drawn, scale, strata, 0.9), drawn.truth))
                        if clusters <= 20 and sizes == (1, 8):
                            percentiles.append(covered(percentile_ends(drawn), drawn.truth))
            inside = sum(BAND[0] <= share <= BAND[1] for share in shares)
            mean = float(np.mean(shares))
            good &= scale == "share" or clusters < 12 or BAND[0] <= mean <= BAND[1]
            bootstrap = f"{np.mean(percentiles):.3f}" if percentiles else "-"
            print(
                f"| {figure} | {clusters} | {len(shares)} | {mean:.3f} | {min(shares):.3f} | {max(shares):.3f} | "
                f"{inside}/{len(shares)} | {np.mean(nineties):.3f} | {bootstrap} |",
                flush=True,
            )
    print("\n| sign-flip test, clusters | false alarms at 5 % |\n|---|---|")
    for clusters in (8, 12, 20, 50):
        alarms = false_alarms(clusters, runs, clusters)
        good &= alarms <= 0.06
        print(f"| {clusters} | {alarms:.3f} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
