"""process_results: numbers by hand, attributes passed on, nothing raised on bad input."""

import json
import math

import pytest

from lm_eval_illusion.pairs.results import best, count_valid, process_far, process_generation, process_near

DOC = {
    "item_id": "d/en/1",
    "dataset": "d",
    "language": "en",
    "cluster": "d/c",
    "passage_sha256": "ab",
    "answers": ["Paris", "City of Paris"],
    "gold_text": "Paris",
    "choices_near": ["Rome", "Paris", "New York", "Oslo"],
    "gold_near": 1,
    "sources_near": ["passage:name", "gold", "passage:name", "paragraph:2"],
    "choices_far": ["Paris", "Lima", "Cairo", "Bern"],
    "gold_far": 0,
    "sources_far": ["gold", "language:3", "language:4", "language:5"],
}
RECORD_FIELDS = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
    "target_hash",
}  # fmt: skip


class Scored(tuple):
    illusion: dict


class Said(str):
    illusion: dict


def scored(value, **told):
    made = Scored((value, False))
    made.illusion = told
    return made


def said(text, **told):
    made = Said(text)
    made.illusion = told
    return made


def plain(*values):
    return [(value, False) for value in values]


def test_each_normaliser_by_hand():
    # sums -4 -4.5 -6 -8; per character -1 -0.9 -0.75 -2; the gold is "Paris"
    out = process_near(DOC, plain(-4.0, -4.5, -6.0, -8.0) + plain(-9.0, -9.8, -9.0, -9.0))
    record = out["illusion"]
    assert record["right"] == {"chars": False, "sum": False, "bytes": False, "pmi": True}
    assert record["picked"] == 2
    assert (out["acc"], out["acc_norm"], out["acc_mutual_info"]) == (0.0, 0.0, 1.0)
    assert record["logprobs"] == [-4.0, -4.5, -6.0, -8.0]
    assert record["logprobs_unconditional"] == [-9.0, -9.8, -9.0, -9.0]


def test_characters_and_bytes_differ():
    doc = {**DOC, "choices_near": ["ab", "éé", "x", "y"]}
    record = process_near(doc, plain(-1.2, -2.2, -9.0, -9.0))["illusion"]  # per char -.6 -1.1; per byte -.6 -.55
    assert record["right"]["chars"] is False
    assert record["right"]["bytes"] is True


def test_far_options():
    out = process_far(DOC, plain(-1.0, -9.0, -9.0, -9.0))
    assert out["acc"] == out["acc_norm"] == 1.0
    assert out["illusion"]["condition"] == "mc_far"
    assert out["illusion"]["right"]["pmi"] is None
    assert "acc_mutual_info" not in out


def test_a_tie_is_not_right():
    doc = {**DOC, "choices_near": ["Roma", "Pari", "York", "Oslo"]}
    out = process_near(doc, plain(-4.0, -4.0, -9.0, -9.0))
    assert out["illusion"]["picked"] is None
    assert out["acc"] == out["acc_norm"] == 0.0
    assert out["illusion"]["valid"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_scores_are_invalid(bad):
    out = process_near(DOC, plain(bad, -1.0, -2.0, -3.0) + plain(-1.0, -1.0, -1.0, -1.0))
    assert set(out) == {"illusion"}
    record = out["illusion"]
    assert (record["valid"], record["invalid_reason"], record["flags"]) == (False, "non_finite", {"non_finite": True})
    assert record["logprobs"][0] is None
    assert not any(record["right"].values())
    json.dumps(record, allow_nan=False)


def test_a_non_finite_unconditional_score_costs_only_pmi():
    record = process_near(DOC, plain(-9.0, -1.0, -9.0, -9.0) + plain(math.nan, -1.0, -1.0, -1.0))["illusion"]
    assert record["valid"]
    assert record["right"]["pmi"] is None
    assert record["logprobs_unconditional"][0] is None


def test_what_the_model_tells_is_passed_on():
    told = [scored(-9.0, fits=True), scored(-1.0, fits=True, first_token_rank=3), *(scored(-9.0, fits=True),) * 2]
    record = process_near(DOC, told)["illusion"]
    assert record["fits"] is True
    assert record["first_token_rank"] == 3
    assert process_near(DOC, plain(-9.0, -1.0, -9.0, -9.0))["illusion"]["fits"] is None


def test_the_strongest_rival_s_parting_from_the_gold_is_kept():
    told = [
        scored(-9.0, parting={"token": 0, "gold_rank": 2, "margin": 0.5}),
        scored(-1.0),
        scored(-3.0, parting={"token": 1, "gold_rank": 4, "margin": -0.25}),
        scored(-9.0, parting=None),
    ]
    # Per character: Rome -2.25, New York -0.375, Oslo -2.25; by the plain sum the same one leads.
    expected = {"rival": 2, "token": 1, "gold_rank": 4, "margin": -0.25}
    assert process_near(DOC, told)["illusion"]["parting"] == expected
    told[2].illusion["parting"] = None
    assert process_near(DOC, told)["illusion"]["parting"] is None
    assert process_near(DOC, plain(-9.0, -1.0, -9.0, -9.0))["illusion"]["parting"] is None
    told[3] = scored(float("nan"), parting={"token": 0, "gold_rank": None, "margin": None})
    assert process_near(DOC, told)["illusion"]["parting"] is None


def test_an_item_that_does_not_fit_is_invalid_in_both_halves():
    out = process_near(DOC, [scored(-1.0, fits=False)] * 4)
    assert set(out) == {"illusion"}
    assert out["illusion"]["invalid_reason"] == "does_not_fit"
    out = process_generation(DOC, [said("Paris", fits=False, finish="stop", non_finite=False)])
    assert set(out) == {"illusion"}
    assert out["illusion"]["invalid_reason"] == "does_not_fit"
    assert not any(out["illusion"]["right"].values())


def test_generation():
    out = process_generation(
        DOC, [said("\nThe city of Paris\nQuestion:", fits=True, finish="length", non_finite=False)]
    )
    assert (out["exact_match"], out["f1"], out["correct"]) == (1.0, 1.0, 1.0)
    record = out["illusion"]
    assert record["answer"] == "The city of Paris"
    assert record["right"] == {"standard": True, "exact": True, "f1": True, "contained": True, "anywhere": True}
    assert record["flags"] == {
        "empty": False,
        "cut": True,
        "repeated": False,
        "unclosed_thought": False,
        "gold_inside": False,
        "non_finite": False,
    }


def test_generation_by_another_backend():
    record = process_generation(DOC, ["Rome"])["illusion"]
    assert (record["fits"], record["flags"]["cut"], record["flags"]["non_finite"]) == (None, None, None)
    assert record["valid"]
    assert not any(record["right"].values())


@pytest.mark.parametrize("text", ["", "\n\n", "<think>", "\u200b", "???", "🙂" * 40])
def test_odd_output_never_raises(text):
    out = process_generation(DOC, [text])
    assert out["correct"] == 0.0
    json.dumps(out, allow_nan=False)


@pytest.mark.parametrize("told", [{"tied_steps": 2}, {"tied_steps": 0}, {}])
def test_tied_steps_land_in_the_record_and_are_null_where_nobody_counted(told):
    record = process_generation(DOC, [said("Paris", fits=True, finish="stop", non_finite=False, **told)])["illusion"]
    assert record["tied_steps"] == told.get("tied_steps")
    assert process_generation(DOC, ["Paris"])["illusion"]["tied_steps"] is None


def test_non_finite_generation_is_invalid():
    out = process_generation(DOC, [said("Paris", fits=True, finish="stop", non_finite=True)])
    assert set(out) == {"illusion"}
    assert out["illusion"]["invalid_reason"] == "non_finite"


def test_record_keys_never_repeat_the_harness():
    for out in (process_near(DOC, plain(-1, -2, -3, -4)), process_generation(DOC, ["x"])):
        assert not RECORD_FIELDS & (set(out) | set(out["illusion"]))


def test_count_valid():
    records = [process_generation(DOC, [text])["illusion"] for text in ("a", "b")]
    records.append(process_generation(DOC, [said("x", fits=False)])["illusion"])
    assert count_valid(records) == 2


def test_best():
    assert best([-2.0, -1.0]) == 1
    assert best([-1.0, -1.0]) is None
    assert best([math.nan, -1.0]) is None
    assert best([]) is None
