"""Tiny random models of every family the project promises to handle, with a tokenizer that fits them.

Built in memory from configurations, seeded, a few thousand weights each, so that a test can afford one per case:

    model = FAMILIES["gemma3"]()
    model = build("gemma3", attn="eager", dtype=torch.bfloat16)
    save_tiny("llama", tmp_path)  # afterwards from_pretrained(tmp_path) loads model and tokenizer
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BloomConfig,
    FalconConfig,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    MT5Config,
    OPTConfig,
    Phi3Config,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3MoeConfig,
    Qwen3NextConfig,
    T5Config,
)

VOCAB = 512
PAD, BOS, EOS = 0, 1, 2
WINDOW = 4096
"""Positions every tiny model can address."""

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)

_TEXT = [
    "The river Nile flows through eleven countries, and its length is about 6,650 kilometres.",
    "Question: Who wrote the letter? Answer: Anna Berg wrote it in March 1912.",
    "Der Fluss entspringt im Norden und mündet nach 210 Kilometern ins Meer.",
    "Река берёт начало на севере страны. Mto huo unaanzia kaskazini.",
    "यह नदी उत्तर में शुरू होती है। 这条河发源于北方。 이 강은 북쪽에서 시작된다.",
]


def _common(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": WINDOW,
        "initializer_range": 0.2,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
    return base | changes


def _gpt2() -> GPT2Config:
    return GPT2Config(
        vocab_size=VOCAB,
        n_positions=WINDOW,
        n_embd=32,
        n_layer=3,
        n_head=4,
        initializer_range=0.2,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )


def _opt() -> OPTConfig:
    return OPTConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        ffn_dim=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        word_embed_proj_dim=24,
        max_position_embeddings=WINDOW,
        init_std=0.2,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )


def _t5() -> T5Config:
    return T5Config(
        vocab_size=VOCAB,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=3,  # as many as in the decoder: generate() sizes its cache by this number
        num_decoder_layers=3,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        initializer_factor=1.0,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
    )


def _fused_heads(kind: type[Any], **changes: Any) -> Any:
    """A family that keeps q, k and v of each head beside each other in one matrix."""
    base = {"vocab_size": VOCAB, "hidden_size": 32, "initializer_range": 0.2}
    return kind(**base, bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD, **changes)


def _mt5() -> MT5Config:
    return MT5Config(**{k: v for k, v in _t5().to_dict().items() if k != "model_type"} | {"tie_word_embeddings": False})


_CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaConfig(**_common()),
    "qwen3": lambda: Qwen3Config(**_common()),
    # Hybrid only when use_sliding_window is on and max_window_layers is below the number of layers.
    "qwen3_hybrid": lambda: Qwen3Config(
        **_common(num_hidden_layers=4, use_sliding_window=True, sliding_window=6, max_window_layers=2)
    ),
    "gemma3": lambda: Gemma3TextConfig(
        **_common(
            sliding_window=6,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            query_pre_attn_scalar=8,
            tie_word_embeddings=True,
        )
    ),
    "mistral": lambda: MistralConfig(**_common(sliding_window=6)),
    "phi3": lambda: Phi3Config(**{k: v for k, v in _common().items() if k != "head_dim"}),
    "gpt2": _gpt2,
    "opt": _opt,
    "mixtral": lambda: MixtralConfig(**_common(num_local_experts=4, num_experts_per_tok=2)),
    "qwen3_moe": lambda: Qwen3MoeConfig(
        **_common(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, mlp_only_layers=[0])
    ),
    "t5": _t5,
}

_FURTHER: dict[str, Callable[[], Any]] = {
    "gpt_neox": lambda: _fused_heads(
        GPTNeoXConfig,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=WINDOW,
    ),
    "falcon": lambda: _fused_heads(
        FalconConfig,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_kv_heads=2,
        new_decoder_architecture=True,
        ffn_hidden_size=48,
        max_position_embeddings=WINDOW,
    ),
    "bloom": lambda: _fused_heads(BloomConfig, n_layer=3, n_head=4),
    "mt5": _mt5,
    # Linear attention but for the second layer; the third has experts beside a shared one.
    "qwen3_next": lambda: Qwen3NextConfig(
        **_common(
            layer_types=["linear_attention", "full_attention", "linear_attention"],
            linear_num_value_heads=4,
            linear_num_key_heads=2,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=24,
            shared_expert_intermediate_size=24,
            mlp_only_layers=[0, 1],
        )
    ),
}
"""Families that are pruned, and of which nothing else is promised."""


def build(family: str, attn: str = "sdpa", dtype: torch.dtype = torch.float32, seed: int = 0) -> PreTrainedModel:
    """Returns a tiny random model of `family`, in evaluation mode, the same weights for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = (_CONFIGS | _FURTHER)[family]()
        auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        known = "eager" if family == "bloom" else attn  # the only one it has
        model = auto.from_config(config, attn_implementation=known, dtype=torch.float32)
    return model.to(dtype).eval()


FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {name: partial(build, name) for name in _CONFIGS}
"""Families that are pruned and asked."""
PRUNED: dict[str, Callable[[], PreTrainedModel]] = {**FAMILIES, **{name: partial(build, name) for name in _FURTHER}}
"""All families that are pruned."""


def tiny_tokenizer(add_bos: bool = True) -> PreTrainedTokenizerFast:
    """Returns a byte-level BPE tokenizer of at most 512 tokens: any script round-trips; BOS first if `add_bos`."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(_TEXT, trainer)
    if add_bos:
        core.post_processor = processors.Sequence(
            [
                processors.ByteLevel(trim_offsets=False),
                processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", BOS)]),
            ]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        model_max_length=WINDOW,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def save_tiny(family: str, folder: Path, add_bos: bool = True, **build_options: Any) -> Path:
    """Saves model and tokenizer of `family` to `folder`, so that `from_pretrained(folder)` works; returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    build(family, **build_options).save_pretrained(folder)
    tiny_tokenizer(add_bos=add_bos and family != "t5").save_pretrained(folder)
    return folder


def token_rows(rows: int = 6, length: int = 24, seed: int = 0) -> torch.Tensor:
    """Returns random calibration rows (rows, length) int64, BOS first, ids that every tiny model knows."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 400, (rows, length), generator=generator)
    ids[:, 0] = BOS
    return ids
