"""Both rooms hash a passage alike, though neither may import the other: else an overlap would go unseen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_illusion.pairs.questions import passage_digest
from prune_hooks.calibration.documents import text_hash


@given(st.text(st.sampled_from("aé \t\n\u00a0\u2028\u3000\ufeff\u200b\u0085ไ"), max_size=20))
def test_same_text_same_hash(text):
    assert passage_digest(text) == text_hash(text)


@pytest.mark.parametrize("odd", ["\ufeffThe river.", "The\n\nriver. ", " The\u00a0river."])
def test_white_space_and_byte_order_marks_do_not_count(odd):
    assert passage_digest(odd) == text_hash(odd) == text_hash("The river.")
