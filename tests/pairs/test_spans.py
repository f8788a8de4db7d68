"""Typed spans of a passage."""

import pytest

from lm_eval_illusion.pairs.questions import Question, tidy
from lm_eval_illusion.pairs.rules import Answer
from lm_eval_illusion.pairs.spans import kind_of, typed_spans
from lm_eval_illusion.pairs.vocabulary import alike, count_words, letters

PASSAGE = (
    "In 1951 the painter Karla Ruhl moved to Weimar with 14 pupils. The old mill burned down in 1962, "
    "and the city of Jena paid 3 million marks."
)


def vocabulary(language="en", passage=PASSAGE, gold="Karla Ruhl"):
    question = Question("d", language, "i", passage, "Who moved?", (gold,), "c", "")
    return count_words([question], language)


def texts(gold, language="en", passage=PASSAGE):
    return {s.text for s in typed_spans(passage, Answer(gold, language), vocabulary(language, passage))}


def test_bare_numbers():
    assert texts("1951") == {"14", "1962", "3"}


def test_names_come_with_capitals():
    assert texts("Karla Ruhl") == {"Weimar", "Jena"}


def test_phrases_without_function_words_at_the_edges():
    found = texts("old mill")
    assert {"moved", "city", "paid"} <= found
    assert not any(t.split()[0] in {"the", "and", "of", "in"} or t.split()[-1] in {"the", "to", "of"} for t in found)


def test_number_phrases_hold_a_number():
    found = texts("14 pupils")
    assert "3 million" in found
    assert all(any(c.isdigit() for c in text) for text in found)


def test_spans_do_not_overlap_the_gold():
    assert not any("Weimar" in text for text in texts("Weimar"))


def test_long_golds_get_none():
    assert texts("a b c d e f g") == set()


def test_scripts_without_case_get_spans_too():
    passage = "انتقل الرسام كارل رول إلى مدينة فايمار، واحترقت الطاحونة القديمة لاحقا."
    assert "فايمار" in texts("كارل رول", "ar", passage)


@pytest.mark.parametrize(("text", "kind"), [("7 days", "number"), ("Bay of Pigs", "name"), ("old mill", "phrase")])
def test_kind(text, kind):
    assert kind_of(text, vocabulary()) == kind


def test_a_korean_particle_comes_off_where_the_stem_is_seen():
    words = vocabulary("ko", "서울은 크다. 서울의 강이 길다. 고양이 한 마리.", "서울")
    assert words.bare("서울은") == "서울"
    assert words.bare("고양이") == "고양이"
    assert letters("서울") == 1
    assert letters("mill") == 2


def test_asking_words_tell_questions_apart():
    who, when = "Who sang?", "When was it?"
    rows = [Question("d", "en", str(i), "p", q, ("x",), "c", "") for i, q in enumerate([who, who, when, when])]
    words = count_words(rows, "en")
    assert words.asks(who) == {"who", "sang"}
    assert alike(words.asks(who), words.asks(who)) == 1.0
    assert alike(words.asks(who), words.asks(when)) == 0.0
    assert alike(frozenset(), frozenset()) == 0.0


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ('"War"', "War"),
        ("Paris.", "Paris"),
        ("2 miles)", "2 miles"),
        ("42 inches (1.067m)", "42 inches (1.067m)"),
        ("(so)", "so"),
        ("3.4%", "3.4%"),
        ("-40", "-40"),
        ("《战争》", "战争"),
        ("?", "?"),
    ],
)
def test_tidy(text, tidied):
    assert tidy(text) == tidied
