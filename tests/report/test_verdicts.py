"""The verdict on an item, as a full table, and what counts as recovered."""

from itertools import product

import pytest
from probe_records import ask, beams, halves, picks, ranked, samples, writes
from synthetic import Question, pattern

from lm_eval_illusion.report.probe_measures import VERDICTS
from lm_eval_illusion.report.verdicts import (
    count_moves,
    count_verdicts,
    form_failures,
    item_verdict,
    recoveries,
    verdict,
)

# open answer right, recovering probes (none run, run in vain, one of two recovered), multiple choice right -> verdict
TABLE = {
    (True, (), False): "produced",
    (True, (), True): "produced",
    (True, (False, False), False): "produced",
    (True, (False, False), True): "produced",
    (True, (False, True), False): "produced",
    (True, (False, True), True): "produced",
    (False, (), False): "unprobed",
    (False, (), True): "unprobed",
    (False, (False, False), False): "lost",
    (False, (False, False), True): "recognised_only",
    (False, (False, True), False): "demoted",
    (False, (False, True), True): "demoted",
}


def test_the_table_is_full():
    assert set(TABLE) == set(product((True, False), ((), (False, False), (False, True)), (True, False)))
    assert set(TABLE.values()) == set(VERDICTS)


@pytest.mark.parametrize(("state", "expected"), TABLE.items())
def test_verdict(state, expected):
    assert verdict(*state) == expected


RECOVERING = {
    "beam4": beams(False, True),
    "beam8": beams(False, True),
    "sample": samples(False, False, False, False, True),
    "oneshot": writes(True),
    "shown": writes(True),
    "shown_nogold": writes(True),
    "revise1_gen": writes(True, earlier="Rome"),
    "revise2_gen": writes(True, earlier="Rome"),
}
OTHER = {
    "mc_letters": picks(True, "ABCD"),
    "closed_gen": writes(True),
    "closed_mc": picks(True),
    "revise1_mc": picks(True, earlier="Rome"),
    "rank": ranked(1, 1),
}


@pytest.mark.parametrize("name", RECOVERING)
def test_every_recovering_probe_demotes(name):
    question = Question(0, near=True, far=False, gen=False, probes={name: RECOVERING[name]})
    assert item_verdict(halves(question)) == "demoted"
    assert recoveries(halves(question).probes) == {name: True}


@pytest.mark.parametrize("name", OTHER)
def test_no_other_condition_recovers_or_counts_as_a_probe_of_recovery(name):
    question = Question(0, near=False, far=True, gen=False, probes={name: OTHER[name]})
    assert item_verdict(halves(question)) == "unprobed"
    question.probes["oneshot"] = writes(False)
    assert item_verdict(halves(question)) == "recognised_only"


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        ((False, False, False), "demoted"),
        ((True, False, False), "demoted"),  # a third of the targets
        ((True, False), "lost"),  # half: as likely chance
        ((True, True, False), "lost"),
    ],
)
def test_a_hit_at_a_high_control_recovers_nothing(hits, expected):
    question = Question(0, near=False, far=False, gen=False, probes={"shown": writes(True, *hits)})
    assert item_verdict(halves(question)) == expected


def test_the_verdict_goes_by_all_of_the_item_s_own_options():
    """One wrong option stands in the prompt and is hit: the control of the share is 1, that of the item 1/3."""
    told = writes(True, True, item_control=1 / 3)
    assert item_verdict(halves(Question(0, near=False, far=False, gen=False, probes={"shown": told}))) == "demoted"
    told = {**beams(False, True, control=1.0), "item_control": 0.5}
    assert item_verdict(halves(Question(0, near=False, far=False, gen=False, probes={"beam4": told}))) == "lost"


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [
        (True, True, "recognised_only"),
        (True, False, "recognised_only"),
        (False, True, "recognised_only"),
        (False, False, "lost"),
    ],
)
def test_recognised_against_near_or_far(near, far, expected):
    question = Question(0, near=near, far=far, gen=False, probes={"beam4": beams(False, False)})
    assert item_verdict(halves(question)) == expected


def test_invalid_probe_counts_as_not_run():
    broken = {"valid": False, "invalid_reason": "non_finite", "right": {}, "outputs": []}
    question = Question(0, gen=False, probes={"beam4": broken})
    assert item_verdict(halves(question)) == "unprobed"
    question.valid = False
    assert item_verdict(halves(question)) is None


def test_form_failures_are_named():
    flags = {"empty": False, "repeated": True, "cut": None, "unclosed_thought": True, "non_finite": True}
    assert form_failures(halves(Question(0, gen=False, flags=flags)).generation) == ["repeated", "unclosed_thought"]


def probed(bits, *probes):
    questions = pattern(bits)
    for question, found in zip(questions, probes, strict=True):
        question.probes = found
        question.flags = {"repeated": not question.gen}
    return questions


def test_counts():
    good, bad = writes(True), writes(False)
    both = {"shown": good, "oneshot": good}
    counts = count_verdicts(
        ask(
            probed(
                "brrrnnn",
                {"shown": good},
                both,
                {"shown": good, "oneshot": bad},
                {"shown": bad},
                {"oneshot": bad},
                {},
                {"shown": writes(True, True)},
            )
        )
    )
    assert counts.items == 7
    assert counts.counts == {"produced": 1, "demoted": 2, "recognised_only": 1, "lost": 2, "unprobed": 1}
    assert counts.demoted_by == {"shown": 2, "oneshot": 1}
    assert counts.demoted_by_shown_alone == 1
    assert {name: found["repeated"] for name, found in counts.failures.items()} == {
        "produced": 0,
        "demoted": 2,
        "recognised_only": 1,
        "lost": 2,
        "unprobed": 1,
    }
    assert counts.failures["lost"]["empty"] == 0


def test_no_verdicts_without_a_recovering_probe():
    assert count_verdicts(ask(probed("bn", {}, {"rank": ranked(2)}))) is None


def test_moves():
    dense = ask(probed("bbr", {}, {}, {"shown": writes(True)}))
    pruned = ask(probed("brn", {}, {"shown": writes(True)}, {"shown": writes(False)}))
    table = count_moves(dense, pruned)
    assert (table["produced"]["produced"], table["produced"]["demoted"], table["demoted"]["lost"]) == (1, 1, 1)
    assert sum(sum(row.values()) for row in table.values()) == 3
    assert [list(row) for row in table.values()] == [list(VERDICTS)] * 5
    assert count_moves(ask(probed("bbr", {}, {}, {})), pruned) is None
