"""Which way single items went, by hand."""

import pytest
from probe_records import ask, picks, writes
from synthetic import pattern

from lm_eval_illusion.report.discordance import discordances


def asked(bits, *probes):
    questions = pattern(bits)
    for question, found in zip(questions, probes, strict=True):
        question.probes = found
    return ask(questions)


def counts(found):
    return {name: (one.items, one.lost, one.won) for name, one in found.items()}


def test_rungs_over_the_items_of_both_ladders():
    good, bad = {"shown": writes(True)}, {"shown": writes(False)}
    dense, pruned = asked("bbbb", good, good, good, bad), asked("brnn", good, bad, {}, good)
    found = counts(discordances(dense, pruned)["ladder"])
    # the third has no rung `shown` in the pruned model, so it stands on no rung of it
    assert found == {"gen": (3, 2, 0), "shown": (3, 1, 1), "mc": (3, 1, 0), "mc_far": (3, 1, 0)}


def test_p_is_exact_mcnemar():
    good, bad = {"closed_gen": writes(True)}, {"closed_gen": writes(False)}
    dense, pruned = asked("b" * 8, *[good] * 7, bad), asked("b" * 8, good, *[bad] * 6, good)
    (found,) = discordances(dense, pruned)["accuracies"].values()
    assert (found.items, found.lost, found.won) == (8, 6, 1)
    assert found.p == pytest.approx(2 * (1 + 7) / 2**7)  # one or none of seven, either way


def test_distances_and_conditions_with_two_sets_of_options():
    def told(right, far):
        seven = ("Paris", "Rome", "Oslo", "Bonn", "Lima", "Cairo", "Quito")
        return {
            "mc_graded": picks(right, ["Paris", "Rome"], distances=["gold", "paragraph"]),
            "choices_only": picks(right, seven, right_far={"chars": far}),
        }

    dense, pruned = asked("bb", told(True, True), told(False, False)), asked("bb", told(True, False), told(True, True))
    found = discordances(dense, pruned)
    assert counts(found["graded"]) == {"paragraph": (2, 0, 1)}
    assert counts(found["accuracies"]) == {"choices_only": (2, 0, 1), "choices_only_far": (2, 1, 1)}
    assert found["ladder"] == {}


def test_what_one_model_lacks_is_left_out():
    dense, pruned = asked("b", {"closed_gen": writes(True)}), asked("b", {})
    assert discordances(dense, pruned) == {"ladder": {}, "graded": {}, "accuracies": {}}
