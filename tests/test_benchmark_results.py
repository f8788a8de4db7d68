"""What the benchmarks say of agreement, and which earlier results a series takes for its own."""

import argparse
import math

import pytest

from tests.benchmark_scripts import benchmark


@pytest.mark.parametrize("stock", [[-1.0, -2.0], [-1.0, math.nan], [math.nan, -2.0]])
@pytest.mark.parametrize("ours", [[-1.0, math.nan], [math.nan, -2.0]])
def test_nan_never_agrees(ours, stock):
    assert not benchmark("scoring").agreement(ours, stock, 2)[0]
    assert benchmark("scoring").agreement([-1.0, -2.0], [-1.0, -2.0005], 2)[0]


def test_only_what_the_same_command_made_without_fault_is_kept(monkeypatch, tmp_path):
    every = benchmark("all")
    code = tmp_path / "script.py"
    monkeypatch.setattr(every, "command", lambda name, options, out: ["python3", str(code), options.word, str(out)])
    runs = tmp_path / "runs"
    runs.mkdir()

    def run(word, exit_code):
        writes = "import json, sys\njson.dump({'results': [sys.argv[1]]}, open(sys.argv[2], 'w'))\n"
        code.write_text(f"{writes}sys.exit({exit_code})\n")
        found = every.run("scoring", argparse.Namespace(word=word), runs)
        return found["results"], found["code"]

    assert run("short", 1) == (["short"], 1)
    assert run("short", 0) == (["short"], 0)  # what disagreed is measured again
    assert run("short", 1) == (["short"], 0)  # what agreed is kept
    assert run("long", 0) == (["long"], 0)  # other options are another measurement
    code.write_text("raise SystemExit(3)")
    found = every.run("scoring", argparse.Namespace(word="short"), runs)
    assert found["code"] == 3
    assert "results" not in found  # nothing left over from before passes for its results
