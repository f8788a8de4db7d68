import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from prune_hooks import PruneError, PruneSpec, method_names, prune
from prune_hooks.targets import find_targets
from tests.families import FAMILIES, build, tiny_tokenizer, token_rows

METHODS = ["random", "magnitude", "magnitude_global", "wanda", "sparsegpt"]
ROWS = token_rows()


def _state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_method_reaches_its_sparsity_on_every_family(family: str, method: str) -> None:
    model = build(family)
    before = _state(model)
    parameters = {weight.parameter.data_ptr() for weight in find_targets(model).weights()}
    receipt = prune(model, None, PruneSpec(method=method, calibration=ROWS), progress=False)
    assert receipt.sparsity_masked == pytest.approx(0.5, abs=0.001)
    assert receipt.sparsity_reached >= receipt.sparsity_masked
    assert receipt.coverage > 0.99
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in parameters:
            assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize("method", ["wanda", "sparsegpt"])
@pytest.mark.parametrize("family", FAMILIES)
def test_patterns_hold_along_the_input_dimension(family: str, method: str) -> None:
    model = build(family, dtype=torch.bfloat16, attn="eager")
    receipt = prune(model, None, PruneSpec(method=method, pattern="2:4", calibration=ROWS), progress=False)
    for weight in find_targets(model).weights():
        zeros = (weight.matrix() == 0).reshape(weight.matrix().shape[0], -1, 4).sum(-1)
        assert (zeros >= 2).all()
    assert receipt.sparsity_masked == 0.5
    assert receipt.dtype == "bfloat16"


@pytest.mark.parametrize("family", FAMILIES)
def test_sparsity_zero_and_method_none_leave_every_bit(family: str) -> None:
    for method in set(method_names()) - {"mask"}:  # whose sparsity is its file's
        model = build(family)
        before = _state(model)
        sparsity = 0.5 if method == "none" else 0.0
        receipt = prune(model, None, PruneSpec(method=method, sparsity=sparsity, calibration=ROWS), progress=False)
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
        assert (receipt.sparsity_asked, receipt.sparsity_masked, receipt.calibration) == (0.0, 0.0, None)


@pytest.mark.parametrize("method", ["wanda", "sparsegpt", "random"])
def test_the_same_command_gives_the_same_weights(method: str) -> None:
    spec = PruneSpec(method=method, calibration=ROWS)
    first, second = (prune(build("gemma3"), None, spec, progress=False) for _ in range(2))
    assert first.weights_sha256 == second.weights_sha256
    other = prune(build("gemma3"), None, PruneSpec(method=method, calibration=ROWS + 1, prune_seed=1), progress=False)
    assert other.weights_sha256 != first.weights_sha256


@pytest.mark.parametrize("family", FAMILIES)
def test_wanda_masks_do_not_depend_on_the_batch(family: str) -> None:
    for sequential in ("weight", "block"):
        spec = PruneSpec(calibration=ROWS, sequential=sequential)
        hashes = {prune(build(family), None, spec, progress=False, batch_rows=n).weights_sha256 for n in (None, 4)}
        assert len(hashes) == 1


def test_the_two_orders_differ() -> None:
    hashes = {
        prune(build("llama"), None, PruneSpec(calibration=ROWS, sequential=order), progress=False).weights_sha256
        for order in ("weight", "block")
    }
    assert len(hashes) == 2


def test_wanda_keeps_the_other_weights_to_the_bit() -> None:
    model = build("llama", dtype=torch.bfloat16)
    before = _state(model)
    prune(model, None, PruneSpec(calibration=ROWS), progress=False)
    for name, tensor in model.state_dict().items():
        kept = tensor != 0
        assert torch.equal(tensor[kept], before[name][kept])


def test_tied_embeddings_stay_dense() -> None:
    model = build("gemma3")
    prune(model, None, PruneSpec(method="magnitude_global", sparsity=0.9), progress=False)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert (model.lm_head.weight[1:] != 0).all()


def test_training_flags_gradients_and_precision_are_put_back() -> None:
    model = build("opt").train()
    model.model.decoder.layers[0].eval()
    torch.set_float32_matmul_precision("high")
    try:
        prune(model, None, PruneSpec(calibration=ROWS), progress=False)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert model.training
    assert model.model.decoder.layers[1].training
    assert not model.model.decoder.layers[0].training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_text_calibration_goes_through_the_tokenizer(tmp_path: Any) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The river Nile flows through eleven countries. " * 40, encoding="utf-8")
    spec = PruneSpec(calibration=str(text), calibration_samples=4, calibration_length=32)
    receipt = prune(build("llama"), tiny_tokenizer(), spec, progress=False)
    assert receipt.calibration is not None
    assert (receipt.calibration["rows"], receipt.calibration["length"]) == (4, 32)
    assert sum(receipt.calibration["tokens_per_language"].values()) > 0


def test_receipt_counts_by_hand() -> None:
    model = build("llama")
    with torch.no_grad():
        # Zeros of the checkpoint's own are not the mask's work; the smallest go first, so they lie in the mask.
        model.model.layers[0].mlp.up_proj.weight[:, :4] = 0
    receipt = prune(model, None, PruneSpec(method="magnitude", sparsity=0.25), progress=False)
    up = next(record for record in receipt.weights if record.name == "model.layers.0.mlp.up_proj.weight")
    assert up == type(up)(up.name, (48, 32), 48 * 4, 48 * 8, 48 * 8)
    size = sum(record.shape[0] * record.shape[1] for record in receipt.weights)
    assert receipt.sparsity_reached == receipt.sparsity_masked == 0.25
    zeros = sum(int((parameter == 0).sum()) for parameter in model.parameters())
    assert zeros == size // 4 + 32  # and the padding token's embedding
    assert receipt.whole_model_sparsity == zeros / sum(p.numel() for p in model.parameters())


def test_receipt_is_json_and_has_the_agreed_keys() -> None:
    receipt = prune(build("mixtral"), None, PruneSpec(method="sparsegpt", calibration=ROWS), progress=False)
    values = json.loads(json.dumps(receipt.to_dict()))
    assert set(values) == {
        "schema", "spec", "spec_digest", "sparsity_asked", "sparsity_reached", "sparsity_masked",
        "whole_model_sparsity", "coverage", "unreached", "weights", "calibration", "weights_sha256", "seconds",
        "peak_memory", "versions", "device", "dtype", "unprunable",
    }  # fmt: skip
    assert values["weights"][0] == {
        "name": "model.layers.0.self_attn.q_proj.weight",
        "shape": [32, 32],
        "zeros_before": 0,
        "zeros_after": 512,
        "masked": 512,
        "damping": 0.01,
    }
    assert set(values["seconds"]) == set(values["peak_memory"]) == {"check", "calibration", "prune", "receipt"}
    assert set(values["versions"]) == {"torch", "transformers", "prune_hooks"}
    assert values["calibration"]["batch_rows"] == 6
    assert len(values["weights_sha256"]) == 64


def test_starved_experts_are_listed_and_fall_back() -> None:
    model = build("mixtral")
    with torch.no_grad():
        # Experts 0 and 1 draw every token of this block: 2 and 3 see none.
        model.model.layers[1].mlp.gate.weight.zero_()
    receipt = prune(model, None, PruneSpec(calibration=ROWS), progress=False)
    starved = {record.name for record in receipt.weights if record.starved}
    experts = {name.split("[")[1][0] for name in starved}
    assert len(experts) == 2
    assert len(starved) == 6
    assert all(record.zeros_after == record.masked > 0 for record in receipt.weights if record.starved)
    assert "starved         6 matrices, first model.layers.1.mlp.experts" in receipt.table()


def test_table_says_what_was_done() -> None:
    table = prune(build("mixtral"), None, PruneSpec(calibration=ROWS), progress=False).table()
    assert "method          wanda, unstructured, uniform, weight" in table
    assert "sparsity        0.5000 of block weights (asked 0.5000, masked 0.5000)" in table
    assert "in 48 matrices, 3 left dense" in table
    assert "6 x 24 tokens" in table
    none = prune(build("llama"), None, PruneSpec(method="none"), progress=False).table()
    assert "calibration     none needed" in none


def test_raised_damping_is_in_the_table() -> None:
    receipt = prune(build("llama"), None, PruneSpec(method="sparsegpt", calibration=ROWS), progress=False)
    assert "damping raised" not in receipt.table()
    raised = replace(receipt, weights=tuple(replace(record, damping=0.1) for record in receipt.weights[:2]))
    assert "damping raised  2 matrices, first model.layers.0.self_attn.q_proj.weight (0.1)" in raised.table()


@pytest.mark.parametrize("method", ["magnitude", "wanda"])
def test_weights_that_are_not_finite_name_the_layer(method: str) -> None:
    model = build("llama")
    model.model.layers[1].mlp.up_proj.weight.data[0, 0] = float("nan")
    with pytest.raises(PruneError, match=r"layers\.1\.mlp\.up_proj\.weight holds NaN or infinite weights"):
        prune(model, None, PruneSpec(method=method, calibration=ROWS), progress=False)


@pytest.mark.parametrize("method", ["wanda", "sparsegpt"])
def test_activations_that_are_not_finite_name_the_layer(method: str) -> None:
    model = build("llama")
    model.model.layers[1].post_attention_layernorm.weight.data[0] = float("inf")
    with pytest.raises(PruneError, match=r"NaN or infinite activations reach model\.layers\.1\.mlp\.gate_proj\.weight"):
        prune(model, None, PruneSpec(method=method, calibration=ROWS), progress=False)


def test_what_cannot_be_done_is_refused_before_any_weight_is_touched() -> None:
    model = build("llama")
    before = _state(model)
    with pytest.raises(PruneError, match=r"has 32 input columns: an n:7 pattern needs a multiple of 7"):
        prune(model, None, PruneSpec(pattern="3:7", calibration=ROWS), progress=False)
    with pytest.raises(PruneError, match=r"rows hold token 9999: expected ids from 0 to 511"):
        prune(model, None, PruneSpec(calibration=[[1, 9999]]), progress=False)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    model.model.layers[2].mlp.up_proj.weight = nn.Parameter(torch.zeros(4, dtype=torch.uint8), requires_grad=False)
    with pytest.raises(PruneError, match=r"layers\.2\.mlp\.up_proj\.weight is packed \(torch\.uint8"):
        prune(model, None, PruneSpec(method="magnitude"), progress=False)
