"""Exit codes through the command line, what it prints and writes, and the examples for CI."""

import json
import re
import shlex
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from synthetic import pattern, receipt, write_run

from lm_eval_illusion import cli
from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.gate.metrics import METRICS
from lm_eval_illusion.report.gate.rule_file import read_rules

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in here; returns exit code, output and errors."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def inside(*words):
        monkeypatch.setattr(sys, "argv", ["lm-eval-illusion", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        told = capsys.readouterr()
        assert "Traceback" not in told.out + told.err
        return caught.value.code or 0, told.out, told.err

    return inside


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "dense", pattern("b" * 100))
    for turned in (1, 8, 20):
        write_run(tmp_path / f"turned{turned}", pattern("r" * turned + "b" * (100 - turned)), pruning=receipt())
    return tmp_path


@pytest.mark.parametrize(("turned", "code"), [(1, 0), (8, 2), (20, 1)])
@pytest.mark.parametrize("given", ["generation drop <= 0.10", "generation_drop>0.10"])
def test_exit_codes(run, runs, turned, code, given):
    found, out, _ = run("gate", "dense", f"turned{turned}", "--fail-if", given)
    assert found == code
    assert out.startswith({0: "PASS ", 1: "FAIL ", 2: "UNDECIDED "}[code])
    assert f"observed 0.{turned:02d}0 [" in out
    assert "limit 0.1, n 100" in out


def test_a_rules_file_may_wave_undecided_through(run, runs):
    rules = "rules: [generation drop <= 0.10]\n"
    for word, code in (("undecided", 2), ("pass", 0), ("fail", 1)):
        (runs / "gate.yaml").write_text(f"{rules}undecided: {word}\n")
        assert run("gate", "dense", "turned8", "--rules", "gate.yaml")[0] == code


def test_gap_names_both_distances(run, runs):
    code, out, _ = run("gate", "dense", "turned20", "--fail-if", "gap<=0.10")
    assert code == 1
    assert [line.split(": ")[1] for line in out.split("\n")[:2]] == [
        "gap near <= 0.1, certain [overall]",
        "gap far <= 0.1, certain [overall]",
    ]


def test_a_stored_report_and_a_noise_file(run, runs):
    write_report(build_report([runs / "dense", runs / "turned1"]), runs / "report")
    write_run(runs / "again", pattern("b" * 97 + "r" * 3), results={"date": 1796036400.0})
    assert run("gate", "report", "--fail-if", "generation drop <= 0.10")[0] == 0
    assert run("gate", "report", "turned20", "--fail-if", "generation drop <= 0.10")[0] == 1
    code, out, _ = run("noise", "dense", "again", "--out", "ci/noise.json")
    assert code == 0
    assert out == (
        "overall: answers that flipped on 100 items: 0 near, 0 far, 3 generation\n"
        "tydiqa/en: answers that flipped on 100 items: 0 near, 0 far, 3 generation\nnoise: ci/noise.json\n"
    )
    words = ("gate", "dense", "turned20", "--fail-if", "generation drop <= 0.10", "--noise", "ci/noise.json")
    assert run(*words)[0] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dense", "gone", "--fail-if", "gap <= 0.1"], "no run folder at gone"),
        (["dense", "turned1"], "no rule given"),
        (["dense", "turned1", "--fail-if", "gap"], "--fail-if: 'gap' is no rule"),
        (["dense", "turned1", "--rules", "gone.yaml"], "gone.yaml: cannot be read"),
        (["dense", "turned1", "--fail-if", "gap <= 0.1", "--noise", "gone.json"], "gone.json: no noise file"),
        (["dense", "--fail-if", "gap <= 0.1"], "dense: expected a report.json, or a dense run"),
        (["dense", "dense", "--fail-if", "nothing <= 0.1"], "unknown metric 'nothing'"),
    ],
)
def test_what_cannot_be_judged_is_2_and_still_published(run, runs, monkeypatch, words, said):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(runs / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, out, errors = run("gate", *words, "--junit", "out/gate.xml", "--gitlab", "out/gate.json")
    assert code == 2
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert said in errors
    assert out.startswith("::error title=lm-eval-illusion gate::could not judge: ")
    root = ET.parse(runs / "out" / "gate.xml").getroot()
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    assert said in next(root.iter("error")).get("message")
    assert len(json.loads((runs / "out" / "gate.json").read_text())) == 1
    assert "could not judge" in (runs / "summary.md").read_text(encoding="utf-8")


def test_pages_for_ci(run, runs, monkeypatch):
    (runs / "summary.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(runs / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, out, _ = run(
        *("gate", "dense", "turned1", "turned20", "--fail-if", "generation drop <= 0.10"),
        *("--junit", "gate.xml", "--gitlab", "gate.json"),
    )
    assert code == 1
    root = ET.parse(runs / "gate.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "0")
    assert [issue["severity"] for issue in json.loads((runs / "gate.json").read_text())] == ["critical"]
    summary = (runs / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("before\n### lm-eval-illusion gate")
    assert out.count("\n::error title=FAIL wanda 0.5") == 1


def test_files_that_cannot_be_written_are_2(run, runs, monkeypatch):
    words = ("gate", "dense", "turned1", "--fail-if", "generation drop <= 0.10")
    code, _, errors = run(*words, "--junit", "dense")
    assert (code, "cannot write dense" in errors) == (2, True)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(runs / "dense"))
    code, _, errors = run(*words)
    assert (code, "cannot write the step summary" in errors) == (2, True)


EXAMPLES = sorted((ROOT / "examples" / "ci").iterdir())
PAGE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")


def commands(text):
    """Every gate and noise command in a text, continuation lines joined."""
    found = re.findall(r"lm-eval-illusion ((?:gate|noise) [^`\n]*)", re.sub(r"\\\n\s*", " ", text))
    return [shlex.split(re.sub(r"\$\{\{.*?\}\}|\$[A-Z_]+", "x", line.split("  #")[0])) for line in found]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_parse(path):
    text = path.read_text(encoding="utf-8")
    if path.name == "gate.yaml":
        assert read_rules(path, []).rules
    elif path.suffix == ".yaml" or path.suffix == ".yml":
        assert isinstance(yaml.load(text, yaml.BaseLoader), dict)
    else:
        assert text.startswith("#!")
        assert path.stat().st_mode & 0o111


def test_every_command_of_examples_and_page_is_known():
    from typer.main import get_command

    known = get_command(cli.app).commands
    seen = [
        words for text in [PAGE, *(path.read_text(encoding="utf-8") for path in EXAMPLES)] for words in commands(text)
    ]
    assert len(seen) >= 6
    for words in seen:
        options = {name for parameter in known[words[0]].params for name in parameter.opts}
        asked = {word for word in words if word.startswith("--")}
        assert asked <= options, words


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_ten_line_job_is_one(tmp_path):
    (job,) = [block for block in blocks("yaml") if "runs-on" in block]
    assert len([line for line in job.split("\n") if line.strip()]) <= 10
    assert isinstance(yaml.load(job, yaml.BaseLoader), dict)


def test_rules_of_the_page_are_rules(tmp_path):
    files = [block for block in blocks("yaml") if block.lstrip().startswith(("rules:", "undecided:", "languages:"))]
    assert files
    for block in files:
        (tmp_path / "gate.yaml").write_text(block, encoding="utf-8")
        assert read_rules(tmp_path / "gate.yaml", []).rules


def test_the_page_names_every_metric():
    for name in METRICS:
        words, _, part = name.rpartition(" ")
        assert f"`{words if part in ('near', 'far', 'generation') else name}" in PAGE, name
