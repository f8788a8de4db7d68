"""Where a cached prompt is not what the whole text has there, stock scores: states, positions rescaled by length."""

import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import (
    BartConfig,
    BartForCausalLM,
    BartForConditionalGeneration,
    BlenderbotConfig,
    BlenderbotForCausalLM,
    BlenderbotForConditionalGeneration,
    BloomConfig,
    BloomForCausalLM,
    DynamicCache,
    FalconConfig,
    FalconForCausalLM,
    JambaConfig,
    JambaForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MBartConfig,
    MBartForCausalLM,
    MBartForConditionalGeneration,
    MiniMaxConfig,
    MiniMaxForCausalLM,
    MptConfig,
    MptForCausalLM,
    PegasusConfig,
    PegasusForConditionalGeneration,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
    RoFormerConfig,
    RoFormerForCausalLM,
)

from lm_eval_illusion.harness import prefix_check, scoring
from lm_eval_illusion.harness.model import PrunedHFLM
from tests import families

PROMPTS = ["The river Nile flows through", "A b", "Who wrote the letter? Anna Berg wrote it in March, and"]
ENDINGS = [" eleven countries and more", " x", " Anna Berg."]


PROMPT = scoring.Prompt(tuple(range(5, 35)), ((9, 10, 11),))


def seeded(kind, config):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(config).eval()


def saved(folder, kind, config):
    seeded(kind, config).save_pretrained(folder)
    families.tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def asked(endings=ENDINGS, prompts=PROMPTS):
    return [Instance("loglikelihood", {}, (p, e), n) for n, p in enumerate(prompts) for e in endings]


def both(path, requests, stock_batch=1, **options):
    """Return our model, its scores, and those of stock, at batch size 1 unless another is wanted."""
    ours = PrunedHFLM(pretrained=path, device="cpu", batch_size=4, method="none", **options)
    got = [pair[0] for pair in ours.loglikelihood(requests, True)]
    stock = HFLM(pretrained=path, device="cpu", batch_size=stock_batch, **options).loglikelihood(requests, True)
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


def minimax():
    changes = {"num_local_experts": 2, "num_experts_per_tok": 1, "block_size": 8}
    return MiniMaxForCausalLM, MiniMaxConfig(**families._common(**changes))


def test_a_model_whose_state_stays_where_its_row_was_is_scored_as_stock(tmp_path, caplog):
    """MiniMax reorders keys and values and leaves the states of its linear attention as they were."""
    ours, got, expected = both(saved(tmp_path, *minimax()), asked())
    assert got == pytest.approx(expected, abs=1e-3)
    assert not ours._shared_prefix
    assert len(warned(caplog)) == 1


def bart(kind, config, **changes):
    return kind, config(
        vocab_size=families.VOCAB, d_model=16, max_position_embeddings=128, init_std=0.3,
        encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=16,
        decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=16, **changes,
    )  # fmt: skip


def decoder(kind, config):
    return bart(kind, config, is_decoder=True, is_encoder_decoder=False)


DECODERS = [(BartForCausalLM, BartConfig), (MBartForCausalLM, MBartConfig), (BlenderbotForCausalLM, BlenderbotConfig)]


@pytest.mark.parametrize("pair", DECODERS, ids=lambda pair: pair[0].__name__)
def test_learned_positions_that_count_the_padding_are_scored_as_stock(tmp_path, caplog, pair):
    ours, got, expected = both(saved(tmp_path, *decoder(*pair)), asked(), backend="causal")
    assert got == pytest.approx(expected, abs=1e-3)
    assert not ours._shared_prefix
    (line,) = warned(caplog)
    assert line.endswith("padding to the left of a prompt changes its scores, and its forward takes no positions")


@pytest.mark.parametrize("pair", DECODERS, ids=lambda pair: pair[0].__name__)
def test_they_are_found_out_in_half_precision_too(pair):
    kind, config = decoder(*pair)
    model = seeded(kind, config).to(torch.bfloat16)
    assert prefix_check.why_not(model, PROMPT, pad=0, device="cpu").startswith("padding to the left")


def mpt():
    return MptForCausalLM, MptConfig(
        vocab_size=families.VOCAB, d_model=16, n_layers=2, n_heads=2, max_seq_len=128, initializer_range=0.3
    )


def bloom():
    return BloomForCausalLM, BloomConfig(
        vocab_size=families.VOCAB, hidden_size=16, n_layer=2, n_head=2, initializer_range=0.3
    )


def falcon_alibi():
    return FalconForCausalLM, FalconConfig(
        vocab_size=families.VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, alibi=True,
        initializer_range=0.3, max_position_embeddings=128,
    )  # fmt: skip


def roformer():
    return RoFormerForCausalLM, RoFormerConfig(
        vocab_size=families.VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        initializer_range=0.3, is_decoder=True, max_position_embeddings=128,
    )  # fmt: skip


@pytest.mark.parametrize("family", [mpt, bloom, falcon_alibi, roformer])
def test_distances_and_positions_along_the_mask_keep_the_shared_prefill(tmp_path, family):
    ours, got, expected = both(saved(tmp_path, *family()), asked())
    assert ours._shared_prefix
    assert got == pytest.approx(expected, abs=1e-3)
    half = seeded(*family()).to(torch.bfloat16)
    assert prefix_check.why_not(half, PROMPT, pad=0, device="cpu") is None


SEQ2SEQ = [
    (BartForConditionalGeneration, BartConfig),
    (M2M100ForConditionalGeneration, M2M100Config),
    (PegasusForConditionalGeneration, PegasusConfig),
    (BlenderbotForConditionalGeneration, BlenderbotConfig),
]


@pytest.mark.parametrize("pair", SEQ2SEQ, ids=lambda pair: pair[0].__name__)
def test_encoder_decoders_whose_labels_stand_behind_the_start_keep_the_shared_prefill(tmp_path, pair):
    ours, got, expected = both(saved(tmp_path, *bart(*pair)), asked())
    assert ours._shared_prefix
    assert got == pytest.approx(expected, abs=1e-3)
    half = seeded(*bart(*pair)).to(torch.bfloat16)
    assert prefix_check.why_not(half, PROMPT, pad=0, device="cpu") is None


@pytest.mark.parametrize("start", [None, 2])
def test_labels_that_stand_behind_their_own_last_one_are_scored_as_stock(tmp_path, caplog, start):
    mbart = bart(MBartForConditionalGeneration, MBartConfig, decoder_start_token_id=start)
    # Stock pads labels with 0, not with mBART's own padding: what a label begins with depends on the batch there.
    ours, got, expected = both(saved(tmp_path, *mbart), asked(), stock_batch=4)
    assert got == pytest.approx(expected, abs=1e-3)
    assert not ours._shared_prefix
    (line,) = warned(caplog)
    assert line.endswith("its labels do not stand behind the token that its decoder starts with")


def test_a_model_that_takes_no_labels_is_not_compared(monkeypatch):
    model = families.build("t5")
    real = type(model).forward

    def forward(self, *args, labels=None, **kwargs):
        if labels is not None:
            raise ValueError("Expected input batch_size (30) to match target batch_size (1).")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(type(model), "forward", forward)
    assert prefix_check.why_not(model, PROMPT, pad=0, device="cpu") is None


def test_nothing_is_refused_where_there_are_no_numbers_to_compare():
    for model in (families.build("t5"), families.build("bloom")):
        with torch.no_grad():
            model.get_output_embeddings().weight.fill_(float("nan"))
        assert prefix_check.why_not(model, PROMPT, pad=0, device="cpu") is None


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
