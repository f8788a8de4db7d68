"""The whole report: what it says, what it refuses, and the files it writes."""

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console
from synthetic import Question, pattern, receipt, sha, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.page import render_page
from lm_eval_illusion.report.render.markdown import render_markdown
from lm_eval_illusion.report.render.overview import shown_first
from lm_eval_illusion.report.render.tables import comparison_tables
from lm_eval_illusion.report.render.text import render_text
from lm_eval_illusion.report.schema import ReportFile
from lm_eval_illusion.report.write import replace_file

HERE = Path(__file__).parent
SCHEMA = Path(build_report.__code__.co_filename).parent / "report.schema.json"


def two_languages():
    dense = [q for language in ("en", "sw") for q in pattern("bbbbbbbbrrrrrgnnnnbb", language=language)]
    pruned = [q for language in ("en", "sw") for q in pattern("brrrrrrbrrnnrnnnnnbr", language=language)]
    for question in dense:
        question.far = question.far or question.number % 2 == 0
    for question in pruned:
        question.far, question.rank = question.far or question.number % 3 == 0, 3
    dense[3].valid, dense[3].invalid_reason = False, "does_not_fit"
    return dense, pruned[:-1]


@pytest.fixture
def runs(tmp_path):
    dense, pruned = two_languages()
    return [write_run(tmp_path / "dense", dense), write_run(tmp_path / "wanda", pruned, pruning=receipt())]


def notes(report, level):
    file = report.file
    return [n.text for n in [*file.notes, *(n for c in file.comparisons for n in c.notes)] if n.level == level]


def test_report_md_is_as_expected(runs, tmp_path):
    write_report(build_report(runs), tmp_path / "out")
    expected = HERE / "expected" / "report.md"
    if os.environ.get("REWRITE_EXPECTED"):
        expected.write_text((tmp_path / "out" / "report.md").read_text(encoding="utf-8"), encoding="utf-8")
    assert (tmp_path / "out" / "report.md").read_text(encoding="utf-8") == expected.read_text(encoding="utf-8")


def test_report_json_follows_the_shipped_schema(runs, tmp_path):
    write_report(build_report(runs), tmp_path / "out")
    text = (tmp_path / "out" / "report.json").read_text(encoding="utf-8")
    again = ReportFile.model_validate_json(text)
    assert again == build_report(runs).file
    assert json.loads(SCHEMA.read_text()) == ReportFile.model_json_schema(), "write it again: see docs/report.md"
    assert json.loads(text)["schema_version"] == 6
    broken = json.loads(text)
    broken["surprise"] = 1
    with pytest.raises(ValueError, match="surprise"):
        ReportFile.model_validate(broken)


def test_items_file_has_one_line_an_item(runs, tmp_path):
    write_report(build_report(runs), tmp_path / "out")
    lines = (tmp_path / "out" / "items.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    items = [json.loads(line) for line in lines]
    assert len(items) == 40
    assert [item["item_id"] for item in items] == sorted(item["item_id"] for item in items)
    changed = items[1]
    assert changed["runs"]["dense"]["generation"]["answer"] == "Paris"
    assert changed["runs"]["wanda 0.5"]["generation"]["answer"] == "Rome"
    assert changed["runs"]["dense"]["quadrant_near"] == "both"
    assert changed["runs"]["wanda 0.5"]["quadrant_near"] == "recognition_only"
    assert changed["near"]["choices"][changed["near"]["gold"]] == changed["gold"] == "Paris"
    assert items[-1]["runs"]["wanda 0.5"] is None
    assert items[3]["runs"]["dense"]["near"]["logprobs"] == [None] * 4


def test_the_same_files_give_the_same_bytes(runs, tmp_path):
    for name in ("one", "two"):
        write_report(build_report(runs), tmp_path / name)
    for file in ("report.json", "report.md", "items.jsonl"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_counts_of_excluded_and_unmatched(runs):
    rows = build_report(runs).file.comparisons[0].rows
    assert [(r.joined, r.excluded, r.unmatched) for r in rows] == [(38, 1, 1), (19, 1, 0), (19, 0, 1)]


def test_many_runs_are_compared_with_the_first(runs, tmp_path):
    dense, pruned = two_languages()
    more = [
        write_run(tmp_path / "again", pruned, pruning=receipt()),
        write_run(tmp_path / "nm", pruned, pruning={**receipt(), "spec": {"method": "wanda", "pattern": "2:4"}}),
        write_run(tmp_path / "none", dense, pruning=receipt("none", 0.0)),
        write_run(tmp_path / "hf", dense),
    ]
    file = build_report([*runs, *more]).file
    assert [run.label for run in file.runs] == [
        "dense",
        "wanda 0.5",
        "wanda 0.5 #2",
        "wanda 2:4",
        "dense #2",
        "hf",
    ]
    assert [c.dense for c in file.comparisons] == ["dense"] * 5
    assert any("not pruned (method none)" in note.text for note in file.notes)


def test_one_run_is_not_enough(runs):
    with pytest.raises(IllusionError, match=r"1 run given, expected a dense one and at least one pruned"):
        build_report(runs[:1])


def test_calibration_overlap_is_an_alarm(tmp_path):
    questions = pattern("b" * 8, passage="The  passage\nitself.")
    one = write_run(tmp_path / "a", questions)
    two = write_run(tmp_path / "b", questions, pruning=receipt(texts=["other", "The passage itself."]))
    report = build_report([one, two])
    overlap = report.file.runs[1].overlap
    assert (overlap.status, overlap.items, overlap.hashes) == ("overlap", 8, 2)
    assert report.file.headline[0].startswith("ALARM: wanda 0.5 was calibrated on texts that are evaluated: 8 items")
    assert sha("The passage itself.") == questions[0].doc()["passage_sha256"]


def test_no_overlap_is_stated(runs):
    report = build_report(runs)
    assert report.file.runs[1].overlap.status == "none"
    assert any("of wanda 0.5: no overlap found" in text for text in notes(report, "info"))


@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        ({"calibration": {"source": "rows"}}, "unchecked", "lists no text hashes"),
        ({"calibration": {"text_hashes": [str(n) for n in range(5000)]}}, "unchecked", "stops at 5000 texts"),
        ({"calibration": None}, "no calibration", "no calibration text"),
    ],
)
def test_overlap_that_cannot_be_checked(tmp_path, change, status, why):
    one = write_run(tmp_path / "a", pattern("bb"))
    two = write_run(tmp_path / "b", pattern("bb"), pruning={**receipt(), **change})
    overlap = build_report([one, two]).file.runs[1].overlap
    assert overlap.status == status
    assert why in overlap.why


def test_missing_far_options_are_named_with_the_way_to_get_them(tmp_path):
    paths = [
        write_run(tmp_path / name, pattern(bits), conditions=("mc", "gen"), pruning=pruning)
        for name, bits, pruning in (("a", "bbrn", None), ("b", "brrn", receipt()))
    ]
    report = build_report(paths)
    row = report.file.comparisons[0].rows[0]
    assert (row.missing, row.dense.far, row.contrast.far) == (["mc_far"], None, None)
    assert any("--tasks tydiqa_mc_far." in text for text in notes(report, "warning"))
    assert "multiple choice far not measured" in report.file.headline[0]


def test_generation_alone_and_choice_alone(tmp_path):
    for conditions, missing in ((("gen",), ["mc", "mc_far"]), (("mc", "mc_far"), ["gen"])):
        folder = tmp_path / "-".join(conditions)
        paths = [write_run(folder / n, pattern("bbrn"), conditions=conditions) for n in ("a", "b")]
        row = build_report(paths).file.comparisons[0].rows[0]
        assert row.missing == missing
        assert row.dense.near is None or row.dense.near.gap is None


def test_unknown_truncation_cache_and_prompt_are_said(tmp_path):
    questions = pattern("bbrn", fits=None)
    options = {"results": {"chat_template": "x", "chat_template_sha": "ab" * 32, "system_instruction": "Be brief."}}
    one = write_run(tmp_path / "a", questions, **options)
    two = write_run(tmp_path / "b", questions, config={"use_cache": "x.db"}, pruning=receipt(), **options)
    report = build_report([one, two])
    assert any(text.startswith("Truncation unchecked in dense") for text in notes(report, "warning"))
    assert any("used --use_cache" in text for text in notes(report, "warning"))
    assert "1 demonstration(s), chat template abababab, a system instruction" in notes(report, "info")[0]


def test_receipts_that_disappoint_are_said(tmp_path):
    one = write_run(tmp_path / "a", pattern("bb"), pruning=receipt("magnitude"))
    two = write_run(tmp_path / "b", pattern("bb"), pruning={**receipt(), "sparsity_reached": 0.4, "coverage": 0.5})
    said = notes(build_report([one, two]), "warning")
    assert any("asked 0.500, reached 0.400" in text for text in said)
    assert any("only 50.0% of block weights" in text for text in said)
    assert any("The first run (magnitude 0.5) is the reference, yet" in text for text in said)


def test_weak_reference_leaks_and_formatting_loss_are_said(tmp_path):
    easy = pattern("r" * 20)
    broken = pattern("r" * 20)
    for question in broken:
        question.flags = {"empty": True, "unclosed_thought": question.number < 10}
    report = build_report([write_run(tmp_path / "a", easy), write_run(tmp_path / "b", broken)])
    said = notes(report, "warning")
    assert any("too easy" in text for text in said)
    assert any("answers only 0.00" in text for text in said)
    assert any("100% empty, 50% unclosed thought" in text for text in said)
    assert any("golds are the longest near option" in text for text in said)


def test_leak_figures(tmp_path):
    paths = [write_run(tmp_path / name, pattern("bbrn")) for name in ("a", "b")]
    near, far = build_report(paths).file.comparisons[0].leaks
    assert (near.longest, near.shortest, near.chance, near.positions) == (1.0, 0.0, 0.25, [4, 0, 0, 0])
    assert (near.first_in_passage, near.most_frequent) == (1.0, 0.25)  # Paris, Rome, Oslo, Bonn once each
    assert far.longest == pytest.approx(1 / 3)  # Paris, Cairo and Quito have five letters
    assert far.first_in_passage is None  # only the gold occurs in the passage


@pytest.mark.parametrize(
    ("dense", "pruned", "words"),
    [
        ("b" * 40, "b" * 10 + "r" * 30, "the gap widened by"),
        ("r" * 20 + "b" * 20, "b" * 40, "the gap narrowed by"),
        ("br" * 40, "br" * 40, "the gap stayed within 0.05"),
        ("b" * 40, "b" * 37 + "r" * 3, "no change of the gap is shown"),
        ("b" * 40, "r" * 10 + "n" * 30, "cannot be told from guessing (0.25, chance 0.25)"),
        ("b" * 40, "r" * 1 + "n" * 39, "lies below guessing (0.03, chance 0.25), so the near gap is not interpretable"),
    ],
)
def test_headline_in_words(tmp_path, dense, pruned, words):
    one = write_run(tmp_path / "a", pattern(dense))
    report = build_report([one, write_run(tmp_path / "b", pattern(pruned), pruning=receipt())])
    assert any("near" in line and words in line for line in report.file.headline)
    assert report.file.comparisons[0].headline[-1].startswith("Not shown by these numbers")


def test_a_gap_that_widens_against_far_options_alone_may_be_copying(tmp_path):
    dense, pruned = pattern("b" * 40), pattern("r" * 10 + "n" * 30)
    for question in pruned:
        question.far = True
    both = pattern("b" * 10 + "r" * 30)
    one, two, three = (write_run(tmp_path / n, q) for n, q in (("a", dense), ("b", pruned), ("c", both)))
    said = {c.pruned: " ".join(c.headline) for c in build_report([one, two, three]).file.comparisons}
    assert "the near gap is not interpretable" in said["b"]
    assert "the gap widened by" in said["b"]
    assert "By itself this may be copying" in said["b"]
    assert "may be copying" not in said["c"]  # near options show it too


def test_examples_are_turned_items(runs):
    examples = build_report(runs).file.comparisons[0].examples
    assert len(examples) == 6
    assert {(e.dense_answer, e.pruned_answer) for e in examples} == {("Paris", "Rome")}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"en": ("near", "far"), "sw": ("near", "far")}, "near options"),
        ({"en": ("far",), "sw": ("far",)}, "far options"),
        ({"en": ("near", "far"), "sw": ("far",)}, "near options, or far ones where near were not asked"),
    ],
)
def test_the_list_of_turned_items_says_against_which_options(tmp_path, asked, words):
    runs = []
    for name, letters in (("a", "bbbb"), ("b", "rrrr")):
        questions = [q for language in asked for q in pattern(letters, language=language)]
        for question in questions:
            question.near = question.near if "near" in asked[question.language] else None
        runs.append(write_run(tmp_path / name, questions, pruning=receipt() if name == "b" else None))
    write_report(build_report(runs), tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert f"### Items that turned from answered to recognised only, {words}\n" in text


@pytest.mark.parametrize(("reached", "told"), [(0.045, True), (0.001, False), (None, False)])
def test_zeros_of_the_checkpoint_itself_have_a_footnote(tmp_path, reached, told):
    own = {**receipt("none", 0.0), "sparsity_reached": reached}
    one = write_run(tmp_path / "a", pattern("bbrn"), pruning=own)
    two = write_run(tmp_path / "b", pattern("brrn"), pruning=receipt())
    report = build_report([one, two])
    words = "Reached by dense: nothing was pruned, the checkpoint itself already holds that share of exact zeros."
    stream = io.StringIO()
    Console(file=stream, width=100).print(render_text(report))
    for text in (stream.getvalue(), render_markdown(report), render_page(report)):
        assert (words in " ".join(text.split())) == told


def test_translations_of_a_passage_are_said_to_count_as_one(tmp_path):
    for name, shared, words in (("one", True, " (translations of one passage count as one)"), ("two", False, "")):
        made = []
        for letters in ("bbrn", "brrn"):
            questions = [q for language in ("en", "sw") for q in pattern(letters, language=language)]
            for question in questions:
                question.cluster = f"p{question.number}" if shared else None
            folder = tmp_path / name / letters
            made.append(write_run(folder, questions, pruning=receipt() if letters == "brrn" else None))
        report = build_report(made)
        passages = 4 if shared else 8
        said = f"Undecided: 8 items in {passages} passages{words}; a verdict takes 30 items in 8 passages."
        assert said in report.file.headline
        short = shown_first(build_report([made[0], *[made[1]] * 4]).file)[0]
        assert short == f"wanda 0.5: undecided, 8 items in {passages} passages{words}; a verdict takes 30 in 8."


def test_unwritable_folder(runs, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(IllusionError, match=r"cannot write the report to .*--out"):
        write_report(build_report(runs), tmp_path / "file" / "out")


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    target = tmp_path / "report.md"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        replace_file(target, "\ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    assert target.read_text() == "old"


def test_unmatched_items_are_warned_of(tmp_path):
    one = write_run(tmp_path / "a", [Question(n) for n in range(4)])
    two = write_run(tmp_path / "b", [Question(n) for n in range(2)], pruning=receipt())
    assert any(
        "in one run only or lacking a half: 2 item(s)" in text for text in notes(build_report([one, two]), "warning")
    )


def test_a_recorded_run_of_the_harness_is_read():
    """lm-eval 0.4.13, `--model dummy`, the first three English questions of the mini set."""
    recorded = HERE / "recorded" / "dummy"
    report = build_report([recorded, recorded])
    row = report.file.comparisons[0].rows[0]
    assert (row.joined, row.excluded, row.unmatched, row.missing) == (3, 0, 0, [])
    results = json.loads(next(recorded.rglob("results_*.json")).read_text(encoding="utf-8"))["results"]
    assert row.dense.near.accuracy.value == results["illusion_mini_mc_en"]["acc_norm,none"]
    assert row.dense.far.accuracy.value == results["illusion_mini_mc_far_en"]["acc_norm,none"]
    assert row.dense.generation.value == results["illusion_mini_gen_en"]["correct,none"]
    assert row.dense.f1 == results["illusion_mini_gen_en"]["f1,none"]
    assert not report.file.runs[0].truncation_checked
    assert report.file.runs[0].num_fewshot == [1]


@pytest.mark.parametrize("change", [{"sparsity_reached": "half"}, {"calibration": ["text"]}, {"coverage": {}}])
def test_a_damaged_receipt_is_refused(tmp_path, change):
    one = write_run(tmp_path / "a", pattern("bb"))
    two = write_run(tmp_path / "b", pattern("bb"), pruning={**receipt(), **change})
    with pytest.raises(IllusionError, match=r"results_.*json: damaged pruning receipt or run facts"):
        build_report([one, two])


@pytest.mark.parametrize("name", ["pretrained", "revision", "model_type"])
def test_runs_of_different_checkpoints_are_refused(tmp_path, name):
    one = write_run(tmp_path / "a", pattern("bb"), model={name: "this"})
    two = write_run(tmp_path / "b", pattern("bb"), pruning=receipt(), model={name: "that"})
    with pytest.raises(IllusionError, match=rf"the model's {name} differs: this in .*a, that in .*b; prune the check"):
        build_report([one, two])


@pytest.mark.parametrize("name", ["dtype", "attn_implementation", "max_length", "device"])
def test_runs_made_differently_are_told_apart(tmp_path, name):
    one = write_run(tmp_path / "a", pattern("bb"), model={name: "this"})
    two = write_run(tmp_path / "b", pattern("bb"), pruning=receipt(), model={name: "that"})
    warned = notes(build_report([one, two]), "warning")
    assert any(f"{name} differs: this in dense, that in wanda 0.5" in text for text in warned)


def test_the_runs_table_names_the_checkpoint(tmp_path):
    model = {"pretrained": "/models/org/small", "dtype": "torch.bfloat16"}
    runs = [write_run(tmp_path / n, pattern("bb"), pruning=p, model=model) for n, p in (("a", None), ("b", receipt()))]
    write_report(build_report(runs), tmp_path / "out")
    assert "| org/small | bfloat16 |" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_many_calibration_languages_are_summed_up(tmp_path):
    tokens = {f"l{n}": 300 + n for n in range(9)}
    changed = {**receipt(), "calibration": {**receipt()["calibration"], "tokens_per_language": tokens}}
    runs = [write_run(tmp_path / n, pattern("bb"), pruning=p) for n, p in (("a", None), ("b", changed))]
    write_report(build_report(runs), tmp_path / "out")
    assert "(300 to 308 tokens in each of 9 languages)" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "config", "words"),
    [
        ({"class": "LlamaForCausalLM"}, {}, "class LlamaForCausalLM against Gemma3ForCausalLM"),
        ({}, {"model_num_parameters": 7}, "parameters 7 against 5"),
    ],
)
def test_an_exported_checkpoint_of_another_model_is_an_alarm(tmp_path, model, config, words):
    dense = {"pretrained": "org/model", "class": "Gemma3ForCausalLM"}
    one = write_run(tmp_path / "a", pattern("bb"), model=dense, config={"model_num_parameters": 5})
    other = {"model": "hf", "model_num_parameters": 5, **config}
    two = write_run(tmp_path / "b", pattern("br"), model={**dense, "pretrained": "./pruned", **model}, config=other)
    assert f"ALARM: b is another model than dense: {words}." in build_report([one, two]).file.headline[0]


def test_an_exported_checkpoint_of_the_same_model_is_compared(tmp_path):
    size = {"model_num_parameters": 5}
    one = write_run(tmp_path / "a", pattern("bb"), model={"pretrained": "org/model"}, config=size)
    exported = {"model": "hf", "model_args": "pretrained=./pruned", "illusion": None, **size}
    report = build_report([one, write_run(tmp_path / "b", pattern("br"), config=exported)])
    assert notes(report, "alarm") == []
    assert report.file.runs[1].identity["pretrained"] == "./pruned"


def test_the_terminal_shows_the_overall_sensitivity_and_says_where_the_rest_is(runs, tmp_path):
    report = build_report(runs)
    table = next(t for t in comparison_tables(report.file.comparisons[0]) if t.title.startswith("Gap under every"))
    assert {row[0].removesuffix(" *") for row in table.rows[: table.overall]} == {"overall"}
    assert {row[0].removesuffix(" *") for row in table.rows[table.overall :]} == {"tydiqa en", "tydiqa sw"}
    stream = io.StringIO()
    Console(file=stream, width=200).print(render_text(report))
    assert "Datasets and languages: report.md." in " ".join(stream.getvalue().split())
    write_report(report, tmp_path / "out")
    shown = (tmp_path / "out" / "report.md").read_text(encoding="utf-8").split("### Gap under every")[1]
    assert "| tydiqa sw * | near | pmi |" in shown
