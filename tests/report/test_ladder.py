"""The ladder from open answers to likelihoods, options by distance, and all further conditions, by hand."""

import pytest
from probe_records import ask, picks, writes
from synthetic import pattern

from lm_eval_illusion.report.ladder import RUNGS, further_accuracies, graded_points, ladder


def questions(bits, **probes):
    found = pattern(bits)
    for name, records in probes.items():
        for question, record in zip(found, records, strict=True):
            if record is not None:
                question.probes[name] = record
    return found


def test_a_model_that_answers_only_when_candidates_are_shown():
    asked = ask(
        questions(
            "rrrn",
            shown=[writes(True)] * 3 + [writes(False)],
            shown_nogold=[writes(False)] * 4,
            mc_letters=[picks(True, "ABCD")] * 2 + [picks(False, "ABCD")] * 2,
        )
    )
    steps = ladder(asked)
    assert {step.name: step.share.value for step in steps} == {
        "gen": 0.0,
        "shown_nogold": 0.0,
        "shown": 0.75,
        "mc_letters": 0.5,
        "mc": 0.75,
        "mc_far": 0.75,
    }
    assert [step.name for step in steps] == list(RUNGS)
    assert {step.share.items for step in steps} == {4}


def test_only_items_with_every_rung_count():
    invalid = {**writes(False), "valid": False, "invalid_reason": "does_not_fit"}
    asked = ask(
        questions("bbnn", shown=[writes(True), writes(True), writes(True), None], shown_nogold=[writes(True)] * 4)
    )
    assert {step.name: (step.share.value, step.share.items) for step in ladder(asked)} == {
        "gen": (pytest.approx(2 / 3), 3),
        "shown": (1.0, 3),
        "shown_nogold": (1.0, 3),
        "mc": (pytest.approx(2 / 3), 3),
        "mc_far": (pytest.approx(2 / 3), 3),
    }
    asked = ask(questions("bn", shown=[writes(True), invalid]))
    assert [(step.share.value, step.share.items) for step in ladder(asked)] == [(1.0, 1)] * 4


def test_languages_without_display_have_no_ladder():
    found = questions("bn", shown=[writes(True), writes(True)])
    found[1].language = "sw"
    found[1].probes = {"oneshot": writes(True)}
    assert {step.share.items for step in ladder(ask(found))} == {1}
    assert ladder(ask(pattern("bb"))) == []


def test_further_accuracies():
    seven = ("Paris", "Rome", "Oslo", "Bonn", "Lima", "Cairo", "Quito")
    far = {"chars": True, "sum": True}
    asked = ask(
        questions(
            "bb",
            closed_mc=[picks(True), picks(False)],
            closed_gen=[writes(False)] * 2,
            choices_only=[picks(False, seven, right_far=far)] * 2,
        )
    )
    shares, chances = further_accuracies(asked)
    assert {name: share.value for name, share in shares.items()} == {
        "closed_mc": 0.5,
        "closed_gen": 0.0,
        "choices_only": 0.0,
        "choices_only_far": 1.0,
    }
    assert chances == {"closed_mc": 0.25, "choices_only": 0.25, "choices_only_far": 0.25}


def graded(*scores, distances=("paragraph", "article", "language", "random"), texts=None):
    choices = texts or ["Paris", "Rome.", "Oslo.", "Bonn.", "xqzvw"][: len(scores)]
    return picks(True, choices, logprobs=list(scores), distances=["gold", *distances][: len(scores)])


def test_graded_points():
    asked = ask(
        questions(
            "bbb",
            mc_graded=[
                graded(-2.0, -1.0, -3.0, -4.0, -9.0),
                graded(-2.0, -2.0, -1.0, -4.0, -9.0),  # a tie in the paragraph is no preference
                graded(-2.0, -3.0, -9.0, distances=("paragraph", "random")),
            ],
        )
    )
    assert [(p.distance, p.items, p.preferred.value) for p in graded_points(asked)] == [
        ("paragraph", 3, pytest.approx(1 / 3)),
        ("article", 2, 0.5),
        ("language", 2, 1.0),
        ("random", 3, 1.0),
    ]


def test_graded_scores_are_per_character():
    long = graded(-5.0, -4.0, texts=["ten chars!", "four"], distances=("random",))
    (point,) = graded_points(ask(questions("b", mc_graded=[long])))
    assert point.preferred.value == 1.0  # -0.5 against -1.0 a character


def test_nothing_graded():
    assert graded_points(ask(pattern("bb"))) == []
