"""The join: order plays no part, and nothing is dropped without being counted."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Question, metric, pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.classes import QUADRANTS, count_transitions, quadrant
from lm_eval_illusion.report.halves import parse_half
from lm_eval_illusion.report.join import join_runs
from lm_eval_illusion.report.records import read_run
from lm_eval_illusion.report.runs import HalfRecord, Run, RunFacts, TaskFacts

FACTS = RunFacts(**dict.fromkeys([field.name for field in dataclasses.fields(RunFacts)]))


def run_of(questions, order=None):
    """A run in memory, its halves in the given order."""
    halves = {}
    for condition in ("mc", "mc_far", "gen"):
        records = [HalfRecord("t", "d", "p", parse_half(metric(q, condition))) for q in questions]
        for index in order or range(len(records)):
            halves.setdefault(condition, {})[records[index].half.item_id] = records[index]
    return Run(Path("r"), Path("r/results_x.json"), FACTS, {"t": TaskFacts("t", "1", 0, None, len(questions))}, halves)


def test_quadrants():
    assert [quadrant(r, g) for r in (True, False) for g in (True, False)] == list(QUADRANTS)
    table = count_transitions([("both", "neither"), ("both", "neither"), ("neither", "both")])
    assert table["both"]["neither"] == 2
    assert sum(sum(row.values()) for row in table.values()) == 3


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_order_plays_no_part(one, two):
    dense, pruned = pattern("brgnbb"), pattern("rrnnbg")
    expected = join_runs(run_of(dense), run_of(pruned))
    assert join_runs(run_of(dense, one), run_of(pruned, two)) == expected


@given(st.sets(st.integers(0, 9), min_size=1), st.sets(st.integers(0, 9), min_size=1))
def test_every_item_is_joined_or_counted(here, there):
    first, other = run_of([Question(n) for n in here]), run_of([Question(n) for n in there])
    if not here & there:
        with pytest.raises(IllusionError, match="zero items joined"):
            join_runs(first, other)
        return
    joined = join_runs(first, other)
    reasons = [outside.reason for outside in joined.outside]
    assert len(joined.items) == len(here & there)
    assert reasons.count("unmatched_dense") == len(here - there)
    assert reasons.count("unmatched_pruned") == len(there - here)


def test_invalid_in_either_run_is_excluded():
    dense = [Question(0), Question(1, valid=False, invalid_reason="does_not_fit"), Question(2)]
    pruned = [Question(0), Question(1), Question(2, valid=False, invalid_reason="non_finite")]
    joined = join_runs(run_of(dense), run_of(pruned))
    assert [item.item_id for item in joined.items] == ["tydiqa/en/0000"]
    assert [outside.reason for outside in joined.outside] == ["does_not_fit", "non_finite"]


def test_an_item_that_lacks_a_half_is_unmatched(tmp_path):
    dense = read_run(write_run(tmp_path / "a", [Question(0), Question(1, far=None), Question(2)]))
    pruned = read_run(write_run(tmp_path / "b", [Question(0), Question(1, far=None), Question(2, gen=None)]))
    joined = join_runs(dense, pruned)
    assert [item.item_id for item in joined.items] == ["tydiqa/en/0000"]
    assert [outside.reason for outside in joined.outside] == ["unmatched_both", "unmatched_dense"]


def test_zero_joined_items(tmp_path):
    dense = read_run(write_run(tmp_path / "a", [Question(0), Question(1)]))
    pruned = read_run(write_run(tmp_path / "b", [Question(2), Question(3)], pruning=receipt()))
    with pytest.raises(IllusionError, match=r"zero items joined .*2 unmatched dense, 2 unmatched pruned.*--limit"):
        join_runs(dense, pruned)
