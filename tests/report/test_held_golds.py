"""Wrong answers that hold the gold: found in new and old records, beside what a copier holds."""

import pytest
from synthetic import pattern, receipt, write_run

from lm_eval_illusion.report import build_report
from lm_eval_illusion.report.columns import columns_of
from lm_eval_illusion.report.held_golds import held_golds, held_note
from lm_eval_illusion.report.join import join_runs
from lm_eval_illusion.report.merge import read_merged

LONG = "it stands on the river and has long been known by many as Paris of old"


def halves(tmp_path, answers, bits=None):
    questions = pattern(bits or "r" * len(answers))
    for question, answer in zip(questions, answers, strict=True):
        question.answer = answer
    run = read_merged(write_run(tmp_path / f"{len(answers)}", questions))
    return [item.pruned for item in join_runs(run, run).items], join_runs(run, run)


def test_counted_by_hand(tmp_path):
    # Options are Paris (gold), Rome, Oslo, Bonn: the third answer holds two of three wrong ones, the fourth none.
    answers = [LONG, "Paris", "Rome and Oslo, nobody knows which, or why this line goes on and on", "nothing of use"]
    sides, _ = halves(tmp_path, answers, "rbrr")
    assert held_golds(sides) == (3, 1, pytest.approx(2 / 3))


def test_a_copier_of_the_passage_is_no_warning(tmp_path):
    sides, _ = halves(tmp_path, ["Of Paris, Rome, Oslo, Bonn and of more than that it says nothing at all here"] * 4)
    assert held_golds(sides) == (4, 4, pytest.approx(4.0))
    note = held_note(sides, "wanda 0.5")
    assert note.level == "info"
    assert "Of 4 wrong answers of wanda 0.5 4 hold the gold somewhere, where 4.0 hold a wrong option" in note.text


def test_golds_that_stand_alone_are_a_warning(tmp_path):
    sides, _ = halves(tmp_path, [LONG, "nothing", "", "of use"])
    assert held_note(sides, "x").level == "warning"
    assert held_note(halves(tmp_path, ["Rome"] * 3)[0], "x") is None


def test_older_records_are_read_by_their_answers(tmp_path):
    sides, joined = halves(tmp_path, [LONG, "Rome", "Paris"], "rrb")
    assert [side.generation.right["anywhere"] for side in sides] == [True, False, True]
    assert [side.generation.flags["gold_inside"] for side in sides] == [True, False, False]
    assert columns_of(joined.items).pruned.flags["gold_inside"].tolist() == [1, 0, 0]


def test_the_report_shows_them(tmp_path):
    dense, pruned = pattern("b" * 32), pattern("r" * 32)
    for question in pruned:
        question.answer = LONG if question.number % 2 else "Rome"
    runs = [write_run(tmp_path / "a", dense), write_run(tmp_path / "b", pruned, pruning=receipt())]
    comparison = build_report(runs).file.comparisons[0]
    row = comparison.rows[0]
    assert row.pruned.failures.gold_inside == 0.5
    assert row.pruned.near.sensitivity["chars"] == {
        **dict.fromkeys(("standard", "exact", "f1", "contained"), 1.0),
        "anywhere": 0.5,
    }
    assert any("16 hold the gold somewhere" in note.text for note in comparison.notes)
    assert (comparison.turned_items, len(comparison.examples)) == (32, 6)
