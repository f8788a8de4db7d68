"""Open answers under the probes: what counts, and what its control says, by hand and as properties."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_illusion.pairs.records.controls import control_targets, hits, share
from lm_eval_illusion.pairs.results import (
    process_closed_gen,
    process_generation,
    process_oneshot,
    process_revise_gen,
    process_shown,
    process_shown_nogold,
)

from .probed import BASE, row, said

OPEN = {
    "shown": process_shown,
    "shown_nogold": process_shown_nogold,
    "oneshot": process_oneshot,
    "closed_gen": process_closed_gen,
    "revise1_gen": process_revise_gen,
    "revise2_gen": process_revise_gen,
}
WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]
four_words = st.lists(st.sampled_from(WORDS), min_size=4, max_size=4, unique=True)


@pytest.mark.parametrize("condition", ["shown", "shown_nogold", "closed_gen", "revise1_gen", "revise2_gen"])
@pytest.mark.parametrize(
    ("text", "right", "found"),
    [
        ("Paris", True, [False, False, False]),
        ("Oslo", False, [False, False, True]),
        ("it was New York", False, [False, True, False]),
        ("Rome or Oslo", False, [True, False, True]),
        ("Madrid", False, [False, False, False]),
        ("", False, [False, False, False]),
    ],
)
def test_the_control_is_the_share_of_distractors_the_same_answer_hits(condition, text, right, found):
    out = OPEN[condition](row(condition), said(text))
    record = out["illusion"]
    assert (record["control_targets"], record["control_in_prompt"]) == (["Rome", "New York", "Oslo"], True)
    assert record["control_hits"] == found
    assert record["control"] == pytest.approx(sum(found) / 3)
    assert record["right"]["standard"] is right
    assert out["correct"] == float(right)
    assert record["condition"] == condition


def test_one_example_counts_its_own_answers_too_each_text_once():
    out = process_oneshot(row("oneshot"), said("Bonn"))
    record = out["illusion"]
    assert record["control_targets"] == ["Rome", "New York", "Oslo", "Bonn"]  # Rome is a distractor already
    assert (record["control_hits"], record["control"]) == ([False, False, False, True], 0.25)
    assert out["correct"] == 0.0


def test_of_the_distractors_those_count_that_the_model_reads():
    prompt = "Passage: Paris is not Oslo.\nQuestion: Where?\nAnswer:"
    record = process_shown(row("shown", prompt=prompt), said("Oslo"))["illusion"]
    assert (record["control_targets"], record["control_hits"], record["control"]) == (["Oslo"], [True], 1.0)
    assert record["item_control"] == pytest.approx(1 / 3)  # Oslo of Rome, New York and Oslo
    record = process_oneshot(row("oneshot", prompt=prompt), said("Oslo"))["illusion"]
    assert (record["control_targets"], record["control"]) == (["Oslo", "Bonn", "Rome"], pytest.approx(1 / 3))
    assert record["item_control"] == pytest.approx(1 / 4)  # of Rome, New York, Oslo and the demonstration's Bonn
    assert record["control_in_prompt"] is True


def test_where_it_reads_none_all_count_and_the_record_says_so():
    record = process_closed_gen(row("closed_gen", prompt="Question: Where?\nAnswer:"), said("Oslo"))["illusion"]
    assert (record["control_targets"], record["control_in_prompt"]) == (["Rome", "New York", "Oslo"], False)
    assert record["control"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("text", "language", "prompt", "there"), [
    ("파리", "ko", "그는 파리에서 살았다.", True),  # a particle is no border
    ("1,000 km", "en", "It is 1000 KM long.", True),
    ("२०", "hi", "20 लोग", True),
    ("??", "en", "What??", False),  # nothing is left to be copied
])  # fmt: skip
def test_a_distractor_is_read_however_it_is_written(text, language, prompt, there):
    doc = row("shown", language=language, prompt=prompt, choices_near=["x1", "gold", text, "x2"])
    found = control_targets(doc)
    assert found.in_prompt is there
    assert found.texts == ([text] if there else ["x1", text, "x2"])


def test_an_answer_that_names_the_gold_and_every_distractor_recovers_nothing():
    record = process_shown(row("shown"), said("Rome, Paris, New York, Oslo"))["illusion"]
    assert record["right"]["standard"] is True
    assert record["control"] == 1.0


def test_a_probe_judges_as_the_pair_does():
    for text in ("Paris", "the City of Paris\nQuestion:", "no no no no no no no", "<think>Paris", ""):
        plain, probe = process_generation(BASE, said(text)), process_shown(row("shown"), said(text))
        assert {**plain["illusion"], "condition": "shown"}.items() <= probe["illusion"].items()
        assert {k: v for k, v in plain.items() if k != "illusion"} == {
            k: v for k, v in probe.items() if k != "illusion"
        }


def test_a_model_that_only_repeats():
    record = process_shown(row("shown"), said("so so so so so so so so", finish="length"))["illusion"]
    assert record["valid"]
    assert (record["flags"]["repeated"], record["flags"]["cut"], record["flags"]["empty"]) == (True, True, False)
    assert not any(record["right"].values())


@pytest.mark.parametrize("condition", ["revise1_gen", "revise2_gen"])
def test_the_earlier_answer_is_kept(condition):
    assert process_revise_gen(row(condition), said("Paris"))["illusion"]["earlier"] == "Oslo"


@pytest.mark.parametrize("condition", OPEN)
@pytest.mark.parametrize(("told", "reason"), [({"fits": False}, "does_not_fit"), ({"non_finite": True}, "non_finite")])
def test_an_invalid_item_hits_nothing_and_gives_no_number(condition, told, reason):
    out = OPEN[condition](row(condition), said("Paris Oslo", **told))
    assert set(out) == {"illusion"}
    record = out["illusion"]
    assert record["invalid_reason"] == reason
    assert not any([*record["right"].values(), *record["control_hits"]])


@pytest.mark.parametrize("condition", OPEN)
def test_another_backend_s_plain_text_is_judged_too(condition):
    record = OPEN[condition](row(condition), ["Paris"])["illusion"]
    assert (record["valid"], record["fits"], record["flags"]["cut"]) == (True, None, None)
    assert record["right"]["standard"]


@pytest.mark.parametrize("condition", OPEN)
@given(text=st.text(max_size=60))
def test_any_text_gives_a_record_that_json_keeps(condition, text):
    out = OPEN[condition](row(condition), said(text))
    assert json.loads(json.dumps(out, allow_nan=False)) == out
    record = out["illusion"]
    assert record["control"] == pytest.approx(sum(record["control_hits"]) / len(record["control_targets"]))


@given(four_words, st.integers(0, 3))
def test_over_all_its_guesses_a_guesser_hits_the_gold_as_often_as_its_control(words, gold):
    told = {"choices_near": words, "gold_near": gold, "answers": [words[gold]], "prompt": " ".join(words)}
    doc = row("shown", gold_text=words[gold], **told)
    records = [process_shown(doc, said(word))["illusion"] for word in words]
    assert sum(r["right"]["standard"] for r in records) / 4 == 0.25
    assert sum(r["control"] for r in records) / 4 == pytest.approx(0.25)


@given(four_words, st.integers(0, 3), st.lists(st.sampled_from(WORDS), max_size=3), st.sets(st.integers(0, 3)))
def test_targets_are_distinct_and_never_the_gold_option(words, gold, shown, read):
    shown = [word for word in shown if word != words[gold]]
    prompt = "|".join(words[i] for i in read)
    targets = control_targets(
        row("oneshot", choices_near=words, gold_near=gold, demonstration_answers=shown, prompt=prompt)
    )
    near = [word for i, word in enumerate(words) if i != gold and i in read]
    assert targets.in_prompt == bool(near)
    near = near or [word for word in words if word != words[gold]]
    assert len(set(targets.texts)) == len(targets.texts)
    assert set(targets.texts) == {*near, *shown}
    assert targets.texts[: len(near)] == near


@given(four_words, st.sampled_from(WORDS))
def test_a_target_is_matched_alone(words, answer):
    assert hits(answer, words, "en") == [word == answer for word in words]


def test_a_share_of_nothing_is_undefined():
    assert share([]) is None
    assert share([True, False]) == 0.5
