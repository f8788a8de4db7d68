"""Models of known shapes with random weights, for `gpu_pruning.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, Gemma3TextConfig, LlamaConfig


@dataclass(frozen=True)
class Shape:
    """A model with random weights."""

    name: str
    config: Any
    dtype: torch.dtype
    rows: int
    length: int


def gemma(tiny: bool, dtype: torch.dtype) -> Shape:
    """The shape of Gemma 3 270M, or a small relative."""
    config = Gemma3TextConfig(
        vocab_size=512 if tiny else 262_144,
        hidden_size=64 if tiny else 640,
        intermediate_size=128 if tiny else 2_048,
        num_hidden_layers=2 if tiny else 18,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=16 if tiny else 256,
        sliding_window=16 if tiny else 512,
        max_position_embeddings=4_096,
        query_pre_attn_scalar=16 if tiny else 256,
    )
    return Shape("gemma-3-270m", config, dtype, *((4, 32) if tiny else (32, 512)))


def llama(tiny: bool) -> Shape:
    """The first 8 blocks of an 8B Llama in bfloat16, or a small relative."""
    config = LlamaConfig(
        vocab_size=512 if tiny else 128_256,
        hidden_size=64 if tiny else 4_096,
        intermediate_size=160 if tiny else 14_336,
        num_hidden_layers=2 if tiny else 8,
        num_attention_heads=4 if tiny else 32,
        num_key_value_heads=2 if tiny else 8,
        max_position_embeddings=4_096,
        tie_word_embeddings=False,
    )
    return Shape("llama-8b, 8 blocks", config, torch.bfloat16, *((4, 32) if tiny else (16, 2_048)))


def build(shape: Shape, device: torch.device) -> torch.nn.Module:
    """Make the model with random weights, on the device from the start."""
    torch.manual_seed(0)
    with device:
        model = AutoModelForCausalLM.from_config(shape.config, dtype=shape.dtype, attn_implementation="sdpa")
    return model.eval()


def token_rows(shape: Shape) -> torch.Tensor:
    """Random rows (rows, length) int64 on the host."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, shape.config.vocab_size, (shape.rows, shape.length), generator=generator)
