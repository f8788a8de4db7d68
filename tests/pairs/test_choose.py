"""Three out of many."""

from lm_eval_illusion.pairs.choose import Candidate, choose_three
from lm_eval_illusion.pairs.rules import Answer


def candidate(text, cost=0.0, place=None):
    return Candidate(Answer(text, "en"), "passage:name", cost, place)


GOLD = Answer("Berlin", "en")


def test_too_few():
    assert choose_three([candidate("Rome"), candidate("Oslo")], GOLD, None, ("k",)) is None
    assert choose_three([candidate("Rome"), candidate("rome"), candidate("Oslo")], GOLD, None, ("k",)) is None


def test_distractors_do_not_contain_one_another():
    pool = [candidate("Rome"), candidate("Rome East"), candidate("Oslo"), candidate("Lima", cost=50)]
    chosen = {c.answer.text for c in choose_three(pool, GOLD, None, ("k",))}
    assert {"Oslo", "Lima"} < chosen
    assert not {"Rome", "Rome East"} <= chosen


def test_the_better_ones_are_taken():
    pool = [candidate(t) for t in ("Lisbon", "Madrid", "Prague")] + [candidate("Vienna", cost=9)]
    assert {c.answer.text for c in choose_three(pool, GOLD, None, ("k",))} == {"Lisbon", "Madrid", "Prague"}


def test_input_order_plays_no_role():
    pool = [candidate(t) for t in ("Lisbon", "Madrid", "Prague", "Vienna", "Athens", "Dublin")]
    first = choose_three(pool, GOLD, None, ("k",))
    assert choose_three(pool[::-1], GOLD, None, ("k",)) == first


def test_the_gold_is_longest_in_about_a_quarter():
    pool = [candidate(t) for t in ("Rom", "Oslo", "Lima", "Hamburg", "Istanbul", "Stockholm", "Bern", "Kopenhagen")]
    longest = 0
    for i in range(400):
        chosen = choose_three(pool, GOLD, None, (i,))
        longest += all(len(c.answer.text) < len("Berlin") for c in chosen)
    assert 70 <= longest <= 130  # 100 expected, sigma 8.7


def test_the_gold_is_first_in_about_a_quarter_where_the_passage_allows():
    pool = [candidate(t, place=p) for p, t in enumerate(("Lisbon", "Madrid", "Prague", "Vienna", "Athens", "Dublin"))]
    first = 0
    for i in range(400):
        chosen = choose_three(pool, GOLD, 2.5, (i,))
        first += all(c.place > 2.5 for c in chosen)
    assert 70 <= first <= 130
