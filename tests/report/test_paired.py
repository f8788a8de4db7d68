"""Exact tests, Holm and power: numbers worked out by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_illusion.report.stats import Interval, detectable_difference, holm, judge_equivalence, mcnemar, sign_flip


@pytest.mark.parametrize(
    ("lost", "won", "p"),
    [
        (0, 0, 1.0),
        (5, 5, 1.0),
        (6, 0, 2 / 64),  # two tails of one way each in 2**6
        (7, 1, 2 * (1 + 8) / 256),
        (1, 7, 2 * (1 + 8) / 256),
        (3, 1, 2 * (1 + 4) / 16),
    ],
)
def test_mcnemar_by_hand(lost, won, p):
    assert mcnemar(lost, won) == pytest.approx(p)


def test_sign_flip_by_hand():
    # totals 2, 1, 0: signed sums -3, -1, 1, 3; only -3 and 3 reach |3|
    assert sign_flip([1, 1, 1, 0], [0, 0, 1, 2]) == pytest.approx(0.5)
    # totals 2, -1: |sum| = 1, which every sign pattern reaches
    assert sign_flip([1, 1, -1], [0, 0, 1]) == 1.0
    assert sign_flip([0, 0], [0, 1]) == 1.0


def test_sign_flip_refuses_fractions():
    with pytest.raises(ValueError, match="whole numbers"):
        sign_flip([0.5, 1.0], [0, 1])


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=30))
def test_sign_flip_of_single_items_is_mcnemar(changes):
    assert sign_flip(changes, range(len(changes))) == pytest.approx(mcnemar(changes.count(-1), changes.count(1)))


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), min_size=1, max_size=12))
def test_sign_flip_equals_full_enumeration(pairs):
    values, codes = zip(*pairs, strict=True)
    totals = np.bincount(codes, weights=values)
    sums = [
        abs(sum(s * t for s, t in zip(signs, totals, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(totals))
    ]
    assert sign_flip(values, codes) == pytest.approx(np.mean([s >= abs(totals.sum()) for s in sums]))


def test_holm_by_hand():
    # sorted .01 .03 .04 -> x3, x2, x1, kept monotone: .03, .06, .06
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.01, None, 0.6]) == [pytest.approx(0.02), None, pytest.approx(0.6)]
    assert holm([None]) == [None]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_what_the_step_down_procedure_rejects(pvalues, alpha):
    rejected = set()
    for step, index in enumerate(sorted(range(len(pvalues)), key=pvalues.__getitem__)):
        if pvalues[index] * (len(pvalues) - step) > alpha:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(pvalues)) if p <= alpha} == rejected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.randoms())
def test_holm_keeps_order_and_never_lowers(pvalues, random):
    corrected = holm(pvalues)
    assert all(after >= before and after <= 1 for before, after in zip(pvalues, corrected, strict=True))
    order = list(range(len(pvalues)))
    random.shuffle(order)
    shuffled = holm([pvalues[i] for i in order])
    assert [shuffled[order.index(i)] for i in range(len(pvalues))] == pytest.approx(corrected)


@pytest.mark.parametrize(("discordance", "difference"), [(0.1, 0.061), (0.2, 0.087), (0.3, 0.106), (0.5, 0.137)])
def test_detectable_difference_at_200(discordance, difference):
    assert detectable_difference(200, discordance) == pytest.approx(difference, abs=0.0005)


@pytest.mark.parametrize(
    ("low", "high", "enough", "verdict"),
    [
        (-0.04, 0.04, True, "equivalent"),
        (-0.06, 0.04, True, "not shown"),
        (0.06, 0.2, True, "different"),
        (-0.2, -0.06, True, "different"),
        (-0.04, 0.04, False, "undecided"),
        (float("nan"), float("nan"), True, "undecided"),
    ],
)
def test_equivalence_verdicts(low, high, enough, verdict):
    interval = Interval(0.0, low, high, 100, 100, 99.0)
    assert judge_equivalence(interval, 0.05, enough=enough).verdict == verdict
