"""Ranks along the gold and among spans, by hand."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.results import count_valid, process_rank, process_rank_spans

from .probed import row, said, scored

THIRD = {
    "ranks": [3, 1],
    "logprobs": [-2.5, -0.25],
    "leave": 0,
    "margin": -1.25,
    "agreement": 0.5,
    "gold_logprob": -2.75,
    "greedy_logprob": -1.5,
    "gold_tokens": 2,
    "greedy_tokens": 1,
}


def told(**change):
    return said("Oslo\n", ranks={**THIRD, **change})


def test_gold_at_rank_three():
    out = process_rank(row("rank"), told())
    record = out["illusion"]
    assert out["gold_first"] == 0.0
    assert THIRD.items() <= record.items()
    assert (record["answer"], record["gold_text"], record["answers"]) == ("Oslo", "Paris", ["Paris", "City of Paris"])
    assert (record["valid"], record["condition"], record["flags"]) == (True, "rank", {"non_finite": False})


def test_a_model_that_never_leaves_the_gold():
    out = process_rank(row("rank"), told(ranks=[1, 1], leave=None, margin=None, agreement=1.0))
    assert out["gold_first"] == 1.0
    assert (out["illusion"]["valid"], out["illusion"]["leave"], out["illusion"]["margin"]) == (True, None, None)


@pytest.mark.parametrize("change", [
    {"ranks": [3, None], "logprobs": [-2.5, None]},
    {"logprobs": [-2.5, math.nan]},
    {"margin": -math.inf},
    {"gold_logprob": math.inf},
    {"agreement": None},
    {"ranks": [], "logprobs": []},
    dict.fromkeys(THIRD),
])  # fmt: skip
def test_numbers_that_are_not_finite_make_the_item_invalid(change):
    out = process_rank(row("rank"), told(**change))
    assert set(out) == {"illusion"}
    record = out["illusion"]
    assert record["invalid_reason"] == "non_finite"
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert count_valid([record]) == 0


@pytest.mark.parametrize(("lost", "reason"), [({"fits": False}, "does_not_fit"), ({"non_finite": True}, "non_finite")])
def test_what_could_not_be_ranked_is_invalid(lost, reason):
    record = process_rank(row("rank"), said("", **lost))["illusion"]
    assert (record["invalid_reason"], record["ranks"], record["gold_logprob"]) == (reason, [], None)
    assert record["flags"]["non_finite"] is ("non_finite" in lost)


@pytest.mark.parametrize("responses", [["Oslo"], said("Oslo"), [""], []])
def test_a_backend_that_does_not_tell_is_an_error(responses):
    found = "task d_rank_en: the answer to item d/en/1 came back without its ranks.*--model pruned_hf --tasks d_rank_en"
    with pytest.raises(IllusionError, match=found):
        process_rank(row("rank"), responses)


def test_gold_third_among_the_spans():
    # In -1, Paris -3, they -2, walked -3, home -9: two spans are likelier, one is as likely
    out = process_rank_spans(row("rank_spans"), scored(-1.0, -3.0, -2.0, -3.0, -9.0))
    record = out["illusion"]
    assert (record["gold_rank"], record["spans"], record["gold_logprob"]) == (3, 5, -3.0)
    assert (record["best"], record["best_logprob"], out["gold_best"]) == ("In", -1.0, 0.0)


def test_gold_first_among_the_spans():
    out = process_rank_spans(row("rank_spans"), scored(-4.0, -3.0, -4.0, -4.0, -9.0, fits=True))
    assert (out["gold_best"], out["illusion"]["gold_rank"], out["illusion"]["best"]) == (1.0, 1, "Paris")
    assert out["illusion"]["fits"] is True


def test_the_gold_alone_is_first_of_one():
    out = process_rank_spans(row("rank_spans", choices_spans=["Paris"], gold_spans=0), scored(-7.0))
    assert (out["gold_best"], out["illusion"]["spans"]) == (1.0, 1)


@given(st.lists(st.floats(), min_size=5, max_size=5))
def test_any_scores_give_a_record_that_json_keeps(scores):
    out = process_rank_spans(row("rank_spans"), scored(*scores))
    record = out["illusion"]
    assert json.loads(json.dumps(out, allow_nan=False)) == out
    assert record["valid"] == all(map(math.isfinite, scores))
    if record["valid"]:
        assert record["gold_rank"] == 1 + sum(score > scores[1] for score in scores)
        assert record["best_logprob"] == max(scores)
