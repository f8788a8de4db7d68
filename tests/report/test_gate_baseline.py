"""A stored report as baseline: the same figures as the runs themselves, or a refusal that says what differs."""

import json

import pytest
from synthetic import pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.build import build_from
from lm_eval_illusion.report.gate.baseline import differences
from lm_eval_illusion.report.gate.conduct import gather_report, run_gate
from lm_eval_illusion.report.gate.rule_file import Rules
from lm_eval_illusion.report.gate.rules import parse_rule
from lm_eval_illusion.report.gate.stored import read_report, restore_run
from lm_eval_illusion.report.merge import read_merged

GIVEN = Rules(tuple(parse_rule("generation drop <= 0.1", "here")))


def dense():
    questions = pattern("b" * 50 + "r" * 6 + "g" * 4 + "n" * 4)
    for question in questions[::3]:
        question.rank, question.tied_steps = 3, 1
        question.parting = {"rival": 3, "token": 0, "gold_rank": 2, "margin": 0.5}
    questions[5].valid, questions[5].invalid_reason = False, "does_not_fit"
    questions[6].flags = {"empty": True}
    return questions


def pruned(turned=20):
    return pattern("r" * turned + "b" * (50 - turned) + "r" * 6 + "n" * 8)


@pytest.fixture
def stored(tmp_path):
    """Folder with a report of a dense and a pruned run, and the folders of the runs."""
    write_run(tmp_path / "dense", dense())
    write_run(tmp_path / "old", pruned(2), pruning=receipt(sparsity=0.4))
    write_run(tmp_path / "new", pruned(), pruning=receipt(sparsity=0.5))
    write_report(build_report([tmp_path / "dense", tmp_path / "old"]), tmp_path / "report")
    return tmp_path


def test_a_stored_run_gives_the_figures_of_the_run_itself(stored):
    fresh = build_report([stored / "dense", stored / "new"]).file
    again = build_from([restore_run(stored / "report"), read_merged(stored / "new")]).file
    assert again.comparisons == fresh.comparisons
    again_dense, fresh_dense = again.runs[0], fresh.runs[0]
    assert again_dense.asked == fresh_dense.asked
    assert again_dense.model_copy(update={"path": "", "results_file": ""}) == fresh_dense.model_copy(
        update={"path": "", "results_file": ""}
    )


def test_a_stored_pruned_run_gives_the_figures_of_the_run_itself(stored):
    fresh = build_report([stored / "old", stored / "new"]).file
    again = build_from([restore_run(stored / "report", "wanda 0.4"), read_merged(stored / "new")]).file
    assert again.comparisons == fresh.comparisons
    assert again.runs[0].pruning == fresh.runs[0].pruning


def test_a_report_is_judged_as_it_stands(stored):
    for path in (stored / "report", stored / "report" / "report.json"):
        (line,) = run_gate([path], GIVEN).lines
        assert (line.pruned, line.verdict, line.observed) == ("wanda 0.4", "undecided", pytest.approx(6 / 63))


def test_a_report_is_the_baseline_of_a_run(stored):
    (line,) = run_gate([stored / "report", stored / "new"], GIVEN).lines
    assert (line.dense, line.pruned, line.verdict) == ("dense", "wanda 0.5", "fail")
    named = stored / "report" / "report.json#wanda 0.4"
    (line,) = run_gate([named, stored / "new"], GIVEN).lines
    assert (line.dense, line.pruned, line.verdict) == ("wanda 0.4", "wanda 0.5", "fail")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"version": "1.1"}, r"versions \(tydiqa_gen_en 1\.0 and 1\.1, tydiqa_mc_en 1\.0 and 1\.1 and 1 more\)"),
        ({"num_fewshot": 0}, r"demonstrations \(tydiqa_gen_en 1 and 0"),
        ({"prompt_prefix": "Say: "}, "prompts of 64 items, first tydiqa/en/0000"),
        ({"conditions": ("mc", "gen")}, r"tasks \(tydiqa_mc_far_en only in the baseline\)"),
    ],
)
def test_what_differs_is_said(stored, kinds, said):
    write_run(stored / "other", pruned(), pruning=receipt(), **kinds)
    with pytest.raises(IllusionError, match=said) as caught:
        run_gate([stored / "report", stored / "other"], GIVEN)
    assert "the baseline" in str(caught.value)
    assert "make a new baseline with `lm-eval-illusion report`" in str(caught.value)


def test_all_that_differs_is_said_at_once(stored):
    questions = pruned()[1:]
    questions[0].question = "Another?"
    other = receipt()
    other["calibration"]["digest"] = "aa" * 32
    write_run(stored / "other", questions, pruning=other, version="2.0")
    found = differences(restore_run(stored / "report", "wanda 0.4"), read_merged(stored / "other"))
    assert [text.split(" (")[0].split(" of ")[0] for text in found] == [
        "versions",
        "items",
        "documents",
        "prompts",
        "calibration",
    ]
    assert found[1] == "items (1 only in the baseline, first tydiqa/en/0000)"
    assert "cdcd" in found[4]
    assert "aaaa" in found[4]


def test_the_same_asks_differ_in_nothing(stored):
    assert differences(restore_run(stored / "report"), read_merged(stored / "new")) == []
    assert differences(restore_run(stored / "report", "wanda 0.4"), read_merged(stored / "new")) == []


def edit(path, change):
    held = json.loads(path.read_text(encoding="utf-8"))
    change(held)
    path.write_text(json.dumps(held), encoding="utf-8")


def test_items_of_another_report_are_refused(stored):
    write_report(build_report([stored / "dense", stored / "new"]), stored / "second")
    (stored / "second" / "items.jsonl").replace(stored / "report" / "items.jsonl")
    with pytest.raises(IllusionError, match=r"is not the items file that .* was written with \(its SHA-256 differs\)"):
        run_gate([stored / "report", stored / "new"], GIVEN)


def test_items_that_are_missing_are_refused(stored):
    (stored / "report" / "items.jsonl").unlink()
    assert run_gate([stored / "report"], GIVEN).lines  # figures alone can be judged as they stand
    with pytest.raises(IllusionError, match=r"a baseline needs the items beside its report\.json"):
        run_gate([stored / "report", stored / "new"], GIVEN)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.update(schema_version=4), r"no report of this version \(schema_version: Input should be 6\)"),
        (lambda f: f.update(comparisons=[]), r"damaged or edited report \(no comparison\)"),
        (lambda f: f.pop("runs"), r"no report of this version \(runs: Field required\)"),
        (lambda f: f["runs"].pop(), "runs that are named twice, or compared and not named"),
        (lambda f: f["runs"].append(f["runs"][0]), "runs that are named twice"),
        (lambda f: f["settings"].update(min_items=1), "other settings than"),
        (lambda f: f["comparisons"][0]["rows"].pop(0), "not one overall row, or a row that stands twice"),
        (lambda f: f["comparisons"][0]["rows"].append(f["comparisons"][0]["rows"][1]), "a row that stands twice"),
        (lambda f: f["comparisons"][0]["rows"].pop(1), "joined items of all languages do not sum to the overall ones"),
        (lambda f: f["comparisons"][0]["rows"][0].update(excluded=0), "excluded items of all languages do not sum"),
        (
            lambda f: f["comparisons"][0]["rows"][0].update(joined="63"),
            "rows.0.joined: Input should be a valid integer",
        ),
    ],
)
def test_an_edited_report_is_refused(stored, change, said):
    edit(stored / "report" / "report.json", change)
    with pytest.raises(IllusionError, match=said):
        run_gate([stored / "report"], GIVEN)


def test_figures_that_are_no_numbers_never_pass(stored):
    path = stored / "report" / "report.json"
    for value in ("null", "NaN", "1e999"):
        held = json.loads(path.read_text(encoding="utf-8"))
        held["comparisons"][0]["rows"][0]["contrast"]["generation"]["delta"]["low"] = "HERE"
        path.write_text(json.dumps(held).replace('"HERE"', value), encoding="utf-8")
        (line,) = run_gate([path], GIVEN).lines
        assert line.verdict == "undecided"
        assert line.why == "not measured, or without an interval"


def test_a_baseline_that_saw_its_questions_is_refused(tmp_path):
    first, second = dense(), pruned()
    for question in (first[0], second[0]):
        question.passage = "The passage that calibration saw."
    write_run(tmp_path / "dense", first)
    write_run(tmp_path / "old", second, pruning=receipt(texts=["The passage that calibration saw."]))
    write_report(build_report([tmp_path / "dense", tmp_path / "old"]), tmp_path / "report")
    with pytest.raises(IllusionError, match=r"wanda 0\.5 was calibrated on evaluated texts and is no baseline"):
        restore_run(tmp_path / "report", "wanda 0.5")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["dense"], "dense: expected a report.json, or a dense run and at least one pruned"),
        ([], "no run: expected a report.json"),
        (["dense", "report"], "report is a stored report; expected it alone, or first"),
        (["report", "report"], "expected it alone, or first"),
        (["report/report.json#dense"], "one run of a report alone"),
        (["report#nobody", "new"], "no run 'nobody'; expected one of dense, wanda 0.4"),
        (["none.json"], "none.json: cannot be read"),
        (["none", "new"], "no run folder at"),
        (["report", "none"], "no run folder at"),
    ],
)
def test_what_can_be_judged(stored, given, said):
    with pytest.raises(IllusionError, match=said):
        gather_report([stored / name for name in given])


def test_lines_that_are_no_items(stored):
    items = stored / "report" / "items.jsonl"
    import hashlib

    for text in ("{}\n", "[1]\n", '{"runs": {"dense": {"asked": {"mc": 1}}}}\n', "{", '{"runs": null}\n'):
        items.write_text(text, encoding="utf-8")
        digest = hashlib.sha256(items.read_bytes()).hexdigest()
        edit(stored / "report" / "report.json", lambda f, digest=digest: f.update(items_sha256=digest))
        with pytest.raises(IllusionError, match="not the lines of items"):
            run_gate([stored / "report", stored / "new"], GIVEN)


def test_a_report_is_read_again(stored):
    assert read_report(stored / "report") == build_report([stored / "dense", stored / "old"]).file
