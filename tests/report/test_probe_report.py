"""The whole report of runs with probes: rows, items, notes, and what is refused."""

import json

import pytest
from probe_records import beams, picks, ranked, samples, spans, writes
from synthetic import STAMP, Question, pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.build import DEFAULTS
from lm_eval_illusion.report.records import read_run
from lm_eval_illusion.report.schema import ReportFile

FEW = DEFAULTS.model_copy(update={"min_items": 2, "min_clusters": 2})


def everything(right):
    """A record under every further condition."""
    far = {"chars": right, "sum": right}
    seven = ("Paris", "Rome", "Oslo", "Bonn", "Lima", "Cairo", "Quito")
    return {
        "mc_letters": picks(right, "ABCD", options=["Paris", "Rome", "Oslo", "Bonn"]),
        "mc_graded": picks(right, ["Paris", "Rome"], distances=["gold", "paragraph"]),
        "shown": writes(right),
        "shown_nogold": writes(False),
        "beam4": beams(False, right),
        "beam8": beams(False, right),
        "sample": samples(*[False] * 7, right),
        "oneshot": writes(right),
        "closed_mc": picks(right),
        "closed_gen": writes(False),
        "choices_only": picks(right, seven, right_far=far),
        "question_only": picks(right, seven, right_far=far),
        "rank": ranked(1 if right else 3, 1),
        "rank_spans": spans(2, 9),
        "revise1_mc": picks(right),
        "revise1_gen": writes(right),
        "revise2_mc": picks(right),
        "revise2_gen": writes(right),
    }


def probed(bits, rights, language="en"):
    questions = pattern(bits, language=language)
    for question, right in zip(questions, rights, strict=True):
        question.probes = everything(right == "1")
    return questions


@pytest.fixture
def runs(tmp_path):
    dense = [*probed("bbbn", "1111"), *probed("bb", "11", "sw")]
    pruned = [*probed("brnn", "1100"), *probed("rn", "01", "sw")]
    return [write_run(tmp_path / "dense", dense), write_run(tmp_path / "wanda", pruned, pruning=receipt())]


def notes(report):
    return [note.text for note in report.file.comparisons[0].notes]


def test_every_row_has_the_probes_of_both_models(runs):
    rows = build_report(runs, settings=FEW).file.comparisons[0].rows
    assert [(row.scope, row.language) for row in rows] == [("overall", None), ("language", "en"), ("language", "sw")]
    overall, english, swahili = rows
    assert overall.pruned_probes.verdicts.counts == {
        "produced": 1,
        "demoted": 2,
        "recognised_only": 1,
        "lost": 2,
        "unprobed": 0,
    }
    assert (overall.pruned_probes.failures, overall.pruned_probes.probed, overall.pruned_probes.partly) == (5, 5, [])
    assert english.pruned_probes.verdicts.counts["demoted"] == 1
    assert swahili.pruned_probes.verdicts.counts["recognised_only"] == 1
    assert overall.probe_contrast.verdicts["produced"] == {
        "produced": 1,
        "demoted": 2,
        "recognised_only": 1,
        "lost": 1,
        "unprobed": 0,
    }
    assert overall.probe_contrast.verdicts["demoted"]["lost"] == 1


def test_every_probe_is_in_the_figures(runs):
    row = build_report(runs, settings=FEW).file.comparisons[0].rows[0]
    probes = row.pruned_probes
    assert [found.probe for found in probes.recovery] == [
        "shown",
        "shown_nogold",
        "beam4",
        "beam8",
        *(f"sample pass@{k}" for k in (1, 2, 4, 8)),
        "oneshot",
        "revise1_gen",
        "revise2_gen",
    ]
    assert {found.items for found in probes.recovery} == {5}
    assert [step.name for step in probes.ladder] == ["gen", "shown_nogold", "shown", "mc_letters", "mc", "mc_far"]
    assert (probes.forced.items, probes.span_rank.items, probes.graded[0].items) == (6, 6, 6)
    assert [(r.round, r.format) for r in probes.revisions] == [(1, "gen"), (1, "mc"), (2, "gen"), (2, "mc")]
    assert set(probes.accuracies) == {
        "mc_letters",
        "closed_mc",
        "closed_gen",
        "choices_only",
        "choices_only_far",
        "question_only",
        "question_only_far",
    }
    assert [shift.distance for shift in row.probe_contrast.options] == ["near", "far"]
    assert [ranks.group for ranks in row.probe_contrast.ranks] == ["all", "turned_near", "turned_far", "failures"]


def test_the_file_follows_the_schema(runs, tmp_path):
    report = build_report(runs)
    write_report(report, tmp_path / "out")
    text = (tmp_path / "out" / "report.json").read_text(encoding="utf-8")
    assert ReportFile.model_validate_json(text) == report.file


def test_items_hold_state_and_verdict(runs, tmp_path):
    write_report(build_report(runs), tmp_path / "out")
    lines = (tmp_path / "out" / "items.jsonl").read_text(encoding="utf-8").splitlines()
    items = {line["item_id"]: line["runs"] for line in map(json.loads, lines)}
    turned = items["tydiqa/en/0001"]["wanda 0.5"]
    assert (turned["verdict"], turned["first_rank"], turned["failed_form"]) == ("demoted", 1, [])
    assert turned["recovered_by"] == ["shown", "beam4", "beam8", "sample", "oneshot", "revise1_gen", "revise2_gen"]
    assert list(turned["probes"]) == list(everything(True))
    assert turned["probes"]["beam4"] == {
        "valid": True,
        "invalid_reason": None,
        "right": True,
        "right_first": False,
        "control": 0.0,
        "item_control": 0.0,
        "answers": ["Rome", "Paris"],
    }
    assert (turned["probes"]["sample"]["hits"], turned["probes"]["sample"]["draws"]) == (1, 8)
    assert turned["probes"]["mc_letters"]["picked"] == "Paris"
    assert turned["probes"]["choices_only"]["right_far"] is True
    assert turned["probes"]["mc_graded"]["logprobs"] == {"gold": -1.0, "paragraph": -9.0}
    assert turned["probes"]["shown"]["answer"] == "Paris"
    lost = items["tydiqa/en/0002"]["wanda 0.5"]
    assert (lost["verdict"], lost["recovered_by"], lost["first_rank"]) == ("lost", [], 3)
    assert lost["probes"]["rank"] == {
        "valid": True,
        "invalid_reason": None,
        "first": 3,
        "leave": 0,
        "parting": 3,
        "margin": -1.0,
        "agreement": 0.5,
        "first_logprob": -3.0,
        "parting_logprob": -3.0,
        "gold_logprob": -4.0,
        "answer_margin": -3.5,
    }
    assert lost["probes"]["rank_spans"]["gold_rank"] == 2
    assert items["tydiqa/en/0000"]["dense"]["verdict"] == "produced"


def test_items_of_runs_without_probes(tmp_path):
    questions = pattern("bn", rank=4, flags={"repeated": True})
    runs = [write_run(tmp_path / "a", questions), write_run(tmp_path / "b", questions, pruning=receipt())]
    report = build_report(runs)
    assert [line["runs"]["dense"]["verdict"] for line in report.items] == ["produced", "unprobed"]
    assert report.items[1]["runs"]["dense"]["failed_form"] == ["repeated"]
    assert (report.items[1]["runs"]["dense"]["first_rank"], report.items[1]["runs"]["dense"]["probes"]) == (4, {})
    row = report.file.comparisons[0].rows[0]
    assert (row.dense_probes, row.pruned_probes, row.probe_contrast.verdicts) == (None, None, None)
    assert [shift.flipped for shift in row.probe_contrast.options] == [0, 0]


def test_only_failures_were_probed(tmp_path):
    dense, pruned = pattern("bbbb"), pattern("bbrn")
    for question in pruned[2:]:
        question.probes = {"beam4": beams(False, True), "revise1_gen": writes(True, earlier="Rome")}
    runs = [write_run(tmp_path / "a", dense), write_run(tmp_path / "b", pruned, pruning=receipt())]
    report = build_report(runs)
    row = report.file.comparisons[0].rows[0]
    assert row.joined == 4
    assert row.pruned_probes.partly == ["beam4", "revise1_gen"]
    assert [(f.items, f.hits, f.lost, f.decided) for f in row.pruned_probes.recovery] == [(2, 2.0, None, False)] * 2
    assert (row.dense_probes, row.probe_contrast.verdicts) == (None, None)
    assert (
        "Probed in wanda 0.5 alone, so without a comparison: beam4, revise1_gen. Run dense on the same"
        in notes(report)[-3]
    )
    assert notes(report)[-2].startswith("wanda 0.5: beam4, revise1_gen asked on 2 of 4 items: shares are of these")
    assert notes(report)[-1] == (
        "Undecided for wanda 0.5: too few failures were probed to say what comes back (2 of 2 by beam4, revise1_gen); "
        "it takes 30 in 8 passages."
    )


def test_enough_failures_need_no_note(runs):
    (said,) = (text for text in notes(build_report(runs, settings=FEW)) if "too few" in text)
    assert said.startswith("Undecided for dense: too few failures were probed to say what comes back (1 of 1 by all 8 ")


def test_invalid_probe_answers_are_counted(tmp_path):
    pruned = pattern("nn")
    pruned[0].probes = {"oneshot": {"valid": False, "invalid_reason": "does_not_fit"}}
    pruned[1].probes = {"oneshot": writes(True)}
    runs = [write_run(tmp_path / "a", pattern("bb")), write_run(tmp_path / "b", pruned, pruning=receipt())]
    report = build_report(runs)
    assert any("wanda 0.5: probe answers left out as invalid: 1 oneshot." in text for text in notes(report))
    assert report.file.comparisons[0].rows[0].pruned_probes.recovery[0].items == 1
    assert report.items[0]["runs"]["wanda 0.5"]["probes"]["oneshot"] == {
        "valid": False,
        "invalid_reason": "does_not_fit",
    }


def edit(run, task, change):
    path = run / "org__model" / f"samples_{task}_{STAMP}.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n")
    record = json.loads(lines[0])
    change(record)
    lines[0] = json.dumps(record, ensure_ascii=False)
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")


def test_a_probe_with_another_prompt_is_refused(runs):
    edit(runs[1], "tydiqa_shown_en", lambda record: record.__setitem__("prompt_hash", "0" * 64))
    with pytest.raises(IllusionError, match=r"task tydiqa_shown_en, item tydiqa/en/0000: the prompt differs"):
        build_report(runs)


def test_a_probe_that_should_read_the_pairs_prompt_and_does_not_is_refused(runs):
    edit(runs[1], "tydiqa_beam4_en", lambda record: record.__setitem__("prompt_hash", "0" * 64))
    with pytest.raises(IllusionError, match=r"saw different prompts in tydiqa_beam4_en and tydiqa_beam8_en"):
        build_report(runs)


def test_options_of_another_seed_are_refused(runs):
    offered = {"choices_near": ["Paris", "Rome"], "gold_near": 0}
    edit(runs[1], "tydiqa_mc_en", lambda record: record["doc"].update(offered))
    assert build_report(runs).file.comparisons[0].rows[0].joined == 6  # only one condition holds options
    edit(runs[1], "tydiqa_shown_en", lambda record: record["doc"].update(offered))
    assert build_report(runs).file.comparisons[0].rows[0].joined == 6
    edit(runs[1], "tydiqa_beam4_en", lambda record: record["doc"].update(offered, gold_near=1))
    with pytest.raises(
        IllusionError, match=r"item tydiqa/en/0000 has other options, or another order of them, in"
    ) as why:
        build_report(runs)
    assert "with one illusion_seed" in str(why.value)


@pytest.mark.parametrize("condition", ["revise1_gen", "revise1_mc", "revise2_gen", "revise2_mc"])
def test_a_round_that_was_shown_another_run_s_answers_is_refused(runs, condition):
    edit(runs[1], f"tydiqa_{condition}_en", lambda record: record["illusion"].update(earlier="Berlin"))
    said = rf"under {condition} item tydiqa/en/0000 was shown the answer 'Berlin', but"
    with pytest.raises(IllusionError, match=said):
        build_report(runs)


@pytest.mark.parametrize("format_", ["gen", "mc"])
def test_a_round_about_an_answer_that_is_not_valid_is_refused(runs, format_):
    broken = {"valid": False, "invalid_reason": "non_finite"}
    edit(runs[1], f"tydiqa_revise1_{format_}_en", lambda record: record["illusion"].update(broken))
    with pytest.raises(
        IllusionError, match=rf"its revise1_{format_} answer here is nothing valid; expected the answers"
    ):
        build_report(runs)


def test_a_probe_over_another_document_is_refused(runs):
    edit(runs[1], "tydiqa_sample_en", lambda record: record.__setitem__("doc_hash", "0" * 64))
    with pytest.raises(IllusionError, match=r"task tydiqa_sample_en, item tydiqa/en/0000: the document differs"):
        build_report(runs)


def test_rounds_of_self_correction_differ_between_models_by_nature(runs):
    dense, pruned = (read_run(run).halves["revise1_gen"]["tydiqa/en/0001"] for run in runs)
    assert dense.prompt_hash != pruned.prompt_hash
    assert dense.doc_hash != pruned.doc_hash
    assert build_report(runs).file.comparisons[0].rows[0].joined == 6


DAMAGED = [
    ("shown", "control", None, "a valid shown record needs control"),
    ("oneshot", "control", 1.5, "oneshot.control"),
    ("beam4", "outputs", [], "needs outputs and control"),
    ("beam8", "right_first", {}, "needs right.standard and right_first.standard"),
    ("sample", "control_pass_at", {}, "must be of the same numbers of samples"),
    ("sample", "draws", None, "pass_at needs draws"),
    ("rank", "ranks", [None], "needs the rank of every gold token"),
    ("rank", "ranks", [0], "rank.ranks.0"),
    ("rank", "leave", 7, "leave 7 does not index 2 ranks"),
    ("rank_spans", "gold_rank", 12, "gold_rank 12 is no rank among 9 spans"),
    ("mc_graded", "distances", ["gold"], "1 distances for 2 choices"),
]


@pytest.mark.parametrize(("condition", "field", "value", "message"), DAMAGED)
def test_damaged_probe_records_are_refused(tmp_path, condition, field, value, message):
    run = write_run(tmp_path, [Question(0, gen=False, probes=everything(False))])
    edit(run, f"tydiqa_{condition}_en", lambda record: record["illusion"].__setitem__(field, value))
    with pytest.raises(IllusionError, match=rf"jsonl:1: damaged `illusion` record at {condition}.*{message}|{message}"):
        read_run(run)


def test_a_graded_item_may_have_lost_every_distance(tmp_path):
    alone = picks(True, ["Paris"], distances=["gold"])
    run = read_run(write_run(tmp_path, [Question(0, probes={"mc_graded": alone})]))
    assert run.halves["mc_graded"]["tydiqa/en/0000"].half.choices == ["Paris"]
