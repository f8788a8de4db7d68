"""Cluster-robust intervals: by hand, against matrices, and by simulation."""

import math

import numpy as np
import pytest
from scipy import linalg, stats

from benchmarks.coverage import covered, draw, ends, percentile_ends
from lm_eval_illusion.report.stats import Clusters, mean_interval
from lm_eval_illusion.report.stats.intervals import cr2_variance


def clusters_of(*keys, language="en"):
    return Clusters.from_keys(["set"] * len(keys), [language] * len(keys), list(keys))


def test_cr2_by_hand():
    # clusters (1, 1), (0, 0), (1, 0): mean 1/2, residual sums 1, -1, 0, each of leverage 1/3
    variance, squares = cr2_variance(np.array([2.0, 0.0, 1.0]), np.array([2.0, 2.0, 2.0]))
    assert variance == pytest.approx(2 / (1 - 1 / 3) / 36)
    assert (1 / 6) ** 2 / squares == pytest.approx(2.0)  # equal clusters: C - 1


def test_cr2_agrees_with_the_matrix_definition():
    values = np.array([1, 0, 1, 1, 0, 0, 1, -1, 1, 0], dtype=float)
    codes = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 3])
    n = len(values)
    hat = np.full((n, n), 1 / n)
    rows = []
    for code in range(4):
        inside = np.flatnonzero(codes == code)
        correction = linalg.inv(linalg.sqrtm(np.eye(len(inside)) - hat[np.ix_(inside, inside)]).real)
        rows.append(np.ones(len(inside)) @ correction @ (np.eye(n) - hat)[inside] / n)
    form = np.array(rows)
    sizes = np.bincount(codes).astype(float)
    variance, squares = cr2_variance(np.bincount(codes, weights=values), sizes)
    assert variance == pytest.approx(float(((form @ values) ** 2).sum()))
    gram = form @ form.T
    assert (1 / n) ** 2 / squares == pytest.approx(np.trace(gram) ** 2 / np.trace(gram @ gram))


def test_share_of_single_items_is_wilson_with_t():
    values = np.array([1.0] * 3 + [0.0] * 7)
    interval = mean_interval(values, clusters_of(*map(str, range(10))), scale="share", bounds=(0, 1))
    t = stats.t.ppf(0.975, 9)
    effective = 9.0  # p(1-p) over p(1-p)/(n-1)
    centre = (0.3 + t**2 / (2 * effective)) / (1 + t**2 / effective)
    half = t / (1 + t**2 / effective) * math.sqrt(0.21 / effective + t**2 / (4 * effective**2))
    assert (interval.low, interval.high) == pytest.approx((centre - half, centre + half))
    assert interval.degrees == pytest.approx(9)


def test_no_difference_at_all_has_a_width():
    interval = mean_interval(np.zeros(24), clusters_of(*map(str, range(24))), scale="difference", bounds=(-1, 1))
    half = stats.t.ppf(0.975, 23) / 25  # one pseudo item: variance 1/(n+1), over n+1
    assert (interval.value, interval.low, interval.high) == pytest.approx((0, -half, half))


def test_undefined_without_items_or_clusters():
    none = mean_interval(np.array([]), clusters_of(), scale="share", bounds=(0, 1))
    assert math.isnan(none.value)
    assert none.items == 0
    one = mean_interval(np.array([1.0, 0.0]), clusters_of("a", "a"), scale="share", bounds=(0, 1))
    assert one.value == 0.5
    assert math.isnan(one.low)


def test_bounds_are_kept():
    interval = mean_interval(np.array([1.0, 1.0, 0.0]), clusters_of("a", "b", "c"), scale="difference", bounds=(-1, 1))
    assert interval.high == 1.0


def test_clusters_that_span_languages_are_kept_together():
    parallel = Clusters.from_keys(["x"] * 4, ["en", "de", "en", "de"], ["p1", "p1", "p2", "p2"])
    assert parallel.count == 2
    assert set(parallel.stratum) == {0}
    apart = Clusters.from_keys(["t"] * 4, ["en", "de", "en", "de"], ["p1", "p2", "p3", "p4"])
    assert apart.count == 4
    assert len(set(apart.stratum)) == 2


def test_strata_of_one_cluster_are_pooled():
    lone = Clusters.from_keys(["t"] * 4, ["en", "en", "de", "ko"], ["a", "b", "c", "d"])
    assert lone.stratum[2] == lone.stratum[3] != lone.stratum[0]
    single = Clusters.from_keys(["t"] * 3, ["en", "en", "de"], ["a", "b", "c"])
    assert len(set(single.stratum)) == 1


def test_equal_strata_weigh_languages_alike():
    keys = Clusters(np.arange(6), np.array([0, 0, 0, 0, 1, 1]))
    values = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    assert mean_interval(values, keys, scale="share", bounds=(0, 1), equal_strata=True).value == 0.5
    assert mean_interval(values, keys, scale="share", bounds=(0, 1)).value == pytest.approx(2 / 3)


def test_two_runs_without_a_flip_differ_by_nothing_and_strata_shorten():
    values = np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    keys = [str(i) for i in range(8)]
    whole = mean_interval(values, clusters_of(*keys), scale="difference", bounds=(-1, 1))
    split = Clusters.from_keys(["t"] * 8, ["en"] * 4 + ["de"] * 4, keys)
    stratified = mean_interval(values, split, scale="difference", bounds=(-1, 1))
    assert stratified.value == whole.value
    assert stratified.high - stratified.low < whole.high - whole.low


@pytest.mark.parametrize("clusters", [12, 16, 20])
def test_coverage_which_the_percentile_bootstrap_misses(clusters):
    drawn = draw((0.5, 0.2), clusters, (1, 8), 0.4, 4000, seed=clusters)
    assert 0.935 <= covered(ends(drawn, "difference"), drawn.truth) <= 0.965
    if clusters == 12:
        assert covered(percentile_ends(drawn, 200), drawn.truth) < 0.935


def test_coverage_of_strata():
    drawn = draw((0.45, 0.2, 0.6, 0.4), 16, (1, 8), 0.4, 4000, seed=5)
    assert 0.935 <= covered(ends(drawn, "difference", strata=4), drawn.truth) <= 0.965
