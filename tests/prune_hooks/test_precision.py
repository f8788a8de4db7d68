"""The calibration forward in another dtype than the model's."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from prune_hooks import PruneError, PruneSpec, counting, prune
from prune_hooks.statistics import Statistics
from prune_hooks.targets import find_targets
from tests.families import FAMILIES, build, token_rows

ROWS = token_rows(rows=4, length=16)
NARROW = PruneSpec(calibration=ROWS, calibration_dtype="bfloat16")
WIDE = PruneSpec(calibration=ROWS, calibration_dtype="float32")


def _state(model: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _pruned(model: Any, spec: PruneSpec, **options: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    return prune(model, None, spec, progress=False, **options), _state(model)


def _same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    zeros = [(left[name] == 0) == (right[name] == 0) for name in left]
    return torch.cat([z.flatten() for z in zeros]).float().mean().item()


@pytest.mark.parametrize("method", ["wanda", "sparsegpt"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_bfloat16_forward_keeps_float32_weights_and_nearly_all_of_the_mask(family: str, method: str) -> None:
    before = _state(build(family))
    plain, exact = _pruned(build(family), replace(NARROW, method=method, calibration_dtype="model"))
    narrow, rough = _pruned(build(family), replace(NARROW, method=method))
    assert narrow.sparsity_masked == plain.sparsity_masked
    assert {tensor.dtype for tensor in rough.values()} == {torch.float32}
    assert _same(exact, rough) > 0.96
    assert plain.weights_sha256 != narrow.weights_sha256  # the forward did run otherwise
    assert (plain.calibration["forward_dtype"], narrow.calibration["forward_dtype"]) == ("float32", "bfloat16")
    if method == "wanda":
        assert all(torch.equal(rough[name][rough[name] != 0], before[name][rough[name] != 0]) for name in before)


@pytest.mark.parametrize("batch_rows", [4, 2])
def test_later_weights_see_the_pruned_ones_in_a_bfloat16_forward(
    batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("llama")
    seen: dict[str, Statistics] = {}

    class Noted(Statistics):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            seen[self.name] = self

    monkeypatch.setattr(counting, "Statistics", Noted)
    prune(model, None, replace(NARROW, sparsity=0.9), progress=False, batch_rows=batch_rows)
    taken: list[torch.Tensor] = []
    model.model.layers[2].mlp.down_proj.register_forward_pre_hook(lambda _, args: taken.append(args[0]))
    with torch.no_grad():
        model(ROWS, use_cache=False)
    expected = taken[0].reshape(-1, 48).square().mean(0)
    found = seen["model.layers.2.mlp.down_proj.weight"].mean_square()
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.02 * expected.mean().item())


@pytest.mark.parametrize("spec", [NARROW, WIDE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_statistics_are_float32(spec: PruneSpec, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: set[torch.dtype] = set()
    original = Statistics.mean_square

    def mean_square(self: Statistics) -> torch.Tensor:
        kinds.update(value.dtype for value in vars(self).values() if isinstance(value, torch.Tensor))
        found = original(self)
        kinds.add(found.dtype)
        return found

    monkeypatch.setattr(Statistics, "mean_square", mean_square)
    for method in ("wanda", "sparsegpt"):
        prune(build("gemma3", dtype=dtype), None, replace(spec, method=method), progress=False)
    assert kinds == {torch.float32}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_float32_forward_of_a_bfloat16_model_sees_what_the_model_will_hold(family: str) -> None:
    model = build(family, dtype=torch.bfloat16)
    places = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    narrow, exact = build(family, dtype=torch.bfloat16), build(family, dtype=torch.bfloat16).float()
    receipt, wide = _pruned(model, replace(WIDE, method="sparsegpt"))
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.bfloat16}
    assert places == {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    assert receipt.dtype == "bfloat16"
    assert receipt.calibration["forward_dtype"] == "float32"
    assert (
        receipt.weights_sha256
        != _pruned(narrow, replace(WIDE, method="sparsegpt", calibration_dtype="model"))[0].weights_sha256
    )
    reference = _pruned(exact, replace(WIDE, method="sparsegpt", calibration_dtype="model"))[1]
    assert _same(wide, reference) > 0.98
    # What is not pruned keeps its bits.
    own = {id(weight.parameter) for weight in find_targets(model).weights()}
    dense = build(family, dtype=torch.bfloat16)
    for (name, parameter), before in zip(model.named_parameters(), dense.parameters(), strict=True):
        assert id(parameter) in own or torch.equal(parameter, before), name


def test_asking_for_the_models_own_dtype_changes_nothing() -> None:
    for dtype, spec in ((torch.float32, WIDE), (torch.bfloat16, NARROW)):
        asked, plain = (
            prune(build("llama", dtype=dtype), None, s, progress=False)
            for s in (spec, replace(spec, calibration_dtype="model"))
        )
        assert asked.weights_sha256 == plain.weights_sha256
        assert asked.spec_digest != plain.spec_digest
        assert asked.calibration["forward_dtype"] == str(dtype).removeprefix("torch.")


def test_the_receipt_shows_the_forward() -> None:
    receipt = prune(build("llama"), None, NARROW, progress=False)
    assert re.search(r"4 x 16 tokens.*, forward in bfloat16", receipt.table())
    assert receipt.to_dict()["spec"]["calibration_dtype"] == "bfloat16"


@pytest.mark.parametrize("value", ["float16", "int8", "", None, torch.bfloat16])
def test_other_dtypes_are_refused(value: Any) -> None:
    with pytest.raises(PruneError, match=r"calibration_dtype is .*: expected model, bfloat16 or float32"):
        PruneSpec(calibration_dtype=value)
