"""SliceGPT: exact when nothing is dropped, the plain reference's logits when something is."""

import copy

import pytest
import torch
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.precision import Precision
from prune_hooks.structured import Job, load_sliced, save_sliced
from prune_hooks.structured.norms import PlainRMSNorm, gain_of
from prune_hooks.structured.slicegpt import principal, slice_model, sliced_width
from prune_hooks.targets import find_targets
from tests.families import build
from tests.prune_hooks import reference_structured as reference
from tests.prune_hooks.structured_models import PROBE, ROWS, generated, greedy_without_cache, logits, varied

FAMILIES = ("llama", "qwen3", "qwen3_hybrid", "mistral", "phi3")


def _prune(model, sparsity=0.25, **spec):
    return prune(model, None, PruneSpec("slicegpt", sparsity, calibration=ROWS, **spec), progress=False)


def _rotate(model):
    """Slices to the full width."""
    targets = find_targets(model)
    precision = Precision("model", torch.float32, torch.device("cpu"))
    with torch.no_grad():
        slice_model(Job(model, None, PruneSpec("slicegpt"), {}, targets, ROWS, precision), 32, True)


def _with_gemma_norms():
    """A Llama whose norms multiply by 1 + weight."""
    model = varied("llama")
    for owner in [model.model, *model.model.layers]:
        for name, norm in list(owner.named_children()):
            if name.endswith("norm"):
                other = Gemma3RMSNorm(32, eps=norm.variance_epsilon)
                other.weight.data = norm.weight.data - 1
                setattr(owner, name, other)
    return model


def _tied():
    model = varied("llama")
    model.config.tie_word_embeddings = True
    model.tie_weights()
    assert model.lm_head.weight is model.model.embed_tokens.weight
    return model


def _biased():
    from transformers import AutoConfig, AutoModelForCausalLM

    config = build("llama").config.to_dict() | {"attention_bias": True, "mlp_bias": True}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config)).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data.normal_()
    return model


MODELS = {name: (lambda name=name: varied(name)) for name in FAMILIES}
MODELS |= {"gemma norms": _with_gemma_norms, "tied": _tied, "biased": _biased}


@pytest.mark.parametrize("name", MODELS)
def test_nothing_dropped_is_the_dense_model(name):
    model = MODELS[name]()
    dense = logits(model)
    _rotate(model)
    assert (logits(model) - dense).abs().max() <= 1e-4 * dense.abs().max()
    assert model.lm_head.weight is not model.model.embed_tokens.weight


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_the_references(name):
    model = MODELS[name]()
    expected = reference.sliced_logits(copy.deepcopy(model).double(), ROWS, PROBE, kept=24)
    _prune(model)
    assert model.model.embed_tokens.weight.shape == (512, 24)
    assert model.lm_head.weight.shape == (512, 32)
    found = logits(model).double()
    assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()
    rotated = MODELS[name]()
    assert (logits(rotated) - found).abs().max() > 1e-2 * expected.abs().max()  # something is lost


def test_a_narrowed_head_is_the_references():
    model = varied("qwen3")
    expected = reference.sliced_logits(copy.deepcopy(model).double(), ROWS, PROBE, kept=16, head=True)
    receipt = _prune(model, 0.5, method_options="head:1")
    assert model.lm_head.weight.shape == (512, 16)
    assert (logits(model).double() - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert receipt.structured["head_sliced"] is True


def test_the_receipt_counts_shortcuts_and_the_untied_head():
    model = _tied()
    before = (sum(p.numel() for p in model.model.layers.parameters()), sum(p.numel() for p in model.parameters()))
    receipt = _prune(model)
    # Every block: q, k, v, gate, up read 24 of 32; o, down write 24 of 32 (the last block's down all); two shortcuts.
    block = 24 * (32 + 16 + 16 + 48 + 48) + 24 * 32 + 24 * 48 + 2 * 24 * 24
    after = 3 * block + 8 * 48 + 24 * 8
    assert receipt.structured["block_parameters"] == [before[0], after]
    assert receipt.structured["model_parameters"] == [before[1], after + 512 * 24 + 512 * 32]
    assert receipt.sparsity_reached == pytest.approx(1 - after / before[0])
    assert receipt.whole_model_sparsity < 0  # the head's own copy outweighs what is gone: the vocabulary is large
    assert receipt.structured["width"] == [32, 24]
    energies = [layer["dropped_energy"] for layer in receipt.structured["layers"]]
    assert all(0 < attention < 0.3 for attention, _ in energies)
    assert energies[-1][1] == 0  # the last block's output stays whole


@pytest.mark.parametrize("family", FAMILIES)
def test_generation_with_a_cache_and_reloading(family, tmp_path):
    model = varied(family)
    _prune(model)
    assert torch.equal(generated(model, PROBE, 5), greedy_without_cache(model, PROBE, 5))
    loaded = load_sliced(save_sliced(model, tmp_path))
    assert torch.equal(logits(loaded), logits(model))
    assert torch.equal(generated(loaded, PROBE, 5), generated(model, PROBE, 5))
    again = load_sliced(save_sliced(loaded, tmp_path / "again"))
    assert torch.equal(logits(again), logits(model))


def test_half_precision_is_kept_and_reloaded(tmp_path):
    model = varied("phi3")
    for parameter in model.parameters():
        parameter.data = parameter.bfloat16()  # buffers stay float32, as from_pretrained leaves them
    dense = logits(model)
    _prune(model, 0.25)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    loaded = load_sliced(save_sliced(model, tmp_path))
    assert loaded.dtype is torch.bfloat16
    assert torch.equal(logits(loaded), logits(model))
    assert not torch.equal(logits(model), dense)


def test_scoring_from_one_prefill_reads_a_sliced_model():
    from lm_eval_illusion.harness.scoring import Prompt, score, supports_shared_prefix

    model = varied("mistral")
    _prune(model)
    assert supports_shared_prefix(model)
    prompt = Prompt((2, 17, 30, 41), ((50, 51), (60, 61, 62), (70,)))
    found = score(model, [prompt], pad=0)[0]
    for continuation, scored in zip(prompt.continuations, found, strict=True):
        ids = torch.tensor([[*prompt.context, *continuation]])
        logprobs = logits(model, ids).log_softmax(-1)[0, 3:-1]
        expected = sum(float(logprobs[i, token]) for i, token in enumerate(continuation))
        assert scored.logprob == pytest.approx(expected, abs=1e-4)


def test_hidden_states_are_still_recorded():
    model = varied("llama")
    _prune(model)
    states = model(input_ids=PROBE, output_hidden_states=True).hidden_states
    assert [state.shape[-1] for state in states] == [24, 24, 24, 32]


def test_width_by_hand():
    assert sliced_width(32, 0.25) == 24
    assert sliced_width(4096, 0.25) == 3072
    assert sliced_width(640, 0.3) == 448
    assert sliced_width(640, 0.31) == 440  # 441 rounded down
    with pytest.raises(PruneError, match=r"at sparsity 0\.9 of width 32 leaves 0 directions: expected at least 8"):
        sliced_width(32, 0.9)


def test_principal_directions_by_hand():
    signal = torch.tensor([[[3.0, 4.0, 0.0], [6.0, 8.0, 0.0], [0.0, 0.0, 2.0]]])
    basis, lost = principal([signal], 1)
    assert basis[:, 0].abs().tolist() == pytest.approx([0.6, 0.8, 0.0])
    assert lost == pytest.approx(4 / 129)


def test_gains_by_hand():
    norm = Gemma3RMSNorm(3)
    norm.weight.data = torch.tensor([0.5, -0.25, 2.0])
    assert gain_of("n", norm).tolist() == [1.5, 0.75, 3.0]
    with pytest.raises(PruneError, match=r"^n \(LayerNorm\) multiplies by neither its weight nor 1 \+ weight"):
        gain_of("n", torch.nn.LayerNorm(3))
    made = PlainRMSNorm(4, 0.0)(torch.tensor([[3.0, 4.0]]))  # 25 / 4 is the mean over the dense width
    torch.testing.assert_close(made, torch.tensor([[1.2, 1.6]]))


def test_gemma_is_refused_with_the_reason():
    with pytest.raises(PruneError, match=r"'slicegpt' does not know gemma3_text .*Gemma normalises each sub-lay"):
        _prune(build("gemma3"))
