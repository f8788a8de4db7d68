"""The example sweep as it is shipped, in miniature, through the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from lm_eval_illusion.harness.sweep.file import SweepFile
from tests import families

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_example_runs_and_reports(tmp_path):
    families.save_tiny("llama", tmp_path / "model")
    held = yaml.safe_load((ROOT / "docs" / "sweep.yaml").read_text(encoding="utf-8"))
    held |= {"models": [str(tmp_path / "model")], "tasks": ["illusion_mini_en"], "items": 2, "num_fewshot": 0}
    held |= {"calibration": "builtin", "calibration_samples": 2, "calibration_length": 16, "sparsities": [0.4, 0.6]}
    held |= {"methods": ["magnitude", "wanda"], "chat_template": False, "device": "cpu"}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(held), encoding="utf-8")
    words = [sys.executable, "-m", "lm_eval_illusion.cli", "sweep", str(tmp_path / "sweep.yaml")]
    words += ["--out", str(tmp_path / "out")]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    names = ["dense", *(f"{method}-{amount}" for method in ("magnitude", "wanda") for amount in ("0.4", "0.6", "2of4"))]
    held = json.loads((tmp_path / "out" / "sweep.json").read_text(encoding="utf-8"))
    assert [(point["name"], point["status"]) for point in held["points"]] == [(name, "finished") for name in names]
    made = json.loads((tmp_path / "out" / "report" / "report.json").read_text(encoding="utf-8"))
    assert len(made["runs"]) == 7
    assert (tmp_path / "out" / "report" / "curves.svg").is_file()
    assert "7 of 7 points finished" in done.stderr
    assert f"report: {tmp_path / 'out' / 'report' / 'report.md'}" in done.stdout.replace("\n", "")


def test_every_key_is_explained():
    text = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    assert [key for key in SweepFile.model_fields if f"`{key}`" not in text] == []
