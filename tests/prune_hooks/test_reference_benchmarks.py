"""The measuring scripts run as they are, on small models and the CPU."""

import json

import pytest
import torch

from tests.benchmark_scripts import benchmark
from tests.families import save_tiny

HELDOUT = """
import torch

def rows(tokenizer):
    ids = torch.arange(96).view(4, 24) % 90 + 3
    return ids, {"en": ids, "multi": ids[:2]}

def perplexity(model, ids):
    return float(len(ids))
"""


@pytest.fixture(scope="module")
def gpu():
    return benchmark("gpu_pruning")


def test_the_device_script_runs_on_the_cpu(gpu, tmp_path, capsys):
    out = tmp_path / "figures.json"
    assert gpu.main(["--device", "cpu", "--tiny", "--out", str(out)]) == 0
    figures = json.loads(out.read_text())
    assert all(check["passed"] for check in figures["checks"])
    assert len(figures["timings"]) == 3 * len(gpu.TIMED)
    assert figures["not_run"] == []
    assert "0 failed" in capsys.readouterr().out


def test_the_device_script_stops_starting_when_its_time_is_over(gpu, capsys):
    assert gpu.main(["--device", "cpu", "--tiny", "--seconds", "0"]) == 0
    assert capsys.readouterr().out.count("not run, 0 s were over") == 3 * len(gpu.TIMED)


def test_the_device_script_fails_when_masks_disagree(gpu, monkeypatch, capsys):
    honest = gpu.wanda_score
    calls = []

    def other_on_every_second_call(weight, squares):
        calls.append(None)
        return honest(weight, squares) * (-1 if len(calls) % 2 else 1)

    monkeypatch.setattr(gpu, "wanda_score", other_on_every_second_call)
    assert gpu.main(["--device", "cpu", "--tiny", "--seconds", "0"]) == 1
    assert "FAIL wanda 0.5, same statistics" in capsys.readouterr().out


def test_the_device_script_without_a_device(gpu, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 2
    assert "no CUDA device: expected one, or run with --device cpu --tiny" in capsys.readouterr().err


def test_transfers_between_host_and_device_are_counted(gpu):
    with gpu.Transfers() as transfers:
        torch.ones(3, 4).to("meta")
        torch.empty(5, device="meta").copy_(torch.ones(5))
        torch.ones(7).clone().to(torch.float64)
    assert (transfers.to_device, transfers.to_host) == (3 * 4 * 4 + 5 * 4, 0)
    transfers.note(torch.empty(2, device="meta"), torch.empty(2))
    assert transfers.to_host == 8


def test_memory_limit_by_hand(gpu):
    shape = gpu.llama(tiny=True)
    model = gpu.build(shape, torch.device("cpu"))
    parameters = sum(p.numel() * 2 for p in model.parameters())
    activations = 2 * (2 * 4 * 32 * 64 + 2 * 32 * (6 * 64 + 4 * 160))
    norms = 4 * (64 + 160)
    chunk, copies = 4 * 4 * 8_192 * 160, 6 * 4 * 64 * 160
    assert gpu.memory_limit(model, shape, 2, hessian=False) == parameters + activations + norms + chunk + copies
    hessians = 4 * 2 * (64**2 + 160**2) + 12 * 160**2
    assert gpu.memory_limit(model, shape, 2, hessian=True) == parameters + activations + hessians + chunk + copies


@pytest.fixture
def perplexity(tmp_path, monkeypatch):
    module = benchmark("perplexity")
    monkeypatch.setattr(module, "in_own_process", lambda argv, cell: module.measure(module.parse(argv), cell))
    (tmp_path / "heldout.py").write_text(HELDOUT)
    save_tiny("llama", tmp_path / "model")
    return module


def test_perplexity_prints_a_line_for_each_setting(perplexity, tmp_path, capsys):
    heldout = ["--heldout", str(tmp_path / "heldout.py")]
    options = ["--methods", "none,magnitude,wanda", "--patterns", "2:4", "--sequential", "block,weight"]
    assert perplexity.main([str(tmp_path / "model"), *heldout, *options]) == 0
    header, _, *lines = [[c.strip() for c in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    assert [(r["method"], r["sparsity"], r["pattern"], r["sequential"]) for r in rows] == [
        ("none", "0.0", "unstructured", "weight"),
        ("magnitude", "0.5", "unstructured", "block"),
        ("magnitude", "0.5", "2:4", "block"),
        ("wanda", "0.5", "unstructured", "block"),
        ("wanda", "0.5", "unstructured", "weight"),
        ("wanda", "0.5", "2:4", "block"),
        ("wanda", "0.5", "2:4", "weight"),
    ]
    assert [r["reached"] for r in rows] == ["0.0"] + ["0.5"] * 6
    assert {(r["ppl_en"], r["ppl_multi"]) for r in rows} == {("2.0", "1.0")}


def test_perplexity_without_its_rows(perplexity, tmp_path):
    with pytest.raises(SystemExit, match=r"is no Python file: give the path of heldout\.py"):
        perplexity.load_script(tmp_path / "absent.py")
