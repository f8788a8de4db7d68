"""KL and flips by hand: what moves among the options while accuracy stands still."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe_records import ask
from synthetic import pattern

from lm_eval_illusion.report.option_shift import divergence, option_shifts

SCORES = st.lists(st.floats(-500, 0), min_size=2, max_size=7)


def test_divergence_by_hand():
    """(1/2, 1/2) against (1/4, 3/4): ln 2 / 2 + ln(2/3) / 2."""
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert divergence([0.0, 0.0], [math.log(0.25), math.log(0.75)]) == pytest.approx(expected)
    assert divergence([-700.0, -701.0], [-1.0, -2.0]) == pytest.approx(0.0, abs=1e-9)  # a shift of all says nothing


@given(SCORES, st.randoms(use_true_random=False))
def test_divergence_is_none_of_itself_and_never_negative(scores, random):
    other = random.sample(scores, len(scores))
    assert divergence(scores, scores) == 0.0
    assert divergence(scores, other) >= 0.0


def test_flips_beside_accuracy():
    dense, pruned = pattern("bbnn"), pattern("bnbn")
    near, far = option_shifts(ask(dense), ask(pruned))
    moved = divergence([-1, -2, -9, -9], [-2, -1, -9, -9])
    assert (near.distance, far.distance) == ("near", "far")
    assert (near.items, near.flipped, near.flips, near.lost, near.won, near.accuracy_change) == (4, 2, 0.5, 1, 1, 0.0)
    assert near.kl.value == pytest.approx(moved / 2)
    assert near.kl.low >= 0


def test_items_without_finite_scores_are_left_out():
    dense, pruned = ask(pattern("bb")), ask(pattern("bn"))
    broken = dense.halves[1].near.model_copy(update={"logprobs": [-1.0, None, -2.0, -3.0]})
    dense.halves[1] = type(dense.halves[1])(broken, dense.halves[1].far, dense.halves[1].generation)
    near, far = option_shifts(dense, pruned)
    assert (near.items, near.flipped, far.items, far.flipped) == (1, 0, 2, 1)


def test_two_runs_of_one_model_do_not_move():
    near, _ = option_shifts(ask(pattern("brn")), ask(pattern("brn")))
    assert (near.kl.value, near.flips, near.accuracy_change) == (0.0, 0.0, 0.0)
