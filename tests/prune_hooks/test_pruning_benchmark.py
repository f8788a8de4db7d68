"""The pruning benchmark: its plain rival prunes as the package does, and disagreement is not let through."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from prune_hooks import PruneSpec, prune
from tests.benchmark_scripts import benchmark
from tests.families import build, save_tiny, token_rows

ROWS = token_rows(rows=4, length=16)


@pytest.fixture
def scripts() -> ModuleType:
    names = {"pruning": "pruning", "job": "pruning_job", "ours": "pruning_ours", "published": "pruning_published"}
    scripts = ModuleType("scripts")
    vars(scripts).update({short: benchmark(name) for short, name in names.items()})
    return scripts


@pytest.mark.parametrize("method", ["wanda", "sparsegpt"])
@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3"])
def test_the_published_protocol_gives_the_packages_masks(scripts: ModuleType, family: str, method: str) -> None:
    ours, theirs = build(family), build(family)
    prune(ours, None, PruneSpec(method=method, calibration=ROWS, sequential="block"), progress=False)
    with torch.no_grad():
        scripts.published.prune(theirs, ROWS, method, 0.5)
    zeros = [
        torch.cat([(layer.weight == 0).flatten() for layer in model.modules() if isinstance(layer, torch.nn.Linear)])
        for model in (ours, theirs)
    ]
    # Its SparseGPT removes one weight more than the share in every run of columns: the threshold itself goes too.
    assert (zeros[0] != zeros[1]).float().mean() < (0.0 if method == "wanda" else 0.005) + 1e-9


def _job(scripts: ModuleType, folder: Path, **changes: Any) -> Any:
    rows = folder / "rows.json"
    rows.write_text(json.dumps({"calibration": ROWS.tolist(), "heldout": {"a": ROWS[:2].tolist()}}))
    values = {"method": "wanda", "sparsity": 0.5, "pattern": "unstructured", "dtype": "float32"}
    checkpoint = str(save_tiny("llama", folder / "model"))
    return scripts.job.Job(checkpoint, rows=str(rows), masks=str(folder / "masks"), **values, **changes)


@pytest.fixture(autouse=True)
def gradients() -> Any:
    enabled = torch.is_grad_enabled()
    yield
    torch.set_grad_enabled(enabled)  # workers have a process of their own and switch them off


@pytest.mark.parametrize("side", ["ours", "published"])
def test_a_worker_prunes_first_and_judges_then(scripts: ModuleType, side: str, tmp_path: Path) -> None:
    run = scripts.job.in_two_calls(getattr(scripts, side).prepare, _job(scripts, tmp_path))
    run()
    judged = run()
    assert judged["zeros"] == 0.5
    assert judged["perplexity"]["a"] > 1
    assert len((tmp_path / "masks").read_bytes()) == 3 * (32 * 32 * 2 + 32 * 16 * 2 + 3 * 32 * 48)


def _side(scripts: ModuleType, folder: Path, name: str, cpu: float, perplexity: float, zeros: float, bits: int) -> Any:
    from turn import Turn

    masks = folder / f"{name}.masks"
    masks.write_bytes(bytes([1] * bits + [0] * (200 - bits)))
    judged = {"zeros": zeros, "perplexity": {"en": perplexity, "multi": perplexity}, "masks": masks}
    timed = not {"order", "reversed"} & set(name.split())
    return scripts.pruning.Side(name, [], timed=timed, turns=[Turn(cpu, cpu, 100, {})], judged=judged)


@pytest.mark.parametrize(
    ("perplexity", "zeros", "bits", "itself", "ordered", "agree"),
    [
        (50.4, 0.5, 100, 100, 50.0, True),
        (50.6, 0.5, 100, 100, 50.0, False),
        (50.0, 0.49, 100, 100, 50.0, False),
        (50.0, 0.5, 110, 100, 50.0, False),
        (50.0, 0.5, 112, 104, 50.0, True),  # 6 % beside 2 % of the published protocol's own
        (50.0, 0.5, 114, 104, 50.0, False),
        (50.0, 0.5, 100, 100, 50.6, False),
        (50.0, 0.5, 100, 100, 49.4, False),
    ],
)
def test_sides_that_do_not_agree_are_told(
    scripts: ModuleType,
    perplexity: float,
    zeros: float,
    bits: int,
    itself: int,
    ordered: float,
    agree: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sides = [
        _side(scripts, tmp_path, "ours", 50, perplexity, zeros, 100),
        _side(scripts, tmp_path, "ours, bfloat16 forward", 20, perplexity, zeros, 100),
        _side(scripts, tmp_path, "ours, published order", 80, ordered, 0.5, bits),
        _side(scripts, tmp_path, "the published protocol", 110, 50, 0.5, 100),
        _side(scripts, tmp_path, "the published protocol, rows reversed", 110, 50, 0.5, itself),
        _side(scripts, tmp_path, "llmcompressor", 100, 50, 0.5, 100),
    ]
    summaries, sound = scripts.pruning.compare("wanda", sides, 1.01)
    assert sound is agree
    assert [s["times_sooner"] for s in summaries[:4]] == [2.0, 2.2, 5.0, 5.5]
    assert (summaries[0]["bound"], summaries[0]["met"], summaries[0]["memory_met"]) == (0.55, True, True)
    assert "wanda: 2.00 times sooner than llmcompressor" in capsys.readouterr().out


def test_a_rival_left_out_is_said_with_the_way_to_get_it(
    scripts: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_ins = {"write_rows": lambda *_: "no rows", "compare": lambda *_: ([], True), "growth": lambda *_: []}
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(scripts.pruning, name, stand_in)
    monkeypatch.setattr(scripts.pruning.Side, "once", lambda *_: None)
    assert scripts.pruning.main(["--model", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "llmcompressor was left out" in said
    assert "make .bench-venv" in said
    with pytest.raises(SystemExit, match="cannot import it"):
        scripts.pruning.main(["--model", str(tmp_path), "--llmcompressor", sys.executable])
