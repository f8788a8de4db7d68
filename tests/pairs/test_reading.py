"""Which line of the output is the answer, and which faults of form are flagged."""

import pytest

from lm_eval_illusion.pairs.reading import ends_in_repetition, read_answer


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("Paris\nQuestion: next", "Paris"),
        ("\n\n  Paris  \n", "Paris"),
        ("\u200b\n\ufeff\nParis", "Paris"),
        ("<think>London? No.</think>\nParis", "Paris"),
        ("<think>a</think>\n<think>b</think>Paris", "Paris"),
        ("the user wants a city</think>\n\nParis", "Paris"),
        ("Paris\u2028Rome", "Paris"),
        ("", ""),
        ("\n \n", ""),
        ("<think>never ends\nParis", ""),
        ("Paris\n<think>afterthought", "Paris"),
    ],
)
def test_answer_line(output, answer):
    assert read_answer(output, "en").answer == answer


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
