"""What a reader must notice for a gate to be trusted: records that do not add up, receipts of wrong types."""

import json

import pytest
from synthetic import pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report import build_report


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "dense", pattern("b" * 30 + "r" * 6 + "n" * 4))
    write_run(tmp_path / "pruned", pattern("b" * 20 + "r" * 16 + "n" * 4), pruning=receipt())
    return tmp_path


def build(runs):
    return build_report([runs / "dense", runs / "pruned"])


def one(runs, pattern_):
    (path,) = runs.rglob(pattern_)
    return path


def change_results(runs, run, change):
    path = one(runs / run, "results_*")
    held = json.loads(path.read_text(encoding="utf-8"))
    change(held)
    path.write_text(json.dumps(held), encoding="utf-8")


def test_samples_of_another_run_are_refused(runs):
    """The dense model's answers beside the pruned model's results: 30 of 40 right, where the file says 20 of 40."""
    ours, theirs = one(runs / "pruned", "samples_*_gen_*"), one(runs / "dense", "samples_*_gen_*")
    ours.write_bytes(theirs.read_bytes())
    with pytest.raises(
        IllusionError, match=r"tydiqa_gen_en are right in 0\.7500, but .* says correct,none 0\.5000: a samp"
    ):
        build(runs)


def test_samples_of_another_task_are_refused(runs):
    ours, theirs = one(runs / "dense", "samples_*_mc_en*"), one(runs / "dense", "samples_*_gen_*")
    ours.write_bytes(theirs.read_bytes())
    theirs.write_bytes(b"")
    with pytest.raises(IllusionError, match=r"holds no records|says acc_norm,none 0\.9000"):
        build(runs)


def test_an_edited_answer_is_refused(runs):
    path = one(runs / "pruned", "samples_*_gen_*")
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[39] = lines[39].replace('"standard": false', '"standard": true')
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(
        IllusionError, match=r"right in 0\.5250, but the results file beside it says correct,none 0\.5000"
    ):
        build(runs)


@pytest.mark.parametrize("said", [None, "N/A", float("nan")])
def test_a_score_that_is_not_there_is_not_compared(runs, said):
    change_results(runs, "pruned", lambda held: held["results"]["tydiqa_gen_en"].update({"correct,none": said}))
    assert build(runs).file.comparisons


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda held: held.update({"n-samples": True}), "a value is of another type than lm_eval writes"),
        (lambda held: held["n-shot"].update(tydiqa_mc_en=float("inf")), "cannot convert float infinity to integer"),
        (lambda held: held["n-shot"].update(tydiqa_mc_en="x"), "invalid literal for int"),
        (lambda held: held["n-samples"].update(tydiqa_mc_en=[1]), "of another type than lm_eval writes"),
        (
            lambda held: held["config"]["illusion"]["receipt"]["spec"].update(sparsity=10**400),
            "damaged pruning receipt",
        ),
        (lambda held: held["config"]["illusion"]["receipt"].update(coverage="all"), "damaged pruning receipt"),
    ],
)
def test_values_of_other_types_are_one_line(runs, change, said):
    change_results(runs, "pruned", change)
    with pytest.raises(IllusionError, match=said):
        build(runs)


def test_a_score_beyond_one_is_refused(runs):
    path = one(runs / "pruned", "samples_*_gen_*")
    text = path.read_text(encoding="utf-8").replace('"f1": 1.0, "char_f1"', '"f1": 1e308, "char_f1"', 1)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(IllusionError, match=r"f1 1e\+308 lies outside 0 to 1"):
        build(runs)
