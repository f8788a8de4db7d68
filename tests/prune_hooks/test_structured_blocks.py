"""Whole blocks: influence is the plain reference's, and the shorter model is the dense one with blocks stepped over."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.structured.blocks import choose
from prune_hooks.targets import find_targets
from tests.families import build
from tests.prune_hooks import reference_structured as reference
from tests.prune_hooks.structured_models import CUT, PROBE, ROWS, generated, greedy_without_cache, logits, varied

FAMILIES = (*CUT, "mixtral", "qwen3_moe")


def _prune(model, sparsity=0.35, **spec):
    return prune(model, None, PruneSpec("block_influence", sparsity, calibration=ROWS, **spec), progress=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_influence_logits_cache_and_reloading(family, tmp_path):
    short, dense = varied(family), varied(family)
    blocks = [block.module for block in find_targets(dense).blocks]
    expected = reference.influence(dense, blocks, ROWS)
    receipt = _prune(short)
    layers = receipt.structured["layers"]
    assert [layer["influence"] for layer in layers] == pytest.approx(expected, abs=1e-5)
    gone = [number for number, layer in enumerate(layers) if layer["removed"]]
    assert gone == [min(range(len(expected)), key=expected.__getitem__)]
    size = [sum(p.numel() for p in block.parameters()) for block in blocks]
    assert receipt.sparsity_reached == pytest.approx(size[gone[0]] / sum(size))
    assert short.config.num_hidden_layers == len(blocks) - 1

    reference.step_over(blocks, gone)
    torch.testing.assert_close(logits(short), logits(dense), rtol=0, atol=0)
    assert torch.equal(generated(short, PROBE, 5), greedy_without_cache(short, PROBE, 5))

    short.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits(loaded), logits(short))
    assert torch.equal(generated(loaded, PROBE, 5), generated(short, PROBE, 5))


@pytest.mark.parametrize(("kind", "left"), [("sliding_attention", 2), ("full_attention", 2)])
def test_a_hybrid_model_that_loses_all_blocks_of_one_kind(kind, left, tmp_path):
    model = varied("qwen3_hybrid")
    for block, layer_type in zip(model.model.layers, model.config.layer_types, strict=True):
        if layer_type == kind:
            block.self_attn.o_proj.weight.data *= 1e-3  # these change the stream least
            block.mlp.down_proj.weight.data *= 1e-3
    _prune(model, 0.5)
    assert kind not in model.config.layer_types
    assert len(model.config.layer_types) == left
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits(loaded), logits(model))
    assert torch.equal(generated(loaded, PROBE, 8), greedy_without_cache(model, PROBE, 8))


def test_all_but_one_block_of_gemma(tmp_path):
    model = varied("gemma3")
    receipt = _prune(model, 0.9)
    assert receipt.sparsity_reached == pytest.approx(2 / 3)
    model.save_pretrained(tmp_path)
    assert torch.equal(logits(AutoModelForCausalLM.from_pretrained(tmp_path)), logits(model))


def test_choice_by_hand():
    assert choose([0.3, 0.1, 0.2, 0.4], [10, 10, 10, 10], 0.5) == [1, 2]
    assert choose([0.3, 0.1, 0.2, 0.4], [10, 10, 10, 10], 0.375) == [1]  # 10 and 20 are as near to 15
    assert choose([0.3, 0.1, 0.2, 0.4], [10, 10, 10, 10], 0.4) == [1, 2]
    assert choose([0.1, 0.1, 0.1], [10, 10, 10], 0.3) == [0]
    assert choose([0.3, 0.1, 0.2], [10, 80, 10], 0.1) == []  # a block of 0.8 is no nearer than nothing
    assert choose([0.3, 0.1, 0.2], [10, 10, 10], 0.99) == [1, 2]


def test_too_little_is_refused():
    with pytest.raises(PruneError, match=r"at sparsity 0\.1 of 3 blocks removes none: expected at least 0\.167"):
        _prune(build("llama"), 0.1)


def test_scaling_by_the_blocks_number_is_refused():
    model = build("gpt2")
    model.config.scale_attn_by_inverse_layer_idx = True
    with pytest.raises(PruneError, match=r"scale_attn_by_inverse_layer_idx.*use method=heads"):
        _prune(model)


def test_t5_is_refused_with_the_reason():
    with pytest.raises(PruneError, match=r"'block_influence' does not know t5 models .*; its first blocks hold the p"):
        _prune(build("t5"))
