"""Choice records of the probes, by hand: letters, distances, seven options, the earlier answer."""

import json
import math

import pytest

from lm_eval_illusion.pairs import results
from lm_eval_illusion.pairs.results import (
    process_choices_only,
    process_closed_mc,
    process_graded,
    process_letters,
    process_question_only,
    process_revise_mc,
)

from .probed import NEAR, row, scored

CHOICES = {
    "mc_letters": (process_letters, 4),
    "mc_graded": (process_graded, 4),
    "closed_mc": (process_closed_mc, 4),
    "choices_only": (process_choices_only, 7),
    "question_only": (process_question_only, 7),
    "revise1_mc": (process_revise_mc, 4),
    "revise2_mc": (process_revise_mc, 4),
}


def test_letters():
    out = process_letters(row("mc_letters"), scored(-2.0, -1.0, -3.0, -4.0))
    record = out["illusion"]
    assert (record["choices"], record["options"]) == (["A", "B", "C", "D"], NEAR)
    assert (record["gold"], record["picked"], record["condition"]) == (1, 1, "mc_letters")
    assert record["sources"] == ["passage:name", "gold", "passage:name", "paragraph:2"]
    assert (out["acc"], out["acc_norm"]) == (1.0, 1.0)


def test_the_letter_is_judged_and_not_the_text_behind_it():
    doc = row("mc_letters", letters=["A", "B", "C", "D"], gold_letter=3, gold_near=3)
    record = process_letters(doc, scored(-1.0, -1.5, -3.0, -1.2))["illusion"]
    assert (record["picked"], record["right"]["chars"]) == (0, False)  # "New York" by characters, were it the text


def test_graded_distances_stand_beside_the_options():
    # per character: Oslo -1, Paris -0.8, Lima -1.25, qzxv -2
    record = process_graded(row("mc_graded"), scored(-4.0, -4.0, -5.0, -8.0))["illusion"]
    assert record["distances"] == ["paragraph", "gold", "language", "random"]
    assert record["logprobs"] == [-4.0, -4.0, -5.0, -8.0]
    assert record["right"] == {"chars": True, "sum": False, "bytes": True, "pmi": None}  # the sums tie


def test_a_distance_that_is_missing_is_left_out():
    doc = row(
        "mc_graded",
        choices_graded=["Paris", "qzxv"],
        gold_graded=0,
        sources_graded=["gold", "random"],
        distances_graded=["gold", "random"],
    )
    record = process_graded(doc, scored(-1.0, -8.0))["illusion"]
    assert (record["choices"], record["distances"], record["right"]["chars"]) == (["Paris", "qzxv"], ["gold", "random"],
                                                                                   True)  # fmt: skip


@pytest.mark.parametrize("condition", ["choices_only", "question_only"])
def test_near_and_far_are_judged_apart(condition):
    # per character: Rome -3, Paris -2, New York -1, Oslo -3 | Lima -2.5, Cairo -3, Bern -3
    out = CHOICES[condition][0](row(condition), scored(-12.0, -10.0, -8.0, -12.0, -10.0, -15.0, -12.0))
    record = out["illusion"]
    assert record["right"] == {"chars": False, "sum": False, "bytes": False, "pmi": None}
    # by the sum Paris and Lima tie: not right; per character Paris leads
    assert record["right_far"] == {"chars": True, "sum": False, "bytes": True, "pmi": None}
    assert (record["picked"], len(record["choices"]), record["gold"]) == (2, 7, 1)
    assert (out["acc"], out["acc_norm"]) == (0.0, 0.0)


def test_a_far_option_never_decides_among_the_near_ones():
    out = process_choices_only(row("choices_only"), scored(-9.0, -5.0, -16.0, -9.0, -1.0, -1.0, -1.0))
    assert out["acc_norm"] == 1.0
    assert out["illusion"]["picked"] == 1
    assert out["illusion"]["right_far"]["chars"] is False


def test_the_strongest_rival_is_a_near_one():
    told = {"parting": {"token": 0, "gold_rank": 2, "margin": 0.5}}
    record = process_choices_only(row("choices_only"), scored(-9.0, -5.0, -16.0, -8.0, -1.0, -1.0, -1.0, **told))
    assert record["illusion"]["parting"] == {"rival": 2, "token": 0, "gold_rank": 2, "margin": 0.5}


def test_the_earlier_answer_is_kept():
    out = process_revise_mc(row("revise2_mc"), scored(-9.0, -1.0, -9.0, -9.0))
    assert (out["illusion"]["earlier"], out["illusion"]["condition"], out["acc"]) == ("Oslo", "revise2_mc", 1.0)


def test_closed():
    record = process_closed_mc(row("closed_mc"), scored(-1.0, -9.0, -9.0, -9.0))["illusion"]
    assert (record["condition"], record["picked"], record["right"]["sum"]) == ("closed_mc", 0, False)


@pytest.mark.parametrize("condition", CHOICES)
def test_only_a_pair_s_own_halves_count_the_gain(condition):
    process, n = CHOICES[condition]
    assert set(process(row(condition), scored(*[-1.0 - i for i in range(n)]))) == {"acc", "acc_norm", "illusion"}


@pytest.mark.parametrize("condition", CHOICES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_make_an_item_invalid(condition, bad):
    process, n = CHOICES[condition]
    out = process(row(condition), scored(*[-1.0] * (n - 1), bad))
    assert set(out) == {"illusion"}
    record = out["illusion"]
    assert (record["invalid_reason"], record["picked"], record["logprobs"][-1]) == ("non_finite", None, None)
    assert not any(record["right"].values())
    assert not any(record.get("right_far", {}).values())
    assert json.loads(json.dumps(record, allow_nan=False)) == record


@pytest.mark.parametrize("condition", CHOICES)
def test_an_item_that_does_not_fit_is_invalid(condition):
    process, n = CHOICES[condition]
    out = process(row(condition), scored(*[-1.0 - i for i in range(n)], fits=False))
    assert set(out) == {"illusion"}
    assert out["illusion"]["invalid_reason"] == "does_not_fit"
    assert results.count_valid([out["illusion"]]) == 0
