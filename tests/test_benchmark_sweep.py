"""The sweep benchmark: the strict bound decides, both are said, and sweep and separate runs take turns."""

import sys

import pytest

from tests.benchmark_scripts import benchmark
from tests.families import save_tiny


def turn(cpu, prune, evaluate, load, peak=100.0):
    phases = {"prune": prune, "evaluate": evaluate, "load": load}
    return benchmark("turn").Turn(2 * cpu, cpu, peak, phases)


def test_bounds_by_hand():
    bounds = benchmark("sweep_bounds")
    alone = {"dense": turn(14.0, 0.0, 4.0, 2.0), "wanda": turn(30.0, 10.0, 6.0, 3.0)}
    assert bounds.rest(alone["dense"]) == 10.0
    swept = turn(24.0, 11.0, 9.0, 2.0)
    strict = bounds.bound("strict", [swept], [alone])
    assert (strict["points_own_seconds"], strict["added_seconds"]) == (20.0, 2.0)
    assert strict["share"] == pytest.approx(24 / 22)  # above 1.05
    assert strict["share_inside"] == pytest.approx(24 / 22)
    assert not strict["met"]
    loose = bounds.bound("loose", [swept], [alone])
    assert (loose["added_seconds"], loose["share"], loose["met"]) == (10.0, pytest.approx(24 / 30), True)
    assert bounds.said_of(strict) == (
        "strict bound, its points' own pruning and evaluation plus one load (20.0 + 2.0 s): 1.091 of it "
        "(range 1.091 to 1.091; by its own, timed inside: 1.091), limit 1.05: not met"
    )
    assert "plus one whole start (20.0 + 10.0 s): 0.800 of it" in bounds.said_of(loose)
    assert bounds.said_of(loose).endswith("limit 1.05: met")


def test_the_median_turn_decides_and_the_range_is_told():
    bounds = benchmark("sweep_bounds")
    alone = {"dense": turn(14.0, 0.0, 8.0, 2.0)}
    swept = [turn(cpu, 0.0, 8.0, 2.0) for cpu in (10.0, 14.0, 9.0)]
    found = bounds.bound("strict", swept, [alone] * 3)
    assert (found["share"], found["range"], found["met"]) == (1.0, [0.9, 1.4], True)


@pytest.mark.parametrize("differs", [False, True])
def test_sweep_and_separate_runs_take_turns(monkeypatch, tmp_path, capsys, differs):
    sweep = benchmark("sweep")
    order = []

    def run(words, out):
        order.append("sweep" if words[0] == "sweep" else words[-1])
        return (
            turn(24.0, 11.0, 9.0, 2.0)
            if words[0] == "sweep"
            else turn(8.0, 0.0, 4.0, 1.0)
            if words[-1] == "dense"
            else turn(8.0, 3.5, 5.0, 1.0)
        )

    monkeypatch.setattr(sweep, "run", run)
    monkeypatch.setattr(sweep, "written", lambda folder: {"from": "swept" in str(folder)} if differs else {})
    model = str(save_tiny("llama", tmp_path / "model"))
    summary, equal = sweep.measure(sweep.SHORT, model, tmp_path, 3)
    points = order[1:4]
    assert points[0] == "dense"
    assert order == ["sweep", *points, *points, "sweep", "sweep", *points]
    assert (summary["turns"], len(summary["sweep_seconds"])) == (3, 3)
    assert summary["times_sooner"] == pytest.approx(1.0)
    assert [one["name"] for one in summary["bounds"]] == ["strict", "loose"]
    assert [one["met"] for one in summary["bounds"]] == [False, True]  # 24 s of 21 + 1 and of 21 + 4
    assert summary["met"] is False
    assert equal is not differs
    said = capsys.readouterr().out
    assert ("equal in every point" in said) is not differs
    assert ("differ in dense" in said) is differs


@pytest.mark.parametrize(("words", "turns"), [(["--short"], 1), ([], 3), (["--short", "--turns", "2"], 2)])
def test_the_full_form_takes_several_turns(monkeypatch, tmp_path, words, turns):
    sweep = benchmark("sweep")
    asked = []
    monkeypatch.setattr(sweep, "measure", lambda settings, model, scratch, turns: asked.append(turns) or ({}, True))
    monkeypatch.setattr(sys, "argv", ["sweep.py", "--model", str(tmp_path), *words])
    assert sweep.main() == 0
    assert asked == [turns]
