"""What is used again must be used where it holds, change no bit, and be passed by where it does not hold."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from prune_hooks import PruneSpec, calibration, prune, registry
from prune_hooks.registry import Group, Method, Outcome
from prune_hooks.restore import DenseWeights
from prune_hooks.reuse import Reuse
from prune_hooks.statistics import Needs, Statistics
from tests.families import build, tiny_tokenizer, token_rows

ROWS = token_rows()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Name of the first weight for every batch of inputs that is counted into a statistic."""
    names: list[str] = []
    update = Statistics.update

    def counting(self: Statistics, inputs: torch.Tensor) -> None:
        names.append(self.name)
        update(self, inputs)

    monkeypatch.setattr(Statistics, "update", counting)
    return names


@pytest.mark.parametrize("batch_rows", [6, 4])
@pytest.mark.parametrize("order", ["weight", "block"])
@pytest.mark.parametrize("method", ["wanda", "sparsegpt"])
@pytest.mark.parametrize("family", ["llama", "t5", "gpt2", "mixtral"])
def test_the_bits_are_those_of_a_fresh_model(family: str, method: str, order: str, batch_rows: int) -> None:
    model, reuse = build(family), Reuse()
    dense = DenseWeights(model)
    for amount in ({"sparsity": 0.5}, {"sparsity": 0.6}, {"pattern": "2:4"}):
        spec = PruneSpec(method=method, calibration=ROWS, sequential=order, **amount)
        dense.restore()
        again = prune(model, None, spec, progress=False, batch_rows=batch_rows, reuse=reuse)
        alone = prune(build(family), None, spec, progress=False, batch_rows=batch_rows)
        assert again.weights_sha256 == alone.weights_sha256
        assert again.calibration == alone.calibration
        assert [r.damping for r in again.weights] == [r.damping for r in alone.weights]


def test_the_first_weights_of_the_model_are_counted_once(counted: list[str]) -> None:
    model, reuse = build("llama"), Reuse()
    dense = DenseWeights(model)
    for sparsity in (0.4, 0.5):
        dense.restore()
        counted.clear()
        prune(model, None, PruneSpec(sparsity=sparsity, calibration=ROWS), progress=False, reuse=reuse)
        first = "model.layers.0.self_attn.q_proj.weight"
        assert counted.count(first) == (1 if sparsity == 0.4 else 0)
        assert sum(name.startswith("model.layers.0") for name in counted) == (4 if sparsity == 0.4 else 3)


def test_in_the_block_order_the_whole_first_block_is_counted_once(counted: list[str]) -> None:
    model, reuse = build("llama"), Reuse()
    dense = DenseWeights(model)
    for sparsity, expected in ((0.4, 4), (0.5, 0)):
        dense.restore()
        counted.clear()
        spec = PruneSpec(method="sparsegpt", sparsity=sparsity, calibration=ROWS, sequential="block")
        prune(model, None, spec, progress=False, reuse=reuse)
        assert sum(name.startswith("model.layers.0") for name in counted) == expected
        assert sum(name.startswith("model.layers.1") for name in counted) == 4


def test_the_factor_of_the_first_hessian_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    factorise = Statistics._factorise

    def counting(self: Statistics, *args: Any) -> Any:
        made.append(self.name)
        return factorise(self, *args)

    monkeypatch.setattr(Statistics, "_factorise", counting)
    model, reuse = build("llama"), Reuse()
    dense = DenseWeights(model)
    for sparsity in (0.4, 0.5):
        dense.restore()
        prune(model, None, PruneSpec("sparsegpt", sparsity, calibration=ROWS), progress=False, reuse=reuse)
    assert made.count("model.layers.0.self_attn.q_proj.weight") == 1
    assert made.count("model.layers.0.self_attn.o_proj.weight") == 2


def hessian_diagonal(group: Group) -> list[Outcome]:
    """Reads the Hessian itself, which SparseGPT's factorisation uses up."""
    assert group.statistics is not None
    scale = group.statistics.hessian().diagonal()
    for weight in group.weights:
        weight.matrix().masked_fill_(group.choose(weight.matrix().abs() * scale, within="matrix"), 0)
    return [Outcome(masked=0) for _ in group.weights]


BASE = PruneSpec(method="sparsegpt", calibration=ROWS)
OTHERS = {
    "calibration": replace(BASE, calibration=ROWS + 1),
    "length": replace(BASE, calibration=ROWS[:, :20]),
    "dtype of the forward": replace(BASE, calibration_dtype="bfloat16"),
    "order": replace(BASE, sequential="block"),
    "needs": replace(BASE, method="wanda"),
    "method": replace(BASE, method="hessian_diagonal"),
}


@pytest.mark.parametrize("what", sorted(OTHERS))
def test_another_is_never_served(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method = Method("hessian_diagonal", Needs.HESSIAN, hessian_diagonal)
    monkeypatch.setitem(registry._METHODS, method.name, method)
    model, reuse = build("llama"), Reuse()
    dense = DenseWeights(model)
    for spec in (BASE, OTHERS[what], BASE):
        dense.restore()
        got = prune(model, None, spec, progress=False, reuse=reuse)
        assert got.weights_sha256 == prune(build("llama"), None, spec, progress=False).weights_sha256


def test_a_model_of_another_dtype_or_other_weights_is_never_served() -> None:
    reuse = Reuse()
    for changes in ({}, {"dtype": torch.bfloat16}, {"seed": 3}, {"attn": "eager"}):
        for order in ("weight", "block"):
            spec = PruneSpec(method="sparsegpt", calibration=ROWS, sequential=order)
            got = prune(build("llama", **changes), None, spec, progress=False, reuse=reuse)
            assert got.weights_sha256 == prune(build("llama", **changes), None, spec, progress=False).weights_sha256


def test_calibration_is_read_once_for_each_seed_file_and_tokenizer(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"The river number {n} runs north past the town." for n in range(40)))
    calls: list[int] = []
    load = calibration.load_rows

    def counting(*args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs["seed"])
        return load(*args, **kwargs)

    monkeypatch.setattr(calibration, "load_rows", counting)
    model, reuse, tokenizer = build("llama"), Reuse(), tiny_tokenizer()
    dense = DenseWeights(model)

    def run(tokenizer: Any = tokenizer, **changes: Any) -> str:
        dense.restore()
        options: dict[str, Any] = {"calibration": str(text), "calibration_samples": 4, "calibration_length": 16}
        receipt = prune(model, tokenizer, PruneSpec(**(options | changes)), progress=False, reuse=reuse)
        assert receipt.calibration is not None
        return str(receipt.calibration["digest"])

    first = run(sparsity=0.4)
    assert run(sparsity=0.5) == run(method="sparsegpt") == first
    assert calls == [0]
    assert run(prune_seed=1) != first
    assert run(calibration_samples=3) != first
    run(tokenizer=tiny_tokenizer())
    text.write_text("Another text altogether. " * 60)
    assert run() != first
    assert calls == [0, 1, 0, 0, 0]
