"""Two processes on CPU share the work and give what one process gives."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lm_eval_illusion.pairs.conditions import CONDITIONS
from tests.harness.test_fed_run import alike

PAIR = ("mc", "mc_far", "gen")
PROBED = tuple(name for name, told in CONDITIONS.items() if name not in PAIR and told.answers_from is None)
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]


def lm_eval(launcher: list[str], folder: str, out: Path, conditions: Sequence[str] = PAIR, limit: int = 5) -> str:
    words = [
        *launcher,
        "-m",
        "lm_eval",
        "--model",
        "pruned_hf",
        "--model_args",
        f"pretrained={folder},method=magnitude",
    ]
    words += ["--tasks", ",".join(f"illusion_mini_{name}_en" for name in conditions), "--limit", str(limit)]
    words += ["--num_fewshot", "1", "--log_samples", "--device", "cpu", "--output_path", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=os.sep, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def read(out: Path) -> tuple[dict, dict[str, dict]]:
    (results,) = out.rglob("results_*.json")
    items = {}
    for path in out.rglob("samples_*.jsonl"):
        for line in filter(None, path.read_text(encoding="utf-8").split("\n")):
            record = json.loads(line)["illusion"]
            items[record["condition"], record["item_id"]] = record
    return json.loads(results.read_text(encoding="utf-8")), items


def test_each_process_scores_its_half_and_the_items_are_the_same(tiny, tmp_path):
    one = lm_eval([sys.executable], tiny("llama"), tmp_path / "one")
    two = lm_eval([*TORCHRUN, sys.executable], tiny("llama"), tmp_path / "two")
    seen = {m[0]: int(m[1]) for m in re.findall(r"rank (\d of \d) scores (\d+) requests", one + two)}
    # Five items in two tasks with 8 requests each; rank 0 takes three of them, rank 1 two, padded to three by a clone.
    assert seen == {"0 of 1": 80, "0 of 2": 48, "1 of 2": 48} or seen == {"0 of 1": 80, "0 of 2": 48, "1 of 2": 32}
    results_one, items_one = read(tmp_path / "one")
    results_two, items_two = read(tmp_path / "two")
    assert (results_one["config"]["illusion"]["processes"], results_two["config"]["illusion"]["processes"]) == (1, 2)
    receipts = [r["config"]["illusion"]["receipt"]["weights_sha256"] for r in (results_one, results_two)]
    assert receipts[0] == receipts[1]
    assert len(items_one) == 15
    assert items_one.keys() == items_two.keys()
    for key, record in items_one.items():
        other = items_two[key]
        parted = [r.pop("parting", None) for r in (record, other)]
        assert parted[0] == (pytest.approx(parted[1], abs=1e-4) if parted[1] else None)
        for scores in ("logprobs", "logprobs_unconditional"):  # rounding follows the shape of a batch
            assert record.pop(scores, None) == pytest.approx(other.pop(scores, None), abs=1e-4)
        assert record == other


def test_two_processes_leave_the_records_of_every_probe_as_they_are(tiny, tmp_path):
    lm_eval([sys.executable], tiny("llama"), tmp_path / "one", PROBED, limit=3)
    lm_eval([*TORCHRUN, sys.executable], tiny("llama"), tmp_path / "two", PROBED, limit=3)
    (_, one), (_, two) = read(tmp_path / "one"), read(tmp_path / "two")
    assert {condition for condition, _ in one} == set(PROBED)
    assert one.keys() == two.keys()
    for key, record in one.items():
        assert alike(record, two[key]), key
