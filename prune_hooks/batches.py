"""Calibration rows to model inputs, and how many rows go through a block at once."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from prune_hooks.capture import Batch
from prune_hooks.errors import PruneError
from prune_hooks.targets import Targets

CPU_BUDGET = 1 << 27
"""Bytes of activations in one forward of a block on the CPU: fixed, so that sums do not depend on the machine. Small,
since glibc asks the system for every tensor beyond 32 MiB anew, which costs a fault for each of its pages."""
CUDA_SHARE = 0.25
"""Share of the device memory beside the model allowed for the same. It counts from the card's whole memory, not from
what is free: other processes on the card must not change sums, and with them nearly tied masks."""
MOST_BATCHES = {"cpu": 64}
"""In the order "weight", where each batch is a halted forward, by device."""
_MOST_ELSEWHERE = 16


def make_batches(model: nn.Module, rows: torch.Tensor, batch_rows: int) -> list[Batch]:
    """Splits token rows (n, length) int64 into model inputs.

    An encoder-decoder reads the first half of a row in its encoder and the second half, shifted right, in its decoder.

    Raises:
        PruneError: for ids outside the vocabulary, or rows too short to split.
    """
    if rows.dim() != 2 or 0 in rows.shape or rows.is_floating_point():
        raise PruneError(
            f"calibration rows have shape {tuple(rows.shape)}, {rows.dtype}: expected (n, length) integers"
        )
    vocabulary = int(model.get_input_embeddings().weight.shape[0])  # type: ignore[operator]
    low, high = int(rows.min()), int(rows.max())
    if low < 0 or high >= vocabulary:
        raise PruneError(
            f"calibration rows hold token {high if high >= vocabulary else low}: expected ids from 0 to "
            f"{vocabulary - 1}; tokenise with this model's tokenizer"
        )
    config: Any = model.config
    start = int(config.decoder_start_token_id) if config.is_encoder_decoder else None
    return [_inputs(part, start) for part in torch.split(rows, batch_rows)]


def make_labels(model: nn.Module, labels: torch.Tensor, batch_rows: int) -> list[Batch]:
    """Splits a table that has an entry for each token of the rows just as `make_batches` splits them.

    The decoder's start token gets the entry of the first token that the decoder is to foretell.
    """
    config: Any = model.config
    half = labels.shape[1] // 2
    parts = torch.split(labels, batch_rows)
    return [_inputs(part, part[:, half : half + 1] if config.is_encoder_decoder else None) for part in parts]


def _inputs(part: torch.Tensor, start: int | torch.Tensor | None) -> Batch:
    """Returns rows as a model's inputs: whole, or (with a start) in halves for encoder and decoder."""
    if start is None:
        return {"input_ids": part}
    if part.shape[1] < 2:
        raise PruneError("calibration rows of 1 token: an encoder-decoder needs at least 2, one for each half")
    half = part.shape[1] // 2
    first = start if isinstance(start, torch.Tensor) else torch.full((part.shape[0], 1), start, dtype=part.dtype)
    return {"input_ids": part[:, :half], "decoder_input_ids": torch.cat([first, part[:, half:-1]], dim=1)}


def rows_at_once(
    model: nn.Module, targets: Targets, shape: tuple[int, int], device: torch.device, sequential: str
) -> int:
    """Returns how many of `shape` = (rows, length) calibration rows go through a block in one forward, evenly split.

    A forward's memory is counted as, per token, six copies of the hidden state, four of the widest inner activation
    and, under eager attention, the scores of all heads against all positions in the model's dtype and in float32; in a
    mixture of experts the inner activation counts once for each expert a token visits.

    Args:
        model: the model.
        targets: its blocks.
        shape: number of rows and tokens a row.
        device: where the weights are.
        sequential: "weight" or "block".
    """
    config: Any = model.config.get_text_config()  # type: ignore[operator,union-attr]
    rows, length = shape
    itemsize = targets.weights()[0].parameter.element_size()
    widest = max(max(weight.matrix().shape) for weight in targets.weights())
    routed = int(getattr(config, "num_experts_per_tok", 1) or 1)
    per_token = (6 * int(config.hidden_size) + 4 * widest * routed) * itemsize
    if getattr(config, "_attn_implementation", "eager") == "eager":
        per_token += int(getattr(config, "num_attention_heads", 0)) * length * (itemsize + 4)
    budget = float(CPU_BUDGET)
    if device.type == "cuda":
        held = sum(p.numel() * p.element_size() for p in model.parameters() if not p.is_meta)
        budget = CUDA_SHARE * (torch.cuda.get_device_properties(device).total_memory - held)
    batches = math.ceil(rows / max(1, int(budget // (per_token * length))))
    if sequential == "weight":
        batches = min(batches, MOST_BATCHES.get(device.type, _MOST_ELSEWHERE))
    return math.ceil(rows / batches)
