"""The command line from outside: bad input is one line and exit code 2, and a tiny model runs for real."""

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import families

ROOT = Path(__file__).resolve().parent.parent


def cli(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lm_eval_illusion.cli", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200", **env},
        check=False,
    )


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A tiny Llama through `check`: (out folder, arguments, first answer of the command)."""
    root = tmp_path_factory.mktemp("check")
    folder = families.save_tiny("llama", root / "model")
    words = ["check", "--pretrained", str(folder), "--method", "magnitude", "--sparsity", "0.5"]
    words += [
        "--tasks",
        "illusion_mini_en,illusion_mini_sw",
        "--items",
        "3",
        "--num_fewshot",
        "1",
        "--no-chat-template",
    ]
    words += ["--device", "cpu", "--out", str(root / "out")]
    return root / "out", words, cli(*words)


def test_check_runs_dense_and_pruned_and_reports(checked):
    out, _, done = checked
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"1 of 2: the pruned model, {out / 'pruned'}: running" in done.stderr
    assert f"2 of 2: the dense model, {out / 'dense'}: running" in done.stderr
    assert "Custom kwargs" not in done.stderr
    made = json.loads((out / "report" / "report.json").read_text(encoding="utf-8"))
    assert made
    assert (out / "report" / "report.md").read_text(encoding="utf-8").startswith("#")
    lines = (out / "report" / "items.jsonl").read_text(encoding="utf-8").split("\n")
    items = [json.loads(line) for line in lines if line]
    assert len(items) == 6
    for kind, sparsity in (("dense", None), ("pruned", 0.5)):
        (results,) = (out / kind).rglob("results_*.json")
        receipt = json.loads(results.read_text(encoding="utf-8"))["config"]["illusion"]["receipt"]
        if sparsity:
            assert receipt["sparsity_reached"] == pytest.approx(sparsity, abs=0.02)


def test_check_again_keeps_what_is_finished(checked):
    out, words, _ = checked
    before = {path: path.stat().st_mtime_ns for path in out.rglob("results_*.json")}
    again = cli(*words, "--html")
    assert again.returncode == 0, again.stderr[-3000:]
    assert again.stderr.count("kept, it is finished") == 2
    assert (out / "report" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("results_*.json")} == before


def test_model_args_are_read_as_lm_eval_reads_them():
    from lm_eval_illusion.model_words import key_values

    read = key_values("max_length=3000,trust_remote_code=False,dtype=float32,revision=main")
    assert read == {"max_length": 3000, "trust_remote_code": False, "dtype": "float32", "revision": "main"}


def test_check_touches_no_run_of_the_user(tmp_path, inside):
    folder = families.save_tiny("llama", tmp_path / "model")
    kept = tmp_path / "out" / "dense" / "m" / "samples_mine.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine")
    words = ["check", "--pretrained", str(folder), "--tasks", "illusion_mini_en", "--items", "2", "--device", "cpu"]
    code, errors = inside(*words, "--method", "random", "--no-chat-template", "--out", str(tmp_path / "out"))
    assert code == 2
    assert "dense: not empty and not written by this command" in errors.strip().splitlines()[-1]
    assert kept.read_text() == "mine"
    assert not (tmp_path / "out" / "pruned").exists()


def test_lm_eval_itself_ends_in_the_message(tmp_path):
    folder = families.save_tiny("llama", tmp_path / "model")
    words = [
        sys.executable,
        "-m",
        "lm_eval",
        "--model",
        "pruned_hf",
        "--tasks",
        "illusion_mini_mc_en",
        "--device",
        "cpu",
    ]
    for options, message in (("method=wandaa", "unknown method 'wandaa'"), ("sparsity=1.5", "sparsity")):
        done = subprocess.run(
            [*words, "--model_args", f"pretrained={folder},{options}"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert message in done.stderr.strip().splitlines()[-1]


def test_reports_that_cannot_be_judged_are_one_line(checked, tmp_path, inside):
    out, _, _ = checked
    for name in ("dense", "pruned"):
        shutil.copytree(out / name, tmp_path / name)
    (gone,) = (tmp_path / "pruned").rglob("samples_illusion_mini_gen_sw_*")
    gone.unlink()
    code, errors = inside("report", str(tmp_path / "dense"), str(tmp_path / "pruned"), "--out", str(tmp_path / "r"))
    assert code == 2
    assert "illusion_mini_gen_sw" in errors.strip().splitlines()[-1]
    code, errors = inside("report", str(tmp_path / "dense"), str(tmp_path / "nowhere"), "--out", str(tmp_path / "r"))
    assert code == 2
    assert "nowhere" in errors.strip().splitlines()[-1]
    assert not (tmp_path / "r").exists()


def test_check_does_not_mix_runs(checked):
    out, words, _ = checked
    other = [*words[:-1], str(out)]
    other[other.index("0.5")] = "0.6"
    refused = cli(*other)
    assert refused.returncode == 2
    assert (
        "pruned: holds a run with other model_args.sparsity; remove that folder"
        in refused.stderr.strip().splitlines()[-1]
    )


def test_two_runs_in_a_folder_are_refused(checked):
    out, _, _ = checked
    refused = cli("report", str(out), str(out / "pruned"), "--out", str(out / "no"))
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert not (out / "no").exists()


BAD = {
    "unknown method": (["--method", "wandaa"], "wandaa"),
    "sparsity": (["--sparsity", "1.5"], "1.5"),
    "pattern": (["--pattern", "3:2"], "3:2"),
    "width": (["--method", "magnitude", "--pattern", "2:5"], "needs a multiple of 5"),
    "calibration file": (["--calibration", "nowhere.txt"], "nowhere.txt"),
    "calibration length": (["--calibration_samples", "4000", "--calibration_length", "512"], "calibration"),
    "tasks": (["--tasks", "nonsense"], "nonsense"),
    "option": (["--model_args", "sparsitty=1"], "sparsitty"),
    "list": (["--model_args", "a,b"], "key=value"),
}


@pytest.fixture
def inside(monkeypatch, capsys):
    """Return a function that runs the command line in this process: (exit code, standard error)."""

    def call(*words: str) -> tuple[int, str]:
        import lm_eval.utils

        from lm_eval_illusion.cli import main

        # The harness configures its handler once, on the stderr of that moment, which pytest replaces for each test.
        monkeypatch.setattr(lm_eval.utils, "_LOGGING_CONFIGURED", False)
        monkeypatch.setattr(logging.getLogger("lm_eval"), "handlers", [])
        monkeypatch.setattr(sys, "argv", ["lm-eval-illusion", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return call


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_is_one_line_and_exit_code_2(case, tmp_path, inside):
    extra, named = BAD[case]
    folder = families.save_tiny("llama", tmp_path / "model")
    words = ["check", "--pretrained", str(folder), "--tasks", "illusion_mini_en", "--items", "2", "--device", "cpu"]
    words += ["--num_fewshot", "0", "--no-chat-template", "--out", str(tmp_path / "out")]
    code, errors = inside(*words, *extra)
    assert code == 2
    assert "Traceback" not in errors
    last = errors.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert named in last
    assert not list((tmp_path / "out").rglob("results_*"))


def test_missing_model_is_one_line(tmp_path, inside):
    code, errors = inside("check", "--pretrained", str(tmp_path / "none"), "--out", str(tmp_path / "out"))
    assert code == 2
    assert "Traceback" not in errors
    assert errors.strip().splitlines()[-1].endswith("none: no such folder; expected a model's folder or hub name")
    code, errors = inside("check", "--pretrained", "nobody/nothing", "--out", str(tmp_path / "out"))
    assert code == 2
    assert "no tokenizer could be loaded" in errors.strip().splitlines()[-1]


def test_run_passes_through_and_works_without_the_hook(tmp_path):
    folder = families.save_tiny("gpt2", tmp_path / "model")
    words = ["run", "--model", "pruned_hf", "--model_args", f"pretrained={folder},method=random", "--device", "cpu"]
    words += [
        "--tasks",
        "illusion_mini_mc_en,illusion_mini_gen_en",
        "--limit",
        "2",
        "--output_path",
        str(tmp_path / "out"),
    ]
    done = cli(*words, LM_EVAL_ILLUSION_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list((tmp_path / "out").rglob("samples_*.jsonl"))) == 2


def test_harness_errors_are_one_line_too(tmp_path, inside):
    code, errors = inside("run", "--model", "dummy", "--tasks", "no_such_task", "--output_path", str(tmp_path))
    assert code == 2
    assert errors.strip().splitlines()[-1] == "error: ValueError: Tasks not found: no_such_task"
    assert "Traceback" not in errors


def test_doctor_names_what_there_is():
    done = cli("doctor")
    assert done.returncode == 0, done.stdout
    for word in ("autoload hook", "active", "tydiqa", "CC BY-SA", "Apache 2.0", "Gemma Terms", "device", "lm_eval"):
        assert word in done.stdout


def test_doctor_fails_where_data_is_missing(tmp_path):
    done = cli("doctor", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "tydiqa-goldp-dev-arabic.json" in done.stdout


def test_version_and_help_answer_quickly_without_torch():
    code = """
import sys
sys.argv = ["x", "--help"]
from lm_eval_illusion.cli import main
try:
    main()
except SystemExit:
    print("torch" in sys.modules)
"""
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert seen.stdout.strip().endswith("False")
