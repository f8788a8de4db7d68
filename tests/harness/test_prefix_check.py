"""Where a cached prompt is not what the whole text has there, stock scores: states, positions rescaled by length."""

import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import (
    DynamicCache,
    JambaConfig,
    JambaForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

from lm_eval_illusion.harness import prefix_check
from lm_eval_illusion.harness.model import PrunedHFLM
from tests import families

PROMPTS = ["The river Nile flows through", "A b", "Who wrote the letter? Anna Berg wrote it in March, and"]
ENDINGS = [" eleven countries and more", " x", " Anna Berg."]


def saved(folder, kind, config):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        kind(config).eval().save_pretrained(folder)
    families.tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def asked(endings=ENDINGS, prompts=PROMPTS):
    return [Instance("loglikelihood", {}, (p, e), n) for n, p in enumerate(prompts) for e in endings]


def both(path, requests, **options):
    """Return our model, its scores, and those of stock at batch size 1."""
    ours = PrunedHFLM(pretrained=path, device="cpu", batch_size=4, method="none", **options)
    got = [pair[0] for pair in ours.loglikelihood(requests, True)]
    stock = HFLM(pretrained=path, device="cpu", batch_size=1, **options).loglikelihood(requests, True)
    return ours, got, [pair[0] for pair in stock]


def warned(caplog):
    mine = [record for record in caplog.records if record.name == "lm_eval.illusion"]
    return [record.message for record in mine if record.levelname == "WARNING"]


def jamba(**changes):
    layers = {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1}
    return JambaConfig(**families._common(use_mamba_kernels=False, num_experts=2, **layers, **changes))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_forgets_its_state_after_a_prompt_is_scored_as_stock(tmp_path, caplog, dtype):
    path = saved(tmp_path, JambaForCausalLM, jamba(initializer_range=1.0))
    if dtype is torch.float32:
        ours, got, expected = both(path, asked())
        assert got == pytest.approx(expected, abs=1e-3)
    else:
        ours = PrunedHFLM(pretrained=path, device="cpu", batch_size=4, method="none", dtype="bfloat16")
        ours.loglikelihood(asked(), True)
    assert not ours._shared_prefix
    (line,) = warned(caplog)
    assert line.startswith("JambaForCausalLM: no shared prefill, scoring as stock hf: several tokens after")


def lfm2():
    return Lfm2ForCausalLM, Lfm2Config(**families._common(layer_types=["conv", "full_attention", "conv"]))


def qwen3_next():
    changes = {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
        "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    }  # fmt: skip
    return Qwen3NextForCausalLM, Qwen3NextConfig(**families._common(**changes))


@pytest.mark.parametrize("family", [lfm2, qwen3_next])
def test_a_model_that_carries_its_state_on_keeps_the_shared_prefill(tmp_path, family):
    ours, got, expected = both(saved(tmp_path, *family()), asked())
    assert ours._shared_prefix
    assert got == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("family", [family for family in families.FAMILIES if family != "t5"])
def test_keys_and_values_are_not_tried(family, monkeypatch):
    monkeypatch.setattr(prefix_check, "_in_one_pass", lambda *_: pytest.fail("tried"))
    assert prefix_check.goes_on(families.build(family), [5, 6, 7], pad=0, device="cpu")


def test_one_token_options_do_not_show_that_a_cache_can_be_copied(tiny, monkeypatch):
    path = str(tiny("llama"))
    letters, words = asked([","]), asked()
    expected = [pair[0] for pair in HFLM(pretrained=path, device="cpu", batch_size=1).loglikelihood(words, True)]
    ours = PrunedHFLM(pretrained=path, device="cpu", batch_size=4, method="none")
    ours.loglikelihood(letters, True)
    monkeypatch.setattr(DynamicCache, "reorder_cache", lambda *_: (_ for _ in ()).throw(TypeError("no rows")))
    assert [pair[0] for pair in ours.loglikelihood(words, True)] == pytest.approx(expected, abs=1e-4)
    assert not ours._shared_prefix


def phi3():
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 24}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    common = {key: value for key, value in families._common(max_position_embeddings=96).items() if key != "head_dim"}
    return Phi3ForCausalLM, Phi3Config(**common, original_max_position_embeddings=24, rope_parameters=rope)


def llama():
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    return LlamaForCausalLM, LlamaConfig(**families._common(max_position_embeddings=24, rope_parameters=rope))


@pytest.mark.parametrize("family", [phi3, llama])
def test_positions_rescaled_by_length_give_stocks_numbers_at_batch_size_1(tmp_path, caplog, family):
    path = saved(tmp_path, *family())
    prompts = [text * 2 for text in PROMPTS] + PROMPTS
    lengths = [len(families.tiny_tokenizer()(prompt).input_ids) for prompt in prompts]
    assert min(lengths) < 20 < max(lengths)
    ours, got, expected = both(path, asked(prompts=prompts), max_length=96)
    assert ours._shared_prefix
    assert got == pytest.approx(expected, abs=1e-3)
    (line,) = warned(caplog)
    assert line.endswith("prompts end beyond 24 tokens, where positions are rescaled: as stock hf")
