"""Self-correction by hand: mended, spoilt, kept, in both formats and both rounds."""

from probe_records import ask, picks, writes
from synthetic import pattern

from lm_eval_illusion.report.revisions import revision_figures


def test_both_formats_and_rounds():
    questions = pattern("bnnb")
    first = [(True, "Paris"), (True, "Rome"), (False, " rome "), (False, "Paris")]
    second = [(True, "Paris"), (True, "Paris"), (True, "Rome"), (True, "Rome")]
    for question, one, two in zip(questions, first, second, strict=True):
        question.probes = {
            "revise1_gen": writes(one[0], earlier=one[1]),
            "revise2_gen": writes(two[0], earlier=two[1]),
            "revise1_mc": picks(one[0], earlier=one[1]),
        }
    figures = revision_figures(ask(questions))
    assert [(f.round, f.format, f.items) for f in figures] == [(1, "gen", 4), (1, "mc", 4), (2, "gen", 4)]
    one, choice, two = figures
    # open: right wrong wrong right -> right right wrong wrong; the third gives "Rome" again
    assert (one.right_before, one.mended, one.spoilt, one.kept, one.p) == (2, 1, 1, 2, 1.0)
    assert (choice.right_before, choice.mended, choice.spoilt, choice.kept) == (2, 1, 1, 2)
    # round 1: right right wrong wrong -> all right
    assert (two.right_before, two.mended, two.spoilt, two.kept, two.p) == (2, 2, 0, 2, 0.5)


def test_no_test_over_chosen_failures():
    questions = pattern("bn")
    questions[1].probes = {"revise1_gen": writes(True, earlier="Rome")}
    (found,) = revision_figures(ask(questions))
    assert (found.items, found.right_before, found.mended, found.spoilt, found.p) == (1, 0, 1, 0, None)


def test_an_invalid_round_is_left_out():
    questions = pattern("nn")
    questions[0].probes = {"revise1_mc": picks(True, earlier="Rome")}
    questions[1].probes = {"revise1_mc": {"valid": False, "invalid_reason": "does_not_fit", "earlier": "Rome"}}
    (found,) = revision_figures(ask(questions))
    assert (found.items, found.mended) == (1, 1)
    assert revision_figures(ask(pattern("b"))) == []
