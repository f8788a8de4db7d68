"""Draws are hashes: uniform, and independent of order and number."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from lm_eval_illusion.pairs.draw import draw, shuffled, spread
from lm_eval_illusion.pairs.options import arrange


def test_draw_is_fixed():
    assert draw("a", 1) == draw("a", 1)
    assert draw("a", 1) != draw("a1") != draw("a", 2)
    assert draw("x") == 0x2D711642B726B044  # first 8 bytes of SHA-256("x")


@given(st.lists(st.text(max_size=4), max_size=12, unique=True), st.integers())
def test_shuffled_forgets_the_input_order(values, seed):
    again = list(values)
    random.Random(seed).shuffle(again)
    assert shuffled(values, "k") == shuffled(again, "k")
    assert sorted(shuffled(values, "k")) == sorted(values)


def test_the_key_is_in_each_place_equally_often():
    n = 5077
    places = [
        arrange("g", [("a", "s"), ("b", "s"), ("c", "s")], ("tydiqa", f"id-{i}", "near", 0)).gold for i in range(n)
    ]
    sigma = math.sqrt(n * 0.25 * 0.75)
    for place in range(4):
        assert abs(places.count(place) - n / 4) < 3 * sigma


def test_arranged_options_keep_their_sources():
    made = arrange("g", [("a", "p"), ("b", "q"), ("c", "r")], ("k",))
    assert dict(zip(made.choices, made.sources, strict=True)) == {"g": "gold", "a": "p", "b": "q", "c": "r"}
    assert made.choices[made.gold] == "g"


def test_one_question_a_passage_first():
    clusters = ["p", "p", "p", "q", "q", "r"]
    keys = list("abcdef")
    order = spread(clusters, keys)
    assert sorted(order) == list(range(6))
    assert sorted(clusters[i] for i in order[:3]) == ["p", "q", "r"]
    assert sorted(clusters[i] for i in order[3:5]) == ["p", "q"]


@given(st.permutations(range(8)))
def test_sampling_order_depends_on_ids_alone(rows):
    clusters, keys = ["p", "p", "q", "q", "q", "r", "s", "s"], list("abcdefgh")
    straight = [keys[i] for i in spread(clusters, keys)]
    mixed = spread([clusters[i] for i in rows], [keys[i] for i in rows])
    assert [keys[rows[i]] for i in mixed] == straight
