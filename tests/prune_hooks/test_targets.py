from typing import Any

import pytest
import torch
from torch import nn

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.targets import Targets, find_targets
from tests.families import PRUNED, build

# matrices a model must offer: blocks x logical matrices a block
EXPECTED = {
    "llama": 3 * 7,
    "qwen3": 3 * 7,
    "qwen3_hybrid": 4 * 7,
    "gemma3": 3 * 7,
    "mistral": 3 * 7,
    "phi3": 3 * 7,  # q, k, v, o, gate, up, down of two fused Linear layers and two plain ones
    "gpt2": 3 * 6,  # q, k, v, c_proj, c_fc, c_proj
    "opt": 3 * 6,
    "mixtral": 3 * (4 + 4 * 3),  # attention, and gate, up, down of four experts
    "qwen3_moe": 7 + 2 * (4 + 4 * 3),  # the first block is dense
    "t5": 3 * (4 + 3) + 3 * (4 + 4 + 3),  # encoder; decoder with cross-attention
    "mt5": 3 * (4 + 3) + 3 * (4 + 4 + 3),
    "gpt_neox": 3 * 4,  # query_key_value, dense, and two of the MLP
    "falcon": 3 * 4,
    "bloom": 3 * 4,
    # Linear attention has two projections in and one out; the last block four experts and a shared one.
    "qwen3_next": 2 * 3 + 4 + 2 * 3 + 5 * 3,
}


@pytest.mark.parametrize("family", PRUNED)
def test_every_matrix_in_the_blocks_is_reached_once(family: str) -> None:
    model = PRUNED[family]()
    targets = find_targets(model)
    weights = targets.weights()
    assert len(weights) == EXPECTED[family]
    assert len({weight.name for weight in weights}) == len(weights)
    # Views of disjoint elements: marking all of them marks each element of the blocks' matrices exactly once.
    for parameter in model.parameters():
        parameter.data.zero_()
    for weight in weights:
        matrix = weight.matrix()
        matrix += 1
    marked = sum(int(parameter.sum()) for parameter in model.parameters())
    assert marked == sum(weight.matrix().numel() for weight in weights)
    assert all(parameter.max() <= 1 for parameter in model.parameters())


@pytest.mark.parametrize("family", PRUNED)
def test_embeddings_norms_and_head_are_never_targets(family: str) -> None:
    model = PRUNED[family]()
    parameters = {id(weight.parameter) for weight in find_targets(model).weights()}
    outside: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    outside += [module for module in model.modules() if isinstance(module, nn.Embedding) or "Norm" in str(type(module))]
    assert not parameters & {id(p) for module in outside for p in module.parameters()}


@pytest.mark.parametrize("family", PRUNED)
def test_coverage_is_whole_but_for_routers_and_filters(family: str) -> None:
    targets = find_targets(PRUNED[family]())
    targets.require_reached()
    dense = ("mlp.gate.weight", "mlp.shared_expert_gate.weight", "linear_attn.conv1d.weight")
    assert all(name.endswith(dense) for name in targets.unreached)
    assert (targets.coverage < 1) == (family in ("mixtral", "qwen3_moe", "qwen3_next"))
    assert targets.coverage > 0.98


def test_conv1d_is_read_as_output_by_input_and_split_in_thirds() -> None:
    model = build("gpt2")
    query, key = find_targets(model).weights()[:2]
    stored = model.transformer.h[0].attn.c_attn.weight  # (in, 3 x out)
    assert query.name == "transformer.h.0.attn.c_attn.weight[q]"
    assert torch.equal(query.matrix(), stored.T[:32])
    assert torch.equal(key.matrix(), stored.T[32:64])


def test_phi3_parts_have_their_own_sizes() -> None:
    shapes = [tuple(weight.matrix().shape) for weight in find_targets(build("phi3")).weights()[:7]]
    assert sorted(shapes) == sorted([(32, 32), (16, 32), (16, 32), (32, 32), (48, 32), (48, 32), (32, 48)])


def test_experts_are_one_matrix_an_expert_and_part() -> None:
    model = build("mixtral")
    weights = {weight.name: weight for weight in find_targets(model).weights()}
    experts = model.model.layers[1].mlp.experts
    up = weights["model.layers.1.mlp.experts.gate_up_proj[2][up]"].matrix()
    assert torch.equal(up, experts.gate_up_proj[2, 48:])
    assert torch.equal(weights["model.layers.1.mlp.experts.down_proj[3]"].matrix(), experts.down_proj[3])


def test_a_layer_of_unknown_kind_lowers_the_coverage() -> None:
    model = build("llama")
    model.model.layers[0].extra = nn.Conv1d(4, 8, 3)
    targets = find_targets(model)
    assert targets.unreached == {"model.layers.0.extra.weight": 96}
    reached = sum(weight.matrix().numel() for weight in targets.weights())
    assert targets.coverage == reached / (reached + 96)
    message = (
        r"^model\.layers\.0\.extra\.weight \(1 parameters\) are in layers of a kind that is not known: expected Linear"
    )
    with pytest.raises(PruneError, match=message):
        prune(model, None, PruneSpec(method="magnitude"))
    assert int((model.model.layers[1].mlp.up_proj.weight == 0).sum()) == 0


def test_filters_that_keep_channels_apart_stay_dense() -> None:
    model = build("llama")
    model.model.layers[0].mixer = nn.Conv1d(8, 8, 3, groups=8)
    model.model.layers[0].mixer.A_log = nn.Parameter(torch.zeros(8, 4))
    targets = find_targets(model)
    targets.require_reached()
    assert targets.unreached == {"model.layers.0.mixer.weight": 24, "model.layers.0.mixer.A_log": 32}


def test_blocks_of_an_image_tower_are_left_alone() -> None:
    model = build("llama")
    model.vision_tower = nn.Module()
    model.vision_tower.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))])
    assert len(find_targets(model).weights()) == EXPECTED["llama"]


def test_a_block_used_twice_is_pruned_once() -> None:
    model = build("llama")
    model.model.layers[2] = model.model.layers[0]
    assert len(find_targets(model).weights()) == 2 * 7


def test_packed_weights_are_refused_by_name() -> None:
    model = build("llama")
    up = model.model.layers[1].mlp.up_proj
    up.weight = nn.Parameter(torch.zeros(48, 16, dtype=torch.uint8), requires_grad=False)
    with pytest.raises(PruneError, match=r"layers\.1\.mlp\.up_proj\.weight is packed \(torch.uint8 .*dequantize=True"):
        find_targets(model)


def test_float8_and_packed_buffers_are_refused() -> None:
    model = build("llama")
    model.model.layers[0].mlp.up_proj.to(torch.float8_e4m3fn)
    with pytest.raises(PruneError, match=r"layers\.0\.mlp\.up_proj\.weight is packed \(torch.float8_e4m3fn"):
        find_targets(model)
    model = build("llama")
    model.model.layers[0].mlp.register_buffer("qweight", torch.zeros(4, 4, dtype=torch.int32))
    with pytest.raises(PruneError, match=r"layers\.0\.mlp\.qweight is packed \(torch.int32"):
        find_targets(model)


def test_meta_weights_are_refused_by_name() -> None:
    model = build("llama")
    model.model.layers[2].self_attn.to("meta")
    with pytest.raises(
        PruneError, match=r"layers\.2\.self_attn.*is on the meta device .*load the model with from_pretrained"
    ):
        find_targets(model)


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(
        PruneError, match=r"no prunable weights in Linear: expected a list of decoder or encoder blocks"
    ):
        find_targets(nn.Linear(4, 4))


def test_width_not_divisible_by_m_names_the_weight() -> None:
    targets: Targets = find_targets(build("llama"))
    targets.require_divisible(16)
    with pytest.raises(PruneError, match=r"q_proj\.weight has 32 input columns: an n:7 pattern needs a multiple of 7"):
        targets.require_divisible(7)
