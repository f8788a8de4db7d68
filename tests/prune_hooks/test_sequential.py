import threading
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, GptOssConfig

from prune_hooks import PruneError
from prune_hooks.batches import make_batches
from prune_hooks.sequential import prune_block
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.targets import find_targets
from prune_hooks.walk import Step, walk
from prune_hooks.weights import Weight
from tests.families import FAMILIES, build, token_rows

MEETINGS = list[tuple[tuple[str, ...], Statistics]]


def _visit(model: Any, sequential: str, batch_rows: int, change: bool = True) -> MEETINGS:
    """Halves every weight in the order it is handed over; returns the groups met and their statistics."""
    met: MEETINGS = []

    def prune(group: tuple[Weight, ...], statistics: Statistics) -> None:
        met.append((tuple(weight.name for weight in group), statistics))
        for weight in group:
            if change:
                weight.matrix().mul_(0.5)

    with torch.no_grad():
        for step in walk(model, find_targets(model), make_batches(model, token_rows(rows=6, length=12), batch_rows)):
            prune_block(step, Needs.NORMS, sequential, prune)
    return met


def _names(met: MEETINGS) -> list[str]:
    return [name for names, _ in met for name in names]


@pytest.mark.parametrize("batch_rows", [6, 2])
@pytest.mark.parametrize("sequential", ["weight", "block"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_weight_is_handed_over_once(family: str, sequential: str, batch_rows: int) -> None:
    model = build(family)
    expected = sorted(weight.name for weight in find_targets(model).weights())
    assert sorted(_names(_visit(model, sequential, batch_rows))) == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_several_batches_see_what_one_batch_sees(family: str) -> None:
    for sequential in ("weight", "block"):
        one = {names: s for names, s in _visit(build(family), sequential, 6)}
        many = {names: s for names, s in _visit(build(family), sequential, 4)}
        assert one.keys() == many.keys()
        for names, statistics in one.items():
            assert many[names].tokens == statistics.tokens
            torch.testing.assert_close(many[names].mean_square(), statistics.mean_square(), rtol=1e-4, atol=1e-6)


def _groups(met: MEETINGS, block: str) -> set[frozenset[str]]:
    return {
        frozenset(n.removeprefix(block).removesuffix(".weight") for n in names) for names, _ in met if block in names[0]
    }


@pytest.mark.parametrize("sequential", ["weight", "block"])
@pytest.mark.parametrize("batch_rows", [6, 4])
def test_weights_that_read_one_input_are_one_group(sequential: str, batch_rows: int) -> None:
    for family in ("llama", "gemma3", "qwen3_hybrid", "mistral"):
        assert _groups(_visit(build(family), sequential, batch_rows), "model.layers.1.") == {
            frozenset({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}),
            frozenset({"self_attn.o_proj"}),
            frozenset({"mlp.gate_proj", "mlp.up_proj"}),
            frozenset({"mlp.down_proj"}),
        }
    assert _groups(_visit(build("opt"), sequential, batch_rows), "model.decoder.layers.0.") == {
        frozenset({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}),
        frozenset({"self_attn.out_proj"}),
        frozenset({"fc1"}),
        frozenset({"fc2"}),
    }


@pytest.mark.parametrize("sequential", ["weight", "block"])
@pytest.mark.parametrize("batch_rows", [6, 4])
def test_cross_attention_keys_read_the_encoder_not_the_query_input(sequential: str, batch_rows: int) -> None:
    assert _groups(_visit(build("t5"), sequential, batch_rows), "decoder.block.1.") == {
        frozenset({"layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.v"}),
        frozenset({"layer.0.SelfAttention.o"}),
        frozenset({"layer.1.EncDecAttention.q"}),
        frozenset({"layer.1.EncDecAttention.k", "layer.1.EncDecAttention.v"}),
        frozenset({"layer.1.EncDecAttention.o"}),
        frozenset({"layer.2.DenseReluDense.wi_0", "layer.2.DenseReluDense.wi_1"}),
        frozenset({"layer.2.DenseReluDense.wo"}),
    }


@pytest.mark.parametrize("batch_rows", [6, 2])
def test_sharing_that_holds_for_a_few_tokens_alone_is_an_error(batch_rows: int) -> None:
    model = build("llama")
    mlp = model.model.layers[1].mlp

    def forward(x: torch.Tensor) -> torch.Tensor:
        other = x if x.shape[1] <= 4 else x + 1
        return mlp.down_proj(mlp.act_fn(mlp.gate_proj(x)) * mlp.up_proj(other))

    mlp.forward = forward
    assert _visit(build("llama"), "weight", batch_rows)
    with pytest.raises(PruneError, match=r"1\.mlp\.up_proj reads another input than .*gate_proj.*sequential=block"):
        _visit(model, "weight", batch_rows)
    assert _groups(_visit(model, "block", batch_rows), "model.layers.1.mlp.") == {
        frozenset({name}) for name in ("gate_proj", "up_proj", "down_proj")
    }


def test_a_module_called_twice_is_in_no_company() -> None:
    model = build("llama")
    mlp = model.model.layers[1].mlp
    mlp.forward = lambda x: mlp.down_proj(mlp.gate_proj(x) * mlp.gate_proj(x / 2) * mlp.up_proj(x))
    assert frozenset({"gate_proj"}) in _groups(_visit(model, "weight", 6), "model.layers.1.mlp.")


def _inputs_of(model: Any, layer: nn.Module) -> torch.Tensor:
    taken: list[torch.Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, args: taken.append(args[0]))
    with torch.no_grad():
        model(token_rows(rows=6, length=12), use_cache=False)
    handle.remove()
    return taken[0].reshape(-1, taken[0].shape[-1]).square().mean(0)


@pytest.mark.parametrize("batch_rows", [6, 2])
def test_weight_order_shows_each_weight_the_pruned_ones_before_it(batch_rows: int) -> None:
    model = build("llama")
    met = {names[0]: s for names, s in _visit(model, "weight", batch_rows)}
    # By now all is halved; down_proj of a block reads what its halved gate_proj and up_proj give.
    for index, layer in enumerate(model.model.layers):
        seen = met[f"model.layers.{index}.mlp.down_proj.weight"].mean_square()
        torch.testing.assert_close(seen, _inputs_of(model, layer.mlp.down_proj), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch_rows", [6, 2])
def test_block_order_shows_the_dense_block_behind_pruned_ones(batch_rows: int) -> None:
    model = build("llama")
    met = {names[0]: s for names, s in _visit(model, "block", batch_rows)}
    fresh = build("llama")
    for done, layer in zip(model.model.layers[:1], fresh.model.layers[:1], strict=True):
        layer.load_state_dict(done.state_dict())
    seen = met["model.layers.1.mlp.down_proj.weight"].mean_square()
    torch.testing.assert_close(seen, _inputs_of(fresh, fresh.model.layers[1].mlp.down_proj), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch_rows", [6, 2])
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_experts_see_the_tokens_routed_to_them(family: str, batch_rows: int) -> None:
    model = build(family)
    met = {names[0]: s for names, s in _visit(model, "block", batch_rows, change=False)}
    layer = model.model.layers[1].mlp
    taken: list[Any] = []
    handle = layer.experts.register_forward_pre_hook(lambda _, args: taken.append(args))
    with torch.no_grad():
        model(token_rows(rows=6, length=12), use_cache=False)
    handle.remove()
    hidden, chosen, _ = taken[0]
    for expert in range(4):
        tokens = torch.stack([hidden[t] for t in range(len(hidden)) if expert in chosen[t].tolist()])
        name = "model.layers.1.mlp.experts"
        into = met[f"{name}.gate_up_proj[{expert}][gate]"]
        assert into.tokens == len(tokens)
        torch.testing.assert_close(into.mean_square(), tokens.square().mean(0), rtol=1e-4, atol=1e-6)
        gate, up = (tokens @ layer.experts.gate_up_proj[expert].T).chunk(2, dim=-1)
        inner = torch.nn.functional.silu(gate) * up
        torch.testing.assert_close(
            met[f"{name}.down_proj[{expert}]"].mean_square(), inner.square().mean(0).detach(), rtol=1e-4, atol=1e-6
        )


def test_transposed_interleaved_experts_with_biases_see_their_own_activation() -> None:
    config = GptOssConfig(
        vocab_size=512,
        hidden_size=32,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=2,
        initializer_range=0.2,
        pad_token_id=0,
    )
    model = AutoModelForCausalLM.from_config(config).eval()
    met = {names[0]: s for names, s in _visit(model, "block", 6, change=False)}
    experts = model.model.layers[0].mlp.experts
    taken: list[torch.Tensor] = []
    handle = experts.register_forward_pre_hook(lambda _, args: taken.append(args[0]))
    with torch.no_grad():
        model(token_rows(rows=6, length=12), use_cache=False)
        handle.remove()
        out = taken[0].reshape(-1, 32) @ experts.gate_up_proj[1] + experts.gate_up_proj_bias[1]
        gate, up = out[:, ::2].clamp(max=7.0), out[:, 1::2].clamp(-7.0, 7.0)
        inner = (up + 1) * gate * torch.sigmoid(1.702 * gate)
    name = "model.layers.0.mlp.experts"
    assert met[f"{name}.gate_up_proj[1]"].tokens == 72
    assert find_targets(model).unreached.keys() == {f"model.layers.{i}.mlp.router.weight" for i in range(2)}
    torch.testing.assert_close(met[f"{name}.down_proj[1]"].mean_square(), inner.square().mean(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sequential", ["weight", "block"])
@pytest.mark.parametrize("batch_rows", [6, 2])
def test_a_layer_that_is_never_called_is_starved(sequential: str, batch_rows: int) -> None:
    model = build("llama")
    model.model.layers[1].spare = nn.Linear(4, 4)
    met = {names[0]: s for names, s in _visit(model, sequential, batch_rows)}
    assert met["model.layers.1.spare.weight"].starved
    assert sum(s.starved for s in met.values()) == 1


def test_each_batch_costs_one_forward_and_the_published_order_two() -> None:
    for sequential, batch_rows, expected in (("weight", 6, 1), ("weight", 2, 3), ("block", 6, 2), ("block", 3, 4)):
        model = build("llama")
        calls: list[int] = []
        # The probe of four tokens is not counted, and stand-ins run nothing inside the block.
        model.model.layers[1].mlp.register_forward_hook(lambda _, args, out, c=calls: c.append(out.shape[1]))
        _visit(model, sequential, batch_rows)
        assert calls.count(12) == expected


def test_an_error_in_the_middle_leaves_no_lane_behind() -> None:
    def fail(group: tuple[Weight, ...], statistics: Statistics) -> None:
        if "down_proj" in group[0].name:
            raise PruneError("stop here")

    model = build("llama")
    before = threading.active_count()
    (step, *_) = _steps(model)
    with torch.no_grad(), pytest.raises(PruneError, match="stop here"):
        prune_block(step, Needs.NORMS, "weight", fail)
    assert threading.active_count() == before
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_an_error_in_the_model_comes_through() -> None:
    model = build("llama")
    (step, *_) = _steps(model)
    model.model.layers[0].mlp.up_proj.forward = None
    before = threading.active_count()
    with torch.no_grad(), pytest.raises(TypeError, match="not callable"):
        prune_block(step, Needs.NORMS, "weight", lambda group, statistics: None)
    assert threading.active_count() == before


def _steps(model: Any) -> list[Step]:
    with torch.no_grad():
        batches = make_batches(model, token_rows(rows=6, length=12), 2)
        return [next(walk(model, find_targets(model), batches))]
