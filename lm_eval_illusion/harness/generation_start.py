"""The start of answers: transformers prepares a batch, and stands back before its own loop.

It prepares masks, positions, the cache a model wants and encoder states: its `generate` hands over to `_begin` where
its own loop would start, so the first forward is stock's.
"""

from __future__ import annotations

from typing import Any

import torch

from lm_eval_illusion.harness.generation_batch import Batch
from lm_eval_illusion.harness.generation_cache import CannotRunError

NEUTRAL: dict[str, Any] = {
    "do_sample": False,
    "num_beams": 1,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_new_tokens": None,
    "min_length": 0,
}
"""Greedy means the highest logit: a checkpoint's own generation_config must not bend it."""


def begin(model: Any, ids: torch.Tensor, mask: torch.Tensor, *, limit: int, pad: int) -> Batch:
    """Let transformers prepare a batch.

    Args:
        model: A transformers model with `generate`.
        ids: Prompt tokens (rows, positions), int64, on the device the model reads from: left-padded, or right-padded
            for an encoder.
        mask: Attention mask of the same shape.
        limit: Most new tokens of a row.
        pad: Token id for padding.

    Raises:
        CannotRunError: Where rows cannot leave a batch of this model.
    """
    if is_sharded(model):
        raise CannotRunError("its processes hold parts of it and must take their steps together")
    try:
        made = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_length=ids.shape[1] + limit,
            pad_token_id=pad,
            use_cache=True,
            custom_generate=_begin,
            **NEUTRAL,
        )
    except (CannotRunError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise CannotRunError(f"transformers cannot prepare it ({type(error).__name__})") from error
    if not isinstance(made, Batch):
        raise CannotRunError("its generate is its own")
    return made


def is_sharded(model: Any) -> bool:
    """Say whether several processes hold parts of the model, so that each step is taken by all of them together."""
    if not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
        return False
    from transformers.distributed.fsdp import is_fsdp_managed_module
    from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

    return bool(is_deepspeed_zero3_enabled() or is_fsdp_managed_module(model))


def _begin(model: Any, input_ids: torch.Tensor, *, generation_config: Any, **told: Any) -> Batch:
    """Stand in for transformers' decoding loop: take what it has prepared."""
    told = {name: value for name, value in told.items() if name not in ("logits_processor", "stopping_criteria")}
    ends = generation_config._eos_token_tensor
    return Batch(model, input_ids, told, frozenset(() if ends is None else ends.flatten().tolist()))
