"""Spans of a passage that have as many answer tokens as the gold."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_illusion.pairs.normalise import normalise, tokens
from lm_eval_illusion.pairs.windows import same_length_spans


def test_words():
    found = same_length_spans("The cat saw Anna Berg in Rome, Italy.", ["Anna Berg"], "en")
    # "the" is no token in English: "cat" may not be reached with it in front, nor a span begin or end with it
    assert found == ["cat saw", "saw Anna", "Berg in", "in Rome", "Rome, Italy"]


def test_articles_inside_are_not_counted():
    assert same_length_spans("saw the cat run", ["old dog"], "en") == ["saw the cat", "cat run"]


def test_other_right_answers_and_repeats_are_left_out():
    passage = "Rome or rome or Roma or Oslo"
    assert same_length_spans(passage, ["Rome", "Roma"], "en") == ["or", "Oslo"]


def test_numbers_and_ranges():
    found = same_length_spans("From 1,500 men in 1990–1995 some left.", ["1990"], "en")
    assert found == ["From", "1,500", "men", "in", "1995", "some", "left"]


def test_graphemes_where_there_are_no_spaces():
    assert same_length_spans("他在2001年到NASA。", ["北京"], "zh") == ["他在", "在2001", "2001年", "年到", "到NASA"]
    assert same_length_spans("กินข้าว", ["ดี"], "th") == ["กิ", "น", "ข้", "า", "ว"]


def test_a_short_passage_has_none():
    assert same_length_spans("Rome", ["Anna Berg"], "en") == []
    assert same_length_spans("Rome", ["Rome"], "en") == []


WORDS = st.lists(st.sampled_from(["Rome", "the", "a1", "12", "1,000", "don't", "x-y", "Öl", "3–4", ","]), max_size=12)


@given(WORDS, st.sampled_from(["Rome", "Rome Öl", "12 x", "the"]))
@settings(max_examples=150, deadline=None)
def test_every_span_has_the_gold_s_length_stands_there_and_is_new(words, gold):
    passage = " ".join(words)
    found = same_length_spans(passage, [gold], "en")
    spelled = [normalise(text, "en") for text in found]
    assert len(set(spelled)) == len(spelled)
    assert normalise(gold, "en") not in spelled
    for text in found:
        assert text in passage
        if gold != "the":
            assert len(tokens(text, "en")) == len(tokens(gold, "en"))


@given(st.lists(st.sampled_from(["ab", "cd", "ef", "gh"]), min_size=1, max_size=10), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_plain_words_are_all_windows(words, n):
    windows = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
    assert same_length_spans(" ".join(words), [" ".join(["zz"] * n)], "en") == list(dict.fromkeys(windows))
