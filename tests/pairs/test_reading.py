"""Which line of the output is the answer, and which faults of form are flagged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_illusion.pairs.reading import ends_in_repetition, line_complete, read_answer


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("Paris\nQuestion: next", "Paris"),
        ("\n\n  Paris  \n", "Paris"),
        ("\u200b\n\ufeff\nParis", "Paris"),
        ("<think>London? No.</think>\nParis", "Paris"),
        ("<think>a</think>\n<think>b</think>Paris", "Paris"),
        ("the user wants a city</think>\n\nParis", "Paris"),
        ("Paris\u2028Rome\nOslo", "Paris Rome"),
        ("Paris\rRome\x0b\r\nOslo", "Paris Rome"),
        ("\u2028\nOslo", "Oslo"),
        ("", ""),
        ("\n \n", ""),
        ("<think>never ends\nParis", ""),
        ("Paris\n<think>afterthought", "Paris"),
    ],
)
def test_answer_line(output, answer):
    assert read_answer(output, "en").answer == answer


@pytest.mark.parametrize(
    ("output", "complete"),
    [
        ("", False),
        ("Paris", False),
        ("Paris\n", True),
        ("\u200b\n", False),
        ("\ufeff\u2060\n\u200b\nParis\n", True),
        ("Paris\u2028", False),
        ("Paris\r\n", True),
        ("<THINK>Paris\n", False),
        ("<Think>a\n</THINK>\n", False),
        ("<THINK>a\n</think>Paris\n", True),
        ("<think>a</think>\n<think>b\n", False),
        ("b\n</think>Paris", False),
        ("Paris\n<think>afterthought", True),
        ("Paris<think>afterthought\n", False),
    ],
)
def test_a_line_is_complete_when_the_answer_has_a_newline_after_it(output, complete):
    assert line_complete(output) is complete


_PIECES = ["a", "é", " ", "\n", "\r", "\u200b", "\u2028", "<think>", "<THINK>", "<thi", "nk>", "</think>", "</Think>"]
_LATER = [*_PIECES[:-2], "<think>b\n</THINK>", "</"]  # no thought is closed that was not opened
said, said_later = (st.lists(st.sampled_from(pieces)).map("".join) for pieces in (_PIECES, _LATER))


@given(said, said_later)
def test_what_follows_a_complete_line_changes_no_answer(output, more):
    if line_complete(output):
        assert read_answer(output + more, "en").answer == read_answer(output, "en").answer != ""


@given(said)
def test_an_answer_with_a_newline_after_it_is_complete(output):
    reading = read_answer(output, "en")
    assert reading.answer or not line_complete(output)
    if reading.answer and not reading.unclosed_thought:
        assert line_complete(output + "\n")


def test_flags():
    assert read_answer("", "en").empty
    assert not read_answer("x", "en").empty
    assert read_answer("<think>never ends", "en").unclosed_thought
    assert not read_answer("<think>ends</think> x", "en").unclosed_thought
    assert read_answer("go " * 12, "en").repeated
    assert read_answer("是的" * 12, "zh").repeated


@pytest.mark.parametrize(
    ("pieces", "repeated"),
    [
        ("a b c d e f", False),
        ("x a a a a a a", True),
        ("no no no", False),
        ("a b a b a b", True),
        ("a b a b a b a", True),
        ("a b c a b c", False),
        ("a b c a b c a b c", True),
        ("a b a b a b then it ends well", False),
        ("", False),
    ],
)
def test_repetition_is_of_the_end(pieces, repeated):
    assert ends_in_repetition(pieces.split()) is repeated
