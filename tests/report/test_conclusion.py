"""The paragraph sentence by sentence, and every statement as yes, no and undecided, on made-up figures."""

import pytest
from probe_figures import contrast, mean, moves, probes, ranks, recovery, report_with, verdicts
from synthetic import pattern, receipt, write_run

from lm_eval_illusion.report.build import DEFAULTS, build_report
from lm_eval_illusion.report.conclusion import conclude, conclude_all
from lm_eval_illusion.report.curve_figures import CurveLine, CurvePanel, CurvePoint, Curves, LineDefinition
from lm_eval_illusion.report.growth import beyond_guessing, change, sweep_statements
from lm_eval_illusion.report.render.markdown import render_markdown
from lm_eval_illusion.report.statements import find_recovery, judge, statements


@pytest.fixture(scope="module")
def row(tmp_path_factory):
    """The overall row of a hand-made report: 60 items, of which 20 dense answers were lost."""
    return report_with(tmp_path_factory.mktemp("row")).file.comparisons[0].rows[0]


def changed(row, **fields):
    return row.model_copy(update=fields)


def said(row, words):
    """The sentences that contain the words."""
    found = conclude(row, "dense", "wanda 0.5", DEFAULTS)
    return [sentence for sentence in found.paragraph if words in sentence]


def answer(row, key):
    return next(s for s in statements(row, DEFAULTS) if s.key == key)


@pytest.mark.parametrize(
    ("estimate", "expected", "reason"),
    [
        (mean(0.2, 0.1, 0.3), "yes", ""),
        (mean(0.2, 0.0, 0.4), "undecided", "the interval covers zero"),
        (mean(0.02, -0.03, 0.07), "undecided", "the interval covers zero"),
        (mean(0.0, -0.04, 0.04), "no", "the interval ends at +0.04, below 0.05"),
        (mean(-0.2, -0.3, -0.1), "no", "the interval ends at −0.10, below 0.05"),
        (mean(0.2, 0.1, 0.3, items=29), "undecided", "29 items, a verdict takes 30"),
        (mean(0.2, 0.1, 0.3, items=1), "undecided", "1 item, a verdict takes 30"),
        (mean(0.2, 0.1, 0.3, clusters=7), "undecided", "7 passages, a verdict takes 8"),
        (mean(0.2, None, None), "undecided", "no interval can be given"),
        (mean(None), "undecided", "not measured"),
        (None, "undecided", "not measured"),
    ],
)
def test_the_rule(estimate, expected, reason):
    assert judge(estimate, DEFAULTS) == (expected, reason)


@pytest.mark.parametrize("distance", ["near", "far"])
def test_recognition_without_an_answer(row, distance):
    yes = answer(row, f"recognition_{distance}")
    assert yes.answer == "yes"
    assert yes.numbers.startswith("32 of 42 failures recognised, +0.68 [")
    assert yes.numbers.endswith("; 12 in the dense model")
    figures = getattr(row.pruned, distance)
    for estimate, expected in ((mean(0.01, -0.03, 0.04), "no"), (mean(0.1, -0.1, 0.3), "undecided")):
        made = figures.model_copy(update={"recognised_failures_corrected": estimate})
        other = changed(row, pruned=row.pruned.model_copy(update={distance: made}))
        assert answer(other, f"recognition_{distance}").answer == expected
    without = changed(row, pruned=row.pruned.model_copy(update={distance: None}))
    assert answer(without, f"recognition_{distance}").reason == "not measured"


@pytest.mark.parametrize(
    ("figures", "expected", "reason"),
    [
        (ranks(slid=30, rose=2, within=0.9), "yes", ""),
        (ranks(slid=30, rose=2, within=0.1), "no", "it slides further: most are beyond rank 10"),
        (
            ranks(slid=30, rose=2, within=0.5),
            "undecided",
            "it slides, but whether most stay within rank 10 is not told",
        ),
        (ranks(slid=2, rose=30), "no", "it rises"),
        (ranks(slid=12, rose=8), "undecided", "slides and rises are not told apart"),
        (ranks(items=29, slid=25, rose=0), "undecided", "29 items, a verdict takes 30"),
        (ranks(slid=None, rose=None), "undecided", "no ranks in both runs"),
    ],
)
def test_the_first_token_slides(row, figures, expected, reason):
    found = answer(changed(row, probe_contrast=contrast(ranks=[figures])), "slide_near")
    assert (found.answer, found.reason) == (expected, reason)
    assert answer(changed(row, probe_contrast=None), "slide_near").answer == "undecided"


def test_numbers_of_a_slide(row):
    found = answer(row, "slide_near")
    assert found.numbers == "30 of 40 slid and 2 rose (sign test p <0.001); median rank 1.0 → 3.5, 36 within 10"
    assert answer(row, "slide_far").numbers == ""


@pytest.mark.parametrize(
    ("key", "probe"), [("beam", "beam8"), ("beam", "beam4"), ("sample", "sample pass@8"), ("oneshot", "oneshot")]
)
@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (mean(0.2, 0.1, 0.3), "yes"),
        (mean(0, -0.04, 0.04), "no"),
        (mean(0.1, -0.1, 0.2), "undecided"),
        (None, "undecided"),
    ],
)
def test_what_brings_answers_back(row, key, probe, estimate, expected):
    made = changed(row, pruned_probes=probes(recovery=[recovery(probe, estimate, 11)]))
    found = answer(made, key)
    assert found.answer == expected
    assert found.numbers.startswith(f"{probe} 11 of 40 failures, corrected ")
    others = {"beam", "sample", "oneshot"} - {key}
    assert all(answer(made, other).reason == "the probe was not run" for other in others)


def test_the_widest_beam_and_the_most_draws_judge():
    found = probes(recovery=[recovery(name, None) for name in ("beam4", "beam8", "sample pass@8", "sample pass@16")])
    assert find_recovery(found, "beam8", "beam4").probe == "beam8"
    assert find_recovery(found, "sample pass@").probe == "sample pass@16"
    assert find_recovery(found, "shown") is None
    assert find_recovery(None, "shown") is None


def test_verdicts_in_words(row):
    assert said(row, "does not answer,") == [
        "Of 42 items out of 60 that wanda 0.5 does not answer, 11 are demoted (brought back by beam8 5, sample 7, "
        "shown 4; 2 with the candidates shown alone, where a guesser may pick the gold), 9 recognised only, 20 lost "
        "and 2 unprobed."
    ]
    plain = verdicts(demoted=1).model_copy(update={"demoted_by": {"beam4": 1}, "demoted_by_shown_alone": 0})
    assert said(changed(row, pruned_probes=probes(verdicts=plain)), "does not answer,") == [
        "Of 30 items out of 48 that wanda 0.5 does not answer, 1 is demoted (brought back by beam4 1), 9 recognised "
        "only and 20 lost."
    ]
    none = verdicts(demoted=0, recognised_only=0, lost=0)
    assert said(changed(row, pruned_probes=probes(verdicts=none)), "nothing to bring back") == [
        "wanda 0.5 answers all of 18 items, so there is nothing to bring back."
    ]
    assert conclude(changed(row, pruned_probes=probes(verdicts=None)), "d", "p", DEFAULTS).paragraph[0][:7] == "Of 12 t"


def test_what_the_dense_model_answered(row):
    assert said(row, "no longer does") == [
        "Of 12 that dense answers and wanda 0.5 no longer does: 7 demoted, 3 recognised only and 2 lost."
    ]
    kept = contrast(verdicts=moves(demoted=0, recognised_only=0, lost=0))
    assert said(changed(row, probe_contrast=kept), "There is no item") == [
        "There is no item that dense answers and wanda 0.5 does not."
    ]


@pytest.mark.parametrize(
    ("beam", "sample", "words"),
    [
        (
            mean(0.2, 0.1, 0.3),
            mean(0.0, -0.1, 0.2),
            "So part of what wanda 0.5 does not say is demoted, not erased: beam8",
        ),
        (mean(0.0, -0.04, 0.04), mean(0.0, -0.04, 0.03), "Hardly any answer comes back on the same prompt: beam8"),
        (
            mean(0.0, -0.04, 0.04),
            mean(0.1, -0.1, 0.3),
            "Whether lost answers come back on the same prompt is undecided:",
        ),
    ],
)
def test_demoted_or_erased(row, beam, sample, words):
    tried = [recovery("beam8", beam), recovery("sample pass@8", sample), recovery("oneshot", mean(0.5, 0.4, 0.6))]
    (sentence,) = said(changed(row, pruned_probes=probes(recovery=tried)), words)
    assert "sample pass@8 10 of 40 failures, corrected" in sentence
    assert "oneshot" not in sentence  # an example is no evidence for the same prompt


def test_without_beams_and_samples_nothing_is_claimed(row):
    only = probes(recovery=[recovery("oneshot", mean(0.5, 0.4, 0.6))])
    assert said(changed(row, pruned_probes=only), "Neither beams nor samples were run")
    assert not said(changed(row, pruned_probes=only), "not erased")


def test_an_example_may_be_style(row):
    assert said(row, "One more example") == [
        "One more example: oneshot 14 of 40 failures, corrected +0.30 [+0.15, +0.45]. The share for one example may be "
        "style rather than knowledge, since an example also shows what an answer looks like."
    ]


def test_displayed_candidates_have_their_ablation(row):
    assert said(row, "candidates displayed") == [
        "With the candidates displayed: shown 20 of 40 failures, corrected +0.40 [+0.20, +0.60]; without the gold "
        "among them shown_nogold 1 of 40 failures, corrected +0.01 [−0.05, +0.07]. Whoever reads the gold in "
        "the prompt need not know it."
    ]


def test_the_dense_model_s_own_failures_stand_beside(row):
    (sentence,) = said(row, "Of dense's own failures, for comparison: beam8 11 of 40 failures")
    assert sentence.endswith("pruning has no part in those.")
    assert not said(changed(row, dense_probes=None), "own failures")


def test_ranks_in_words(row):
    assert said(row, "median rank") == [
        "In 40 items that turned from answered to recognised only (near options) the median rank of the gold's first "
        "token went from 1.0 to 3.5; 30 slid, 2 rose."
    ]
    other = contrast(ranks=[ranks("all"), ranks("turned_far", items=1, slid=1, rose=0), ranks(items=0)])
    (sentence,) = said(changed(row, probe_contrast=other), "median rank")
    assert sentence.startswith("In 1 item that turned from answered to recognised only (far options)")


def test_a_loss_of_form_is_named(row):
    assert said(row, "not brought back the answer") == [
        "Of the 29 not brought back the answer repeats itself in 8, is empty in 2, was cut in 1 and holds the gold "
        "among other words in 2: there the form broke, and knowledge may be left."
    ]
    whole = verdicts().model_copy(update={"failures": {}})
    assert not said(changed(row, pruned_probes=probes(verdicts=whole)), "form broke")


def test_chosen_items_are_named(row):
    some = changed(row, pruned_probes=probes(partly=["beam8", "sample"]))
    assert said(some, "chosen items") == [
        "Run on chosen items only, so that what they would spoil is unknown: beam8, sample."
    ]
    assert not said(row, "chosen items")


def test_what_is_not_decided_is_said_last(row):
    found = conclude(row, "dense", "wanda 0.5", DEFAULTS)
    assert found.paragraph[-1] == (
        "Not decided: the gold's first token slides a few ranks in items that turned recognition-only, far options (no "
        "ranks in both runs)."
    )
    decided = contrast(ranks=[ranks(), ranks("turned_far")])
    assert not said(changed(row, probe_contrast=decided), "Not decided")


def test_without_probes_there_is_no_conclusion(row):
    assert conclude(changed(row, pruned_probes=None), "dense", "p", DEFAULTS) is None
    assert conclude_all([], None, [], DEFAULTS) is None


def line(number, quadrants, choices=4):
    """An item of items.jsonl whose runs a, b ... ended in these quadrants."""
    runs = {
        name: {"quadrant_near": quadrant, "quadrant_far": quadrant} if quadrant else None
        for name, quadrant in zip("abcd", quadrants, strict=False)
    }
    options = {"choices": ["x"] * choices, "gold": 0, "sources": []}
    where = {"dataset": "tydiqa", "language": "en", "cluster": f"c{number}"}
    return {"item_id": f"i{number}", **where, "near": options, "far": options, "runs": runs}


def test_recognition_beyond_guessing():
    names = ("both", "generation_only", "recognition_only", "neither")
    values = [beyond_guessing(line(0, [name]), "a", "near") for name in names]
    assert values == [0.0, 0.0, 1.0, pytest.approx(-1 / 3)]  # (0 - 1/4)/(3/4)
    assert beyond_guessing(line(0, ["neither"], choices=2), "a", "far") == -1.0
    assert beyond_guessing(line(0, [None]), "a", "near") is None
    assert beyond_guessing(line(0, ["both"]), "b", "near") is None
    assert beyond_guessing({**line(0, ["both"]), "near": None}, "a", "near") is None


def test_change_is_taken_item_by_item_over_what_all_runs_answered():
    items = [line(n, ["both", "recognition_only", "neither"]) for n in range(3)] + [line(9, ["both", None, "both"])]
    assert change(items, ["a"], ["b"], "near").value == 1.0
    assert change(items, ["a"], ["b"], "near").items == 3
    assert change(items, ["a"], ["b", "c"], "near").value == pytest.approx(1 / 3)  # seeds: (1 - 1/3)/2
    assert change([], ["a"], ["b"], "near").value is None


def curves(*lines):
    """Curves from (method, {sparsity: run})."""
    made = [
        CurveLine(
            line=number,
            points=[
                CurvePoint(
                    run=run, sparsity=sparsity, pattern=None, seed=None, joined=40, near=None, far=None, generation=None
                )
                for sparsity, run in points.items()
            ],
            means=[],
        )
        for number, (_, points) in enumerate(lines)
    ]
    panel = CurvePanel(
        scope="overall", dataset=None, language=None, decided=True, missing=[], chance={}, dense=None, lines=made
    )
    names = [LineDefinition(name=m, method=m, pattern="unstructured", settings={}) for m, _ in lines]
    return Curves(lines=names, panels=[panel], left_out=[])


def sweep(quadrants, *lines):
    items = [line(n, names) for n, names in enumerate(quadrants)]
    return {(s.key, s.claim.rpartition(" ")[2]): s for s in sweep_statements(curves(*lines), items, DEFAULTS)}


@pytest.mark.parametrize(
    ("quadrants", "expected"),
    [
        ([["both", "recognition_only"]] * 20 + [["both", "both"]] * 20, "yes"),
        ([["recognition_only", "both"]] * 20 + [["both", "both"]] * 20, "no"),
        ([["both", "recognition_only"], ["recognition_only", "both"]] * 20, "undecided"),
        ([["both", "recognition_only"]] * 29, "undecided"),
        ([["both", "neither"]] * 10 + [["both", "both"]] * 30, "no"),  # a dead model does not count as recognising
    ],
)
def test_growth_with_sparsity(quadrants, expected):
    found = sweep(quadrants, ("magnitude", {0.6: "b", 0.4: "a"}))
    assert {key: s.answer for key, s in found.items()} == {
        ("growth_near", "(magnitude)"): expected,
        ("growth_far", "(magnitude)"): expected,
    }


def test_growth_in_numbers():
    found = sweep([["both", "recognition_only"]] * 20 + [["both", "both"]] * 20, ("magnitude", {0.4: "a", 0.6: "b"}))
    grown = found["growth_near", "(magnitude)"]
    assert grown.claim == "recognition without an answer grows with sparsity, near options (magnitude)"
    assert grown.numbers.startswith("beyond guessing +0.50 [+0.")
    assert grown.numbers.endswith("] from sparsity 0.4 to 0.6 on 40 items")


@pytest.mark.parametrize(
    ("quadrants", "expected"),
    [
        (["recognition_only", "neither", "both"], "yes"),
        (["both", "recognition_only", "both"], "no"),
        (["both", "both", "both"], "undecided"),
    ],
)
def test_strongest_with_wanda(quadrants, expected):
    made = [["both", *quadrants]] * 38
    other = "recognition_only" if quadrants[0] == "both" else "both"
    made += [["both", other, *quadrants[1:]]] * 2 if expected != "no" else [["both", *quadrants]] * 2
    found = sweep(made, ("wanda", {0.5: "a", 0.6: "b"}), ("magnitude", {0.6: "c"}), ("sparsegpt", {0.6: "d", 0.7: "a"}))
    wanda = next(s for (key, _), s in found.items() if key == "wanda_near")
    assert wanda.answer == expected
    assert wanda.numbers.startswith("at 0.6: ")
    assert " more than magnitude; " in wanda.numbers
    assert wanda.numbers.endswith(" more than sparsegpt")


def test_wanda_alone_is_not_judged():
    found = sweep([["both", "both"]] * 40, ("wanda", {0.5: "a", 0.6: "b"}), ("magnitude", {0.4: "c"}))
    wanda = next(s for (key, _), s in found.items() if key == "wanda_near")
    assert (wanda.answer, wanda.reason) == ("undecided", "no other method was run at the same sparsity")
    assert not any(key.startswith("wanda") for key, _ in sweep([["both"]], ("magnitude", {0.4: "a"})))
    assert sweep_statements(None, [], DEFAULTS) == []


def test_one_point_is_no_sweep():
    assert sweep([["both"]] * 40, ("wanda", {0.5: "a"})) == {}
    assert set(sweep([["both", "both"]] * 40, ("wanda", {0.5: "a", 0.6: "b"})))


@pytest.mark.parametrize("methods", [("wanda",), ("wanda", "magnitude")])
def test_methods_at_one_sparsity_are_compared_without_probes_and_curves(tmp_path, methods):
    letters = "bbbbbbbbbbbbbbbbbbbrrrrrrnnnnn"
    runs = [write_run(tmp_path / "dense", pattern(letters), pruning=receipt("none", 0.0))]
    for method in methods:
        worse = "r" * 20 + letters[20:] if method == "wanda" else letters
        runs.append(write_run(tmp_path / method, pattern(worse), pruning=receipt(method, 0.5)))
    report = build_report(runs)
    assert report.file.curves is None
    if len(methods) == 1:
        assert report.file.conclusions is None
        return
    near, far = report.file.conclusions.sweep
    assert (near.key, near.answer, far.key) == ("wanda_near", "yes", "wanda_far")
    assert "more than magnitude" in near.numbers
    assert report.file.conclusions.comparisons == []
    assert "### Across sparsities and methods" in render_markdown(report)
