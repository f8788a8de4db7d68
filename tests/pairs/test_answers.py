"""Matching in many languages: hand-written cases, and what must hold for any text."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_illusion.pairs.answers import NO_MATCH, is_run, match, overlap_f1
from lm_eval_illusion.pairs.normalise import Level, characters, level_of, normalise, tokens
from lm_eval_illusion.pairs.prompts import LABELS

CASES = json.loads((Path(__file__).parent / "cases" / "matching.json").read_text(encoding="utf-8"))
LANGUAGES = st.sampled_from(sorted(LABELS))
TEXTS = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("0123456789,.  -'IİıiςΣßل اـ\u200d\u0301\u00a0१٣가é中の"),
    ),
    max_size=24,
)


@pytest.mark.parametrize("case", CASES, ids=[f"{c['language']}: {c['why']}" for c in CASES])
def test_case(case):
    found = match(case["answer"], case["golds"], case["language"])
    for field in ("exact", "contained", "near", "standard"):
        if field in case:
            assert getattr(found, field) is case[field], field
    for field in ("f1", "char_f1"):
        if field in case:
            assert getattr(found, field) == pytest.approx(case[field], abs=1e-4), field


def test_every_language_has_a_case():
    assert {
        "ar",
        "bn",
        "de",
        "el",
        "en",
        "es",
        "fi",
        "hi",
        "id",
        "ko",
        "ro",
        "ru",
        "sw",
        "te",
        "th",
        "tr",
        "vi",
        "zh",
    } <= {case["language"] for case in CASES}


@given(TEXTS, LANGUAGES)
def test_normalising_twice_changes_nothing(text, language):
    once = normalise(text, language)
    assert normalise(once, language) == once


@given(TEXTS, TEXTS, LANGUAGES)
def test_scores_are_symmetric_and_bounded(left, right, language):
    a, b = tokens(left, language), tokens(right, language)
    assert overlap_f1(a, b) == overlap_f1(b, a)
    assert 0.0 <= overlap_f1(a, b) <= 1.0
    found = match(left, [right], language)
    assert 0.0 <= found.f1 <= 1.0
    assert 0.0 <= found.char_f1 <= 1.0
    assert not found.exact or (found.contained and found.standard)


@given(TEXTS, LANGUAGES)
def test_an_answer_is_right_by_itself_unless_blank(text, language):
    found = match(text, [text], language)
    assert found == NO_MATCH if not text.strip() else found.exact and found.f1 == 1.0


@given(TEXTS, LANGUAGES)
def test_marks_are_never_removed(text, language):
    before = sum(c == "\u0301" for c in "e\u0301x" + text)
    assert before >= 1
    assert normalise("e\u0301x", language) == normalise("éx", language) != normalise("ex", language)


def test_levels():
    assert level_of("The Who", "en") is Level.FULL
    assert level_of("The", "en") is Level.ARTICLES_KEPT
    assert level_of("...", "en") is Level.RAW


def test_characters_keep_digit_runs_whole():
    assert characters(["1989", "ab"]) == ["1989", "a", "b"]


def test_is_run():
    assert is_run(["b", "c"], ["a", "b", "c"])
    assert not is_run(["b", "c"], ["b", "a", "c"])
    assert not is_run([], ["a"])
