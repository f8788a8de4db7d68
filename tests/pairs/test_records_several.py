"""Beams and samples: any, first, pass@k and its control, by hand and against enumeration."""

import itertools
import json
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.results import count_valid, pass_at_k, process_beam, process_sample

from .probed import NEAR, row, said, several

SPANS = [*NEAR, "Lisbon", "Vienna"]


def test_wrong_four_times_and_right_the_fifth():
    out = process_sample(row("sample"), several("Rome", "Oslo", "Rome", "Bonn", "Paris"))
    record = out["illusion"]
    assert (record["hits"], record["draws"]) == (1, 5)
    assert record["pass_at"] == pytest.approx({"1": 0.2, "2": 0.4, "4": 0.8})  # k in 5 draws hold the one right: k/5
    assert (record["right"]["standard"], record["right_first"]["standard"]) == (True, False)
    # Rome 2 of 5, New York 0, Oslo 1. @1: (.4 + 0 + .2)/3; @2: (1 - 3/10 + 0 + .4)/3; @4: (1 + 0 + .8)/3
    assert record["control_pass_at"] == pytest.approx({"1": 0.2, "2": 1.1 / 3, "4": 0.6})
    assert record["control"] == pytest.approx(2 / 3)
    assert record["control_first"] == pytest.approx(1 / 3)
    assert (out["pass_at_1"], out["pass_at_4"]) == pytest.approx((0.2, 0.8))
    assert set(out) == {"pass_at_1", "pass_at_4", "illusion"}


def test_eight_draws_tell_pass_at_8():
    out = process_sample(row("sample"), several(*["Paris"] * 2, *["x"] * 6))
    # 1 - C(6,4)/C(8,4) = 1 - 15/70
    assert out["illusion"]["pass_at"] == pytest.approx({"1": 0.25, "2": 1 - 15 / 28, "4": 1 - 15 / 70, "8": 1.0})
    assert set(out) == {"pass_at_1", "pass_at_8", "illusion"}
    assert out["illusion"]["right_first"]["standard"] is True


def test_one_draw():
    out = process_sample(row("sample"), several("Paris"))
    assert out["illusion"]["pass_at"] == {"1": 1.0}
    assert set(out) == {"pass_at_1", "illusion"}


def test_gold_second_in_the_beam():
    out = process_beam(row("beam4"), several("Oslo", "the city of Paris", "Rome", ""))
    record = out["illusion"]
    assert (out["correct"], out["correct_first"]) == (1.0, 0.0)
    assert record["right"] == {"standard": True, "exact": True, "f1": True, "contained": True, "anywhere": True}
    assert not any(record["right_first"].values())
    assert [o["answer"] for o in record["outputs"]] == ["Oslo", "the city of Paris", "Rome", ""]
    assert [o["logprob"] for o in record["outputs"]] == [-1.0, -2.0, -3.0, -4.0]
    assert [o["flags"]["empty"] for o in record["outputs"]] == [False, False, False, True]
    assert record["control"] == pytest.approx(2 / 3)  # Oslo and Rome among the hypotheses, New York not
    assert record["control_first"] == pytest.approx(1 / 3)
    assert not {"hits", "draws", "pass_at"} & set(record)


def test_a_matcher_counts_over_all_outputs():
    record = process_beam(row("beam4"), several("it was Paris, they say", "Paris"))["illusion"]
    assert record["outputs"][0]["right"] == {
        "standard": True,
        "exact": False,
        "f1": False,
        "contained": True,
        "anywhere": True,
    }
    assert record["right"]["exact"] is True
    assert record["right_first"]["exact"] is False


def test_a_model_that_only_repeats():
    record = process_sample(row("sample"), several(*["no no no no no no no"] * 8, finish="length"))["illusion"]
    assert record["valid"]
    assert all(o["flags"]["repeated"] and o["flags"]["cut"] for o in record["outputs"])
    assert set(record["pass_at"].values()) == set(record["control_pass_at"].values()) == {0.0}


def test_naming_every_candidate_is_no_recovery_at_the_item_s_own_control():
    record = process_beam(row("beam4"), several(*NEAR))["illusion"]
    assert record["right"]["standard"] is True
    assert record["control"] == 1.0


def test_a_copier_of_the_passage_is_held_against_what_stands_in_it():
    prompt = "Passage: Paris or Oslo.\nQuestion: Where?\nAnswer:"
    record = process_sample(row("sample", prompt=prompt), several("Oslo", "Paris", "Oslo", "Paris"))["illusion"]
    assert (record["control_targets"], record["control_in_prompt"], record["control"]) == (["Oslo"], True, 1.0)
    assert record["control_pass_at"] == record["pass_at"]
    assert record["item_control"] == pytest.approx(1 / 3)  # Oslo of Rome, New York and Oslo
    assert (record["temperature"], record["top_p"], record["seed"]) == (0.8, 0.95, 0)


@pytest.mark.parametrize("process", [process_beam, process_sample])
@pytest.mark.parametrize("lost", [{"fits": False}, {"non_finite": True}])
def test_what_could_not_be_answered_is_invalid_and_counted(process, lost):
    out = process(row("sample"), said("", **lost))
    assert set(out) == {"illusion"}
    assert (out["illusion"]["valid"], out["illusion"]["outputs"]) == (False, [])
    assert out["illusion"].get("draws") is out["illusion"].get("hits") is None
    assert count_valid([out["illusion"]]) == 0
    assert json.loads(json.dumps(out, allow_nan=False)) == out
    record = process(row("sample"), several("Paris", "Oslo", **lost))["illusion"]
    assert not any([*record["right"].values(), *record["right_first"].values(), record["control"]])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_log_probability_that_is_not_finite_makes_the_item_invalid(bad):
    out = process_sample(row("sample"), several("Paris", "Oslo", logprobs=[-1.0, bad]))
    assert set(out) == {"illusion"}
    record = out["illusion"]
    assert (record["invalid_reason"], record["outputs"][1]["logprob"]) == ("non_finite", None)
    assert (record["hits"], record["pass_at"]) == (0, {"1": 0.0, "2": 0.0})
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize(("process", "condition", "what"), [
    (process_beam, "beam4", "hypotheses"), (process_beam, "beam8", "hypotheses"), (process_sample, "sample", "samples"),
])  # fmt: skip
@pytest.mark.parametrize("answer", ["Paris", ""])
def test_a_backend_that_does_not_tell_is_an_error(process, condition, what, answer):
    found = (
        rf"task d_{condition}_en: the answer to item d/en/1 came back without its {what}, but condition {condition} .*"
        rf"lm_eval --model pruned_hf --tasks d_{condition}_en"
    )
    for responses in ([answer], said(answer), several()):
        with pytest.raises(IllusionError, match=found):
            process(row(condition), responses)


@given(
    st.integers(1, 8).flatmap(lambda n: st.tuples(st.lists(st.booleans(), min_size=n, max_size=n), st.integers(1, n)))
)
def test_pass_at_k_is_the_plain_average_over_all_subsets(case):
    draws, k = case
    subsets = list(itertools.combinations(draws, k))
    plain = sum(any(subset) for subset in subsets) / len(subsets)
    assert pass_at_k(len(draws), sum(draws), k) == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("case", [(0, 0, 1), (4, 5, 1), (4, -1, 1), (4, 1, 5), (4, 1, 0)])
def test_pass_at_k_of_impossible_numbers(case):
    with pytest.raises(ValueError, match="0 <= right <= draws, 1 <= k <= draws needed"):
        pass_at_k(*case)


@given(st.lists(st.sampled_from([*SPANS, "", "so so so so so so"]), min_size=1, max_size=8), st.randoms())
def test_the_order_of_draws_decides_nothing_but_the_first(texts, random):
    shuffled = list(texts)
    random.shuffle(shuffled)
    one, other = (process_sample(row("sample"), several(*t))["illusion"] for t in (texts, shuffled))
    for name in ("hits", "draws", "pass_at", "control_pass_at", "right", "control"):
        assert one[name] == other[name]
    assert one["pass_at"]["1"] == pytest.approx(one["hits"] / one["draws"])
    values = list(one["pass_at"].values())
    assert values == sorted(values)


@given(st.lists(st.integers(0, 5), min_size=8, max_size=8))
def test_over_all_its_turns_a_copier_of_six_spans_hits_the_gold_as_often_as_its_control(draws):
    turned = [[SPANS[(draw + turn) % 6] for draw in draws] for turn in range(6)]
    records = [process_sample(row("sample"), several(*texts))["illusion"] for texts in turned]
    for k in ("1", "2", "4", "8"):
        hit = sum(r["pass_at"][k] for r in records)
        assert sum(r["control_pass_at"][k] for r in records) == pytest.approx(hit)
    assert sum(r["control"] for r in records) == pytest.approx(sum(r["right"]["standard"] for r in records))


@given(st.lists(st.tuples(st.text(max_size=20), st.floats()), min_size=1, max_size=4))
def test_any_output_gives_a_record_that_json_keeps(found):
    texts, logprobs = zip(*found, strict=True)
    for process in (process_beam, process_sample):
        out = process(row("sample"), several(*texts, logprobs=logprobs))
        assert json.loads(json.dumps(out, allow_nan=False)) == out
        assert out["illusion"]["valid"] == all(map(math.isfinite, logprobs))


def test_the_record_is_the_same_after_a_cache_and_the_harness_s_saving():
    from lm_eval.utils import handle_non_serializable, sanitize_list

    responses = several("Oslo", "Paris", logprobs=[-1.5, -2.5])
    again = pickle.loads(pickle.dumps(responses))
    record = process_beam(row("beam4"), responses)["illusion"]
    assert process_beam(row("beam4"), again)["illusion"] == record
    line = json.dumps({"resps": sanitize_list([responses]), "illusion": record}, default=handle_non_serializable)
    assert json.loads(line) == {"resps": [["Oslo"]], "illusion": record}
