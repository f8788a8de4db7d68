"""The demo on the real model: Gemma 3 270M, dense and pruned by Wanda, on the shipped questions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lm_eval_illusion.harness import demo_model

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    env = {**os.environ, "COLUMNS": "200"}
    env.pop("OMP_NUM_THREADS", None)
    words = [sys.executable, "-m", "lm_eval_illusion.cli", "demo", "--items", "2", "--out", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return out, done


def results(folder: Path) -> dict:
    (path,) = folder.rglob("results_*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_demo_names_licences_and_prints_the_report(demo):
    _, done = demo
    for word in ("Gemma Terms of Use", "Apache 2.0", "CC BY-SA 4.0", "generation", "MC near", "MC far"):
        assert word in done.stdout


def test_demo_joins_two_questions_in_each_of_eight_languages(demo):
    out, _ = demo
    lines = (out / "report" / "items.jsonl").read_text(encoding="utf-8").split("\n")
    items = [json.loads(line) for line in lines if line]
    assert len(items) == 16
    assert len({item["language"] for item in items}) == 8


def test_demo_pruned_half_of_every_block_and_nothing_in_the_dense_run(demo):
    out, _ = demo
    receipt = results(out / "pruned")["config"]["illusion"]["receipt"]
    assert receipt["sparsity_masked"] == pytest.approx(0.5, abs=1e-3)
    assert receipt["coverage"] == 1.0
    assert results(out / "dense")["config"]["illusion"]["receipt"]["sparsity_masked"] == 0


def test_demo_model_is_the_pinned_one():
    folder = demo_model.checkpoint()
    manifest = json.loads((folder / demo_model.MANIFEST).read_text(encoding="utf-8"))
    assert manifest["gguf_sha256"] == demo_model.GGUF_SHA256
    assert demo_model.sha256_of(folder / "model.safetensors") == manifest["files"]["model.safetensors"]
