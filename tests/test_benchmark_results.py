"""What the benchmarks say of agreement, and which earlier results a series takes for its own."""

import argparse
import json
import math
import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest

from tests.benchmark_scripts import benchmark


@pytest.mark.parametrize("stock", [[-1.0, -2.0], [-1.0, math.nan], [math.nan, -2.0]])
@pytest.mark.parametrize("ours", [[-1.0, math.nan], [math.nan, -2.0]])
def test_nan_never_agrees(ours, stock):
    assert not benchmark("scoring").agreement(ours, stock, 2)[0]
    assert benchmark("scoring").agreement([-1.0, -2.0], [-1.0, -2.0005], 2)[0]


@pytest.fixture
def series(monkeypatch, tmp_path):
    """all.py on a script that writes its first word as its result, with packages and sources one may change."""
    every, made = benchmark("all"), benchmark("made_by")
    code = tmp_path / "script.py"
    monkeypatch.setattr(every, "command", lambda name, options, out: ["python3", str(code), options.word, str(out)])
    (tmp_path / "runs").mkdir()
    (tmp_path / "package").mkdir()
    monkeypatch.setattr(made, "folders", lambda: [tmp_path / "package"])
    versions = dict.fromkeys(made.PACKAGES, "1.0")
    monkeypatch.setattr(made, "version", versions.__getitem__)

    def run(word, exit_code, name="scoring", **options):
        writes = "import json, sys\njson.dump({'results': [sys.argv[1]]}, open(sys.argv[2], 'w'))\nprint('measured')\n"
        code.write_text(f"{writes}sys.exit({exit_code})\n")
        given = {"word": word, "llmcompressor": None, "heldout": None, **options}
        return every.run(name, argparse.Namespace(**given), tmp_path / "runs")

    return SimpleNamespace(run=run, every=every, versions=versions, code=code, folder=tmp_path)


def test_only_what_the_same_command_made_without_fault_is_kept(series):
    def run(*asked):
        found = series.run(*asked)
        return found["results"], found["code"]

    assert run("short", 1) == (["short"], 1)
    assert run("short", 0) == (["short"], 0)  # what disagreed is measured again
    assert run("short", 1) == (["short"], 0)  # what agreed is kept
    assert run("long", 0) == (["long"], 0)  # other options are another measurement
    series.code.write_text("raise SystemExit(3)")
    options = argparse.Namespace(word="short", llmcompressor=None, heldout=None)
    found = series.every.run("scoring", options, series.folder / "runs")
    assert found["code"] == 3
    assert "results" not in found  # nothing left over from before passes for its results


def test_what_other_versions_or_sources_made_is_measured_again(series):
    def kept():
        return series.run("short", 1)["code"] == 0  # it would fail if it ran

    series.run("short", 0)
    assert kept()
    series.versions["torch"] = "2.0"
    assert not kept()
    series.run("short", 0)
    (series.folder / "package" / "new.py").write_text("x = 1")
    assert not kept()
    series.run("short", 0)
    (series.folder / "package" / "new.py").write_text("x = 2")
    assert not kept()
    series.run("short", 0)
    (series.folder / "package" / "new.pyc").write_text("x = 3")
    assert kept()
    record = series.folder / "runs" / "scoring.run.json"
    older = json.loads(record.read_text())
    del older["made_by"]  # as they were written before
    record.write_text(json.dumps(older))
    assert not kept()


def test_llmcompressors_versions_and_the_heldout_script_count_where_they_are_used(series, monkeypatch):
    theirs = {"llmcompressor": "0.1"}
    monkeypatch.setattr(benchmark("made_by"), "rival_versions", lambda python: dict(theirs))
    heldout = series.folder / "heldout.py"
    heldout.write_text("rows = 1")

    def kept(name):
        return series.run("short", 1, name, llmcompressor="python", heldout=str(heldout))["code"] == 0

    for name in ("pruning", "scoring"):
        series.run("short", 0, name, llmcompressor="python", heldout=str(heldout))
        assert kept(name)
    theirs["llmcompressor"] = "0.2"
    assert kept("scoring")
    assert not kept("pruning")
    series.run("short", 0, "pruning", llmcompressor="python", heldout=str(heldout))
    heldout.write_text("rows = 2")
    assert kept("scoring")
    assert not kept("pruning")


def test_versions_of_another_environment_are_its_own():
    python = sys.executable
    made = benchmark("made_by")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "RIVAL_PACKAGES", ("torch", "pytest"))
        assert made.rival_versions(python) == {name: version(name) for name in ("torch", "pytest")}
        patch.setattr(made, "RIVAL_PACKAGES", ("no-such-package",))
        assert made.rival_versions(python) == {}


def test_each_section_of_the_page_has_the_date_machine_and_versions_of_its_own(series):
    first = series.run("short", 0, "startup")
    first |= {"date": "2001-02-03", "machine": {"cpu": "Old", "cpus": 1, "platform": "there", "python": "3.9"}}
    (series.folder / "runs" / "startup.run.json").write_text(json.dumps(first))
    kept = series.run("short", 1, "startup")
    series.versions["torch"] = "2.0"
    page = series.every.page({"startup": kept, "scoring": series.run("short", 0)}, None, short=True)
    opening, startup, scoring = page.split("\n## ")
    assert "2001-02-03, Old, 1 cores, there, Python 3.9; torch 1.0, transformers 1.0" in startup
    assert "torch 2.0" in scoring
    assert "2001" not in scoring + opening
    assert "torch" not in opening
    assert "results agree" in scoring
    assert "results agree" not in startup  # it compares none
