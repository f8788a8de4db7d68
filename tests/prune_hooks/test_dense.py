"""Method "none" and sparsity 0: a receipt for any model, prunable or not."""

import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.receipt import hash_model, whole_model_sparsity
from tests.families import build


def _packed() -> nn.Module:
    model = build("llama")
    packed = torch.arange(768, dtype=torch.uint8)[:, None]  # as bitsandbytes stores 4-bit weights
    model.model.layers[1].mlp.up_proj.weight = nn.Parameter(packed, requires_grad=False)
    return model


def _offloaded() -> nn.Module:
    model = build("llama")
    model.model.layers[2].to("meta")
    return model


def _without_blocks() -> nn.Module:
    return nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8))


@pytest.mark.parametrize(
    "spec", [PruneSpec(method="none"), PruneSpec(method="wanda", sparsity=0), PruneSpec(method="none", pattern="2:4")]
)
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_packed, "model.layers.1.mlp.up_proj.weight is packed (torch.uint8"),
        (_offloaded, "model.layers.2.self_attn.q_proj.weight is on the meta device"),
        (_without_blocks, "no prunable weights in Sequential"),
    ],
)
def test_a_baseline_need_not_be_prunable(make: Callable[[], nn.Module], reason: str, spec: PruneSpec) -> None:
    receipt = prune(make(), None, spec)
    assert receipt.unprunable is not None
    assert receipt.unprunable.startswith(reason)
    values = json.loads(json.dumps(receipt.to_dict()))
    assert values["weights"] == []
    assert (values["coverage"], values["sparsity_reached"], values["sparsity_masked"]) == (None, None, 0.0)
    assert len(values["weights_sha256"]) == 64
    table = receipt.table()
    assert f"unprunable      {reason}" in table
    assert "coverage        unknown of block weights in 0 matrices" in table
    with pytest.raises(PruneError) as refused:
        prune(make(), None, PruneSpec(method="magnitude"))
    assert str(refused.value) == receipt.unprunable


def test_weights_that_are_not_finite_are_named_beside_the_ordinary_fields() -> None:
    model = build("llama")
    model.model.layers[1].mlp.up_proj.weight.data[0, 0] = float("nan")
    receipt = prune(model, None, PruneSpec(method="none"))
    assert receipt.unprunable is not None
    assert receipt.unprunable.startswith("model.layers.1.mlp.up_proj.weight holds NaN or infinite weights")
    assert (receipt.coverage, receipt.sparsity_reached, len(receipt.weights)) == (1.0, 0.0, 21)


def test_an_ordinary_baseline_has_the_fields_of_a_pruned_model() -> None:
    model = build("llama")
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[:, :4] = 0
    receipt = prune(model, None, PruneSpec(method="none"))
    record = next(record for record in receipt.weights if record.name == "model.layers.0.mlp.up_proj.weight")
    assert (record.shape, record.zeros_before, record.zeros_after, record.masked) == ((48, 32), 192, 192, 0)
    size = sum(record.shape[0] * record.shape[1] for record in receipt.weights)
    assert receipt.sparsity_reached == 192 / size
    assert (receipt.unprunable, receipt.coverage) == (None, 1.0)
    pruned = prune(model, None, PruneSpec(method="magnitude"))
    assert pruned.unprunable is None
    assert [r.name for r in pruned.weights] == [r.name for r in receipt.weights]
    assert receipt.weights_sha256 == prune(build_zeroed(), None, PruneSpec(method="wanda", sparsity=0)).weights_sha256
    assert receipt.weights_sha256 != pruned.weights_sha256


def build_zeroed() -> nn.Module:
    model = build("llama")
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[:, :4] = 0
    return model


def test_the_hash_tells_unprunable_models_apart() -> None:
    # A request cache goes by this hash: 4-bit and 8-bit loads of one checkpoint must not share it.
    hashes = {hash_model(_packed())}
    assert hash_model(_packed()) in hashes
    other = _packed()
    other.model.layers[1].mlp.up_proj.weight.data[0] += 1
    quantised = _packed()
    quantised.config.quantization_config = {"load_in_4bit": True}
    hashes |= {hash_model(other), hash_model(quantised), hash_model(_offloaded()), hash_model(build("llama"))}
    assert len(hashes) == 5


def test_whole_model_sparsity_is_unknown_where_it_cannot_be_counted() -> None:
    layer = nn.Linear(4, 2)
    layer.weight.data = torch.tensor([[0.0, 1, 2, 0], [3, 4, 5, 6]])
    layer.bias.data = torch.tensor([0.0, 1])
    assert whole_model_sparsity(layer) == 0.3
    assert whole_model_sparsity(nn.Sequential(layer, nn.Linear(2, 2, device="meta"))) is None
    assert whole_model_sparsity(_packed()) is None
    assert whole_model_sparsity(nn.ReLU()) is None
