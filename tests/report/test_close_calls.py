"""Ties of greedy steps and the parting token, worked out by hand, from the files to the pages."""

import io
import json

import pytest
from rich.console import Console
from synthetic import STAMP, pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.records import read_run
from lm_eval_illusion.report.render.text import render_text


def parts(rank, margin, rival=0, token=0):
    return {"rival": rival, "token": token, "gold_rank": rank, "margin": margin}


@pytest.fixture
def report(tmp_path):
    """Dense b b b b r r g n, pruned b r r n r n g n (as in test_figures); near's gold is choice 0, far's choice 1."""
    dense, pruned = pattern("bbbbrrgn"), pattern("brrnrngn")
    for question, tied in zip(dense, (0, 0, 0, 1, 0, 0, 0, 0), strict=True):
        question.tied_steps = tied
    for question, tied in zip(pruned, (0, 2, 0, 0, 1, 0, 3, None), strict=True):
        question.tied_steps = tied
    for question, part in zip(pruned, ((1, 2.0), (3, 0.5), (7, -1.5), (9, -2.0), (5, 1.0)), strict=False):
        question.parting = parts(*part, rival=2)
    model = {"dtype": "bfloat16"}
    one = write_run(tmp_path / "a", dense, model=model)
    return build_report([one, write_run(tmp_path / "b", pruned, pruning=receipt(), model=model)])


def test_answers_with_a_tied_step(report):
    row = report.file.comparisons[0].rows[0]
    assert row.dense.tied.answers.model_dump() == {"tied": 1, "of": 8}
    assert row.pruned.tied.answers.model_dump() == {"tied": 3, "of": 7}  # the eighth does not tell
    # recognition-only in the pruned model: items 1, 2, 4; of these 1 and 4 have a tied step
    assert row.pruned.tied.recognition_only["near"].model_dump() == {"tied": 2, "of": 3}
    assert row.pruned.tied.recognition_only["far"].model_dump() == {"tied": 2, "of": 3}
    # G flipped on items 1, 2, 3: tied in the pruned answer of 1 and in the dense answer of 3
    assert row.contrast.tied_flips.model_dump() == {"tied": 2, "of": 3}


def test_medians_at_the_parting_token_by_quadrant(report):
    row = report.file.comparisons[0].rows[0]
    for figures in (row.pruned.near.parting, row.pruned.far.parting):
        assert figures["both"].model_dump() == {"items": 1, "median_rank": 1.0, "median_margin": 2.0}
        assert figures["recognition_only"].model_dump() == {"items": 3, "median_rank": 5.0, "median_margin": 0.5}
        assert figures["neither"].model_dump() == {"items": 1, "median_rank": 9.0, "median_margin": -2.0}
        assert figures["generation_only"].model_dump() == {"items": 0, "median_rank": None, "median_margin": None}
    assert row.dense.near.parting is None


def test_the_reader_is_told_that_rounding_may_have_chosen(report, tmp_path):
    said = [note.text for note in report.file.comparisons[0].notes if note.level == "warning"]
    assert (
        "3 of 7 answers of wanda 0.5 contain a greedy step where two tokens tie in bfloat16: rounding, not pruning, "
        "may have chosen. Among them: 2 of 3 recognition-only (near), 2 of 3 recognition-only (far), 2 of 3 flips of "
        "generation."
    ) in said
    assert any(text.startswith("1 of 8 answers of dense contain") for text in said)
    write_report(report, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| overall * | wanda 0.5 | 3 of 7 | 2 of 3 | 2 of 3 | 2 of 3 |" in text
    assert "| overall * | wanda 0.5 | near | 1.0, +2.00 (1) | 5.0, +0.50 (3) | – | 9.0, −2.00 (1) |" in text
    assert "| tydiqa en * | wanda 0.5 | far | 1.0, +2.00 (1) |" in text
    stream = io.StringIO()
    Console(file=stream, width=200).print(render_text(report))
    assert "parts from its strongest rival: median rank, median margin in nats (number of items)" in stream.getvalue()
    shown = stream.getvalue().split("Where the gold parts from its strongest rival")[1].split("report.md.")[0]
    assert "5.0, +0.50 (3)" in shown
    assert "tydiqa" not in shown


def test_items_file_carries_both(report, tmp_path):
    write_report(report, tmp_path / "out")
    items = [json.loads(line) for line in (tmp_path / "out" / "items.jsonl").read_text(encoding="utf-8").splitlines()]
    answers = items[1]["runs"]["wanda 0.5"]
    assert answers["near"]["parting"] == parts(3, 0.5, rival=2)
    assert answers["generation"]["tied_steps"] == 2
    assert items[7]["runs"]["wanda 0.5"]["generation"]["tied_steps"] is None
    assert items[0]["runs"]["dense"]["far"]["parting"] is None


def test_runs_that_tell_nothing_show_nothing(tmp_path):
    runs = [write_run(tmp_path / name, pattern("bbrn")) for name in ("a", "b")]
    row = build_report(runs).file.comparisons[0].rows[0]
    assert (row.dense.tied, row.contrast.tied_flips, row.dense.near.parting) == (None, None, None)
    write_report(build_report(runs), tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "tied greedy step" not in text
    assert "parts from" not in text


def test_one_run_that_tells_is_shown_alone(tmp_path):
    old, new = pattern("bbrn"), pattern("brrn", tied_steps=0, parting=parts(2, 0.25, rival=3))
    runs = [write_run(tmp_path / "a", old), write_run(tmp_path / "b", new, pruning=receipt())]
    row = build_report(runs).file.comparisons[0].rows[0]
    assert (row.dense.tied, row.contrast.tied_flips) == (None, None)
    assert row.pruned.tied.answers.model_dump() == {"tied": 0, "of": 4}
    assert not [n for n in build_report(runs).file.comparisons[0].notes if "two tokens tie" in n.text]
    write_report(build_report(runs), tmp_path / "out")
    assert "| overall * | wanda 0.5 | 0 of 4 | 0 of 2 | 0 of 2 | – |" in (tmp_path / "out" / "report.md").read_text()


def edit(run, task, change):
    path = run / "org__model" / f"samples_{task}_{STAMP}.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in records:
        change(record["illusion"])
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return run


def test_older_runs_lack_the_fields(tmp_path):
    run = edit(write_run(tmp_path, pattern("bb")), "tydiqa_gen_en", lambda metric: metric.pop("tied_steps"))
    edit(run, "tydiqa_mc_en", lambda metric: metric.pop("parting"))
    halves = read_run(run).halves
    assert halves["gen"]["tydiqa/en/0000"].half.tied_steps is None
    assert halves["mc"]["tydiqa/en/0000"].half.parting is None


def test_rank_and_margin_may_be_unknown(tmp_path):
    questions = pattern("bb", parting=parts(None, None, rival=3, token=2))
    run = write_run(tmp_path, questions)
    parting = read_run(run).halves["mc_far"]["tydiqa/en/0000"].half.parting
    assert (parting.rival, parting.token, parting.gold_rank, parting.margin) == (3, 2, None, None)
    assert build_report([run, run]).file.comparisons[0].rows[0].dense.far.parting is None


@pytest.mark.parametrize("wrong", [-1, "1", 1.5, True])
def test_wrong_tied_steps_are_refused(tmp_path, wrong):
    run = edit(write_run(tmp_path, pattern("bb")), "tydiqa_gen_en", lambda metric: metric.update(tied_steps=wrong))
    with pytest.raises(IllusionError, match=r"samples_tydiqa_gen_en_.*jsonl:1: damaged `illusion` record at gen.tied_"):
        read_run(run)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([1, 2], r"at mc\.parting"),
        ({"token": 0}, r"at mc\.parting\.rival: Field required"),
        ({"rival": 1, "token": -1}, r"at mc\.parting\.token"),
        ({"rival": 1, "token": 0, "gold_rank": 0}, r"at mc\.parting\.gold_rank"),
        ({"rival": 1, "token": 0, "gold_rank": "2"}, r"at mc\.parting\.gold_rank"),
        ({"rival": 1, "token": 0, "margin": "much"}, r"at mc\.parting\.margin"),
        ({"rival": 1, "token": 0, "margin": float("nan")}, r"at mc\.parting\.margin"),
        ({"rival": 0, "token": 0}, r"parting\.rival 0 must be another than the gold 0 of 4 choices"),
        ({"rival": 4, "token": 0}, r"parting\.rival 4 must be another than the gold 0 of 4 choices"),
    ],
)
def test_wrong_partings_are_refused(tmp_path, wrong, words):
    run = edit(write_run(tmp_path, pattern("bb")), "tydiqa_mc_en", lambda metric: metric.update(parting=wrong))
    with pytest.raises(IllusionError, match=words) as raised:
        read_run(run)
    assert "\n" not in str(raised.value)
