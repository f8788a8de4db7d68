"""Heads and channels: the choice is the plain reference's, and the cut model is the dense one with zeros."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.structured import load_sliced, save_sliced
from prune_hooks.structured.counts import counts_to_remove, fill
from tests.families import build
from tests.prune_hooks import reference_structured as reference
from tests.prune_hooks.structured_models import CUT, PROBE, ROWS, generated, greedy_without_cache, logits, varied


def _prune(model, sparsity=0.4, **spec):
    return prune(model, None, PruneSpec("heads", sparsity, calibration=ROWS, **spec), progress=False)


def _gone(receipt):
    return [(layer["groups"], layer["channels"]) for layer in receipt.structured["layers"]]


@pytest.mark.parametrize("sequential", ["weight", "block"])
@pytest.mark.parametrize("family", CUT)
def test_choice_and_logits_are_the_references(family, sequential):
    cut, zeroed = varied(family), varied(family)
    receipt = _prune(cut, sequential=sequential)
    gone = reference.heads(zeroed, family, ROWS, 0.4, together=sequential == "block")
    assert _gone(receipt) == gone
    assert all(groups and channels for groups, channels in gone)
    torch.testing.assert_close(logits(cut), logits(zeroed), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", CUT)
def test_what_is_reported_is_gone_and_near_what_was_asked(family):
    model = varied(family)
    block = reference.blocks(model, family)
    before = (sum(p.numel() for b in block for p in b.parameters()), sum(p.numel() for p in model.parameters()))
    group, channel, size = reference.sizes(model, family)
    receipt = _prune(model, 0.3)
    after = (sum(p.numel() for b in block for p in b.parameters()), sum(p.numel() for p in model.parameters()))
    assert receipt.sparsity_reached == pytest.approx(1 - after[0] / before[0])
    assert receipt.whole_model_sparsity == pytest.approx(1 - after[1] / before[1])
    assert receipt.structured["block_parameters"] == [before[0], after[0]]
    assert abs(receipt.sparsity_reached - 0.3) <= channel / size / 2 + 1e-9
    gone = sum(len(g) * group + len(c) * channel for g, c in _gone(receipt))
    assert gone == before[0] - after[0]


@pytest.mark.parametrize("family", CUT)
def test_generation_with_a_cache(family):
    model = varied(family)
    _prune(model)
    assert torch.equal(generated(model, PROBE, 5), greedy_without_cache(model, PROBE, 5))


@pytest.mark.parametrize(
    ("family", "options", "sparsity", "reload"),
    [
        ("llama", "", 0.4, "from_pretrained"),
        ("gemma3", "", 0.4, "from_pretrained"),
        ("qwen3_hybrid", "", 0.4, "from_pretrained"),
        ("mistral", "", 0.4, "from_pretrained"),
        ("phi3", "", 0.4, "from_pretrained"),
        ("gpt2", "", 0.4, "load_sliced"),
        ("gpt2", "heads:0", 0.4, "from_pretrained"),
        ("opt", "", 0.4, "load_sliced"),
        ("opt", "heads:0", 0.3, "from_pretrained"),
    ],
)
def test_saving_and_reloading(family, options, sparsity, reload, tmp_path):
    model = varied(family)
    receipt = _prune(model, sparsity, method_options=options)
    assert receipt.structured["reload"] == reload
    if reload == "load_sliced":
        loaded = load_sliced(save_sliced(model, tmp_path))
    else:
        with pytest.raises(
            PruneError, match=r"configuration describes: expected .* load_sliced; use .*save_pretrained"
        ):
            save_sliced(model, tmp_path)
        model.save_pretrained(tmp_path)
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits(loaded), logits(model))
    assert torch.equal(generated(loaded, PROBE, 3), generated(model, PROBE, 3))


def test_heads_that_the_configuration_refuses_are_saved_beside_it(tmp_path):
    from transformers import AutoConfig

    config = AutoConfig.for_model(**(build("llama").config.to_dict() | {"num_key_value_heads": 4}))
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)  # 3 of 4 heads left: 32 is no multiple of 3
    receipt = _prune(model, 0.2)
    assert [len(groups) for groups, _ in _gone(receipt)] == [1, 1, 1]
    assert receipt.structured["reload"] == "load_sliced"
    assert torch.equal(logits(load_sliced(save_sliced(model, tmp_path))), logits(model))


@pytest.mark.parametrize("use", [{"heads": False}, {"mlp": False}])
def test_only_heads_or_only_channels(use):
    cut, zeroed = varied("gpt2"), varied("gpt2")
    name = next(iter(use))
    receipt = _prune(cut, 0.2, method_options={name: 0})
    assert _gone(receipt) == reference.heads(zeroed, "gpt2", ROWS, 0.2, **use)
    assert not any(layer["groups" if name == "heads" else "channels"] for layer in receipt.structured["layers"])
    torch.testing.assert_close(logits(cut), logits(zeroed), rtol=1e-5, atol=1e-5)


def test_counts_by_hand():
    # A block of 1,000: 4 groups of 100, 50 channels of 10, 100 that stay.
    assert counts_to_remove((4, 50), (100, 10), 1000, 0.5, (True, True)) == (2, 30)
    assert counts_to_remove((4, 50), (100, 10), 1000, 0.375, (True, True)) == (1, 27)  # 1.5 groups: the smaller
    assert counts_to_remove((4, 50), (100, 10), 1000, 0.3, (True, False)) == (3, 0)
    assert counts_to_remove((4, 50), (100, 10), 1000, 0.3, (False, True)) == (0, 30)
    assert counts_to_remove((1, 80), (100, 10), 1000, 0.5, (True, True)) == (0, 50)  # the last group stays
    assert counts_to_remove((4, 10), (200, 10), 1000, 0.6, (True, True)) == (3, 0)  # channels alone are too few
    with pytest.raises(
        PruneError, match=r"at most 0.300 of its parameters can go with heads:1\+mlp:0 .* lower sparsity"
    ):
        counts_to_remove((4, 50), (100, 10), 1000, 0.5, (True, False))


def test_filling_up_by_hand():
    assert fill([10, 10, 10], 21) == [0, 1]
    assert fill([10, 10, 10], 26) == [0, 1, 2]
    assert fill([10, 50, 10, 10], 42) == [0, 2, 3]  # 50 would go 18 too far
    assert fill([10, 50], 42) == [0, 1]  # nothing smaller is left, and 60 is nearer than 10
    assert fill([10, 50], 34) == [0]
    assert fill([], 5) == []


def test_too_much_is_refused_before_anything_is_cut():
    model = varied("llama")
    before = logits(model)
    with pytest.raises(PruneError, match=r"at most 0\.\d+ of its parameters can go with heads:1\+mlp:0"):
        _prune(model, 0.6, method_options="mlp:0")
    assert torch.equal(logits(model), before)


@pytest.mark.parametrize("family", ["mixtral", "t5"])
def test_other_families_are_refused_by_name(family):
    with pytest.raises(PruneError, match=rf"method 'heads' does not know {family} models .* gemma3_text, gpt2, llama"):
        _prune(build(family))


def test_half_precision_and_another_calibration_dtype():
    wide = varied("qwen3")
    narrow = varied("qwen3").bfloat16()
    receipt = _prune(narrow, calibration_dtype="float32")
    assert receipt.calibration["forward_dtype"] == "float32"
    assert narrow.model.layers[0].mlp.down_proj.weight.dtype is torch.bfloat16
    for parameter in wide.parameters():
        parameter.data = parameter.bfloat16().float()
    assert _gone(receipt) == reference.heads(wide, "qwen3", ROWS, 0.4)
