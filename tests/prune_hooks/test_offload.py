"""Offloaded models are pruned to the same bits as models in memory, and run with what was pruned."""

import gc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import cpu_offload, disk_offload, dispatch_model
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.batches import rows_at_once
from prune_hooks.offload import brought_in, find_slots
from prune_hooks.registry import Group
from prune_hooks.targets import find_targets
from tests.families import FAMILIES, build, save_tiny, token_rows

ROWS = token_rows(rows=4, length=16)
CPU = torch.device("cpu")
Offload = Callable[[PreTrainedModel, Path], PreTrainedModel]


def _to_memory(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    return cpu_offload(model, CPU)


def _to_memory_whole_blocks(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    blocks = {type(block.module).__name__ for block in find_targets(model).blocks}
    return cpu_offload(model, CPU, offload_buffers=True, preload_module_classes=sorted(blocks))


def _to_disk(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    return disk_offload(model, folder / "away", CPU)


def _some_to_disk(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    return dispatch_model(model, _device_map(model, {find_targets(model).blocks[1].name}), offload_dir=folder / "away")


def _device_map(model: PreTrainedModel, away: set[str]) -> dict[str, str]:
    """These modules on disk, the largest modules without any of them in memory."""
    found: dict[str, str] = {}
    for name, _ in model.named_modules():
        covered = any(name == taken or name.startswith(f"{taken}.") for taken in found)
        if name in away:
            found[name] = "disk"
        elif name and not covered and not any(other.startswith(f"{name}.") for other in away):
            found[name] = "cpu"
    return found


def _logits(model: PreTrainedModel) -> torch.Tensor:
    inputs: dict[str, Any] = {"input_ids": ROWS}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ROWS
    with torch.no_grad():
        return model(**inputs, use_cache=False).logits


def _values(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return {weight.name: weight.matrix().clone() for weight in find_targets(model).opened()}


def _comparable(receipt: Any) -> dict[str, Any]:
    return {key: value for key, value in receipt.to_dict().items() if key not in ("seconds", "peak_memory")}


def _assert_same(family: str, offload: Offload, folder: Path, spec: PruneSpec) -> None:
    inside, away = build(family), offload(build(family), folder)
    expected, receipt = (prune(m, None, spec, progress=False) for m in (inside, away))
    assert _comparable(receipt) == _comparable(expected)
    assert receipt.sparsity_masked == pytest.approx(0.5, abs=0.01)
    left, right = _values(inside), _values(away)
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert torch.equal(_logits(inside), _logits(away))
    targets = find_targets(away)
    assert targets.offloaded
    assert all(weight.parameter.is_meta == (weight.home is not None) for weight in targets.weights())


@pytest.mark.parametrize("method", ["wanda", "sparsegpt", "magnitude"])
@pytest.mark.parametrize("way", [_to_memory, _to_disk])
@pytest.mark.parametrize("family", FAMILIES)
def test_offloaded_models_are_pruned_to_the_same_bits(family: str, way: Offload, method: str, tmp_path: Path) -> None:
    _assert_same(family, way, tmp_path, PruneSpec(method=method, calibration=ROWS))


@pytest.mark.parametrize("way", [_to_memory_whole_blocks, _some_to_disk])
@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "qwen3_moe", "t5"])
def test_other_ways_of_offloading_do_as_well(family: str, way: Offload, tmp_path: Path) -> None:
    _assert_same(family, way, tmp_path, PruneSpec(calibration=ROWS))


@pytest.mark.parametrize("way", [_to_memory, _to_disk])
def test_orders_patterns_and_batches_hold_for_offloaded_models(way: Offload, tmp_path: Path) -> None:
    spec = PruneSpec(method="sparsegpt", pattern="2:4", sequential="block", calibration=ROWS)
    _assert_same("llama", way, tmp_path / "a", spec)
    inside, away = build("gemma3"), way(build("gemma3"), tmp_path / "b")
    spec = PruneSpec(calibration=ROWS, calibration_dtype="bfloat16")
    expected, receipt = (prune(m, None, spec, progress=False, batch_rows=2) for m in (inside, away))
    assert receipt.weights_sha256 == expected.weights_sha256


@pytest.mark.parametrize("family", ["llama", "mixtral", "t5"])
def test_a_checkpoint_loaded_with_a_device_map_is_pruned_and_its_files_stay(family: str, tmp_path: Path) -> None:
    folder = save_tiny(family, tmp_path / "model", dtype=torch.bfloat16)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    auto = AutoModelForSeq2SeqLM if family == "t5" else AutoModelForCausalLM
    device_map = _device_map(build(family), {block.name for block in find_targets(build(family)).blocks})
    options = {"dtype": torch.bfloat16, "device_map": device_map, "offload_folder": str(tmp_path / "away")}
    away, inside = auto.from_pretrained(folder, **options).eval(), auto.from_pretrained(folder, dtype=torch.bfloat16)
    spec = PruneSpec(method="sparsegpt", calibration=ROWS)
    receipt, expected = (prune(m, None, spec, progress=False) for m in (away, inside.eval()))
    assert receipt.weights_sha256 == expected.weights_sha256
    assert torch.equal(_logits(away), _logits(inside))
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    again = auto.from_pretrained(folder, **options)  # a second model in the same folder starts dense
    assert prune(again, None, PruneSpec(method="none")).sparsity_reached < 0.1


def test_pruning_again_starts_from_what_was_pruned(tmp_path: Path) -> None:
    model = _to_disk(build("llama"), tmp_path)
    for sparsity in (0.5, 0.75):
        receipt = prune(model, None, PruneSpec(sparsity=sparsity, calibration=ROWS), progress=False)
        assert receipt.sparsity_reached == pytest.approx(sparsity, abs=0.01)


def test_pruned_files_are_beside_the_offloaded_ones_and_vanish_with_the_model(tmp_path: Path) -> None:
    model = _to_disk(build("llama"), tmp_path)
    away = tmp_path / "away"
    before = {path.name: path.read_bytes() for path in away.iterdir()}
    prune(model, None, PruneSpec(method="magnitude"), progress=False)
    (own,) = (path for path in away.iterdir() if path.is_dir())
    assert len(list(own.iterdir())) == len(find_targets(model).weights())
    assert all(path.suffix == ".safetensors" for path in own.iterdir())
    del model
    gc.collect()
    assert before == {path.name: path.read_bytes() for path in away.iterdir()}


def test_one_block_is_in_memory_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _to_disk(build("llama"), tmp_path)
    targets = find_targets(model)
    crowds: list[set[str]] = []
    original = Group.choose

    def choose(self: Group, score: torch.Tensor, within: str) -> torch.Tensor:
        crowds.append({weight.name.split(".")[2] for weight in targets.weights() if not weight.parameter.is_meta})
        return original(self, score, within)

    monkeypatch.setattr(Group, "choose", choose)
    prune(model, None, PruneSpec(calibration=ROWS), progress=False)
    assert [min(crowd) for crowd in crowds] == sorted(min(crowd) for crowd in crowds)
    assert all(len(crowd) == 1 for crowd in crowds)
    assert set().union(*crowds) == {"0", "1", "2"}


def test_an_error_leaves_the_model_offloaded_and_its_files_dense(tmp_path: Path) -> None:
    model, dense = _to_disk(build("llama"), tmp_path), build("llama")
    layer = model.model.layers[0]

    def fail() -> None:
        with brought_in(layer, {(id(layer.mlp.up_proj), "weight")}):
            layer.mlp.up_proj.weight.data.zero_()
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert all(p.is_meta for p in model.parameters())
    assert all(slot.hook.offload for slot in find_slots(model).values())
    assert torch.equal(_logits(model), _logits(dense))


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    broken = build("llama")
    broken.model.layers[1].mlp.up_proj.weight.data[0, 0] = float("nan")
    model = _to_disk(broken, tmp_path)
    with pytest.raises(PruneError, match=r"layers\.1\.mlp\.up_proj\.weight holds NaN or infinite weights"):
        prune(model, None, PruneSpec(method="magnitude"))


def test_a_baseline_of_an_offloaded_model_is_that_of_one_in_memory(tmp_path: Path) -> None:
    inside = prune(build("gemma3"), None, PruneSpec(method="none"))
    for way in (_to_memory, _to_disk):
        away = prune(way(build("gemma3"), tmp_path), None, PruneSpec(method="none"))
        assert _comparable(away) == _comparable(inside)


def test_what_compares_the_whole_model_is_refused(tmp_path: Path) -> None:
    model = _to_memory(build("llama"), tmp_path)
    with pytest.raises(PruneError, match=r"'magnitude_global' compares the whole model.*offloaded.*method=magnitude"):
        prune(model, None, PruneSpec(method="magnitude_global"), progress=False)


def test_a_map_that_cannot_keep_a_new_value_is_refused(tmp_path: Path) -> None:
    folder = save_tiny("llama", tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder, device_map=_device_map(build("llama"), {"model.layers.0"}))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(PruneError, match=r"checkpoint's own files.*load the model with offload_folder=DIR"):
        prune(model, None, PruneSpec(method="magnitude"), progress=False)
    receipt = prune(model, None, PruneSpec(method="none"))
    assert receipt.unprunable is not None
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    other = _to_memory(build("llama"), tmp_path)
    for slot in find_slots(other).values():
        slot.hook.weights_map = _Foreign(slot.hook.weights_map)
    with pytest.raises(PruneError, match=r"weight is offloaded into a _Foreign: expected accelerate's own"):
        prune(other, None, PruneSpec(method="magnitude"), progress=False)


class _Foreign(Mapping[str, torch.Tensor]):
    """A map of another kind: no plain dict, no loader."""

    def __init__(self, inner: Mapping[str, torch.Tensor]) -> None:
        self.inner = inner

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.inner[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)


def test_activations_are_budgeted_by_what_stays_on_the_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Card:
        total_memory = 4 * 3 * 15_360

    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: Card)
    model = _to_disk(build("llama"), tmp_path)
    assert rows_at_once(model, find_targets(model), (3, 10), torch.device("cuda"), "block") == 3
