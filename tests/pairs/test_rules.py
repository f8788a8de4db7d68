"""What may stand beside a gold."""

import pytest

from lm_eval_illusion.pairs.kinds import is_numeric, number_shape
from lm_eval_illusion.pairs.rules import (
    ALIGNED,
    Answer,
    admissible,
    entangled,
    same_script,
    similar_length,
    unlikeness,
    would_count_as_right,
)


def answers(language, *texts):
    return [Answer(text, language) for text in texts]


@pytest.mark.parametrize(
    ("language", "option", "golds", "stands"),
    [
        ("en", "London", ["Paris"], True),
        ("en", "PARIS!", ["Paris"], False),  # equal after normalisation
        ("en", "Paris Hilton", ["Paris"], False),  # contains the gold
        ("en", "Texas", ["Paris, Texas"], False),  # contained in the gold
        ("en", "Lyon", ["Paris", "Lyons"], False),  # contained in another gold
        ("en", "1951", ["Paris"], False),  # another kind
        ("en", "seven", ["12"], True),  # number words are numeric
        ("en", "a very long text that goes on and on and on", ["Paris"], False),  # another length
        ("en", "New York City Hall", ["City Hall of York"], False),  # the matcher would take it
        ("en", "a<b>", ["c d"], False),  # markup
        ("en", "...", ["abc"], False),  # nothing left of it
        ("ru", "London", ["Москва"], False),  # another script
        ("ru", "Киев", ["Москва"], True),
        ("ar", "1951", ["١٩٤٨"], False),  # another script of digits
        ("ko", "1903년 4월 3일", ["1904년 6월 16일"], True),  # shares tokens, but not the digits
        ("zh", "上海", ["北京"], True),
        ("th", "เชียงใหม่", ["กรุงเทพ"], True),
    ],
)
def test_admissible(language, option, golds, stands):
    assert admissible(Answer(option, language), answers(language, *golds)) is stands


def test_rules_are_symmetric():
    for left, right in (("Paris", "Paris Hilton"), ("1951", "Rome"), ("ab", "abcdefghijklmn")):
        a, b = answers("en", left, right)
        assert entangled(a, b) == entangled(b, a)
        assert similar_length(a, b) == similar_length(b, a)
        assert same_script(a, b) == same_script(b, a)
        assert same_script(a, a)


def test_aligned_texts_may_differ_more_in_length():
    a, b = answers("en", "ten letters", "twenty letters and then some more words")
    assert not similar_length(a, b)
    assert similar_length(a, b, ALIGNED)


def test_the_matcher_decides_what_would_count():
    a, b = answers("en", "red big house", "big red dog")
    assert would_count_as_right(a, b)  # two of three tokens: F1 2/3
    c, d = answers("en", "3 May 1990", "3 May 1991")
    assert not would_count_as_right(c, d)  # F1 2/3, but 1991 is missing


def test_shapes():
    assert number_shape("11 Julai 1977", "sw") == "DwY"
    assert number_shape("2,500", "en") == "D"
    assert is_numeric("twenty-five", "en")
    assert is_numeric("১৯৭১", "bn")
    assert not is_numeric("Paris", "en")


def test_a_likelier_text_costs_less():
    gold, year, count, capital, small = answers("en", "1990", "1985", "7", "Paris", "paris")
    assert unlikeness(year, gold) == 0
    assert unlikeness(count, gold) > 1
    assert unlikeness(small, capital) == pytest.approx(0.8)
