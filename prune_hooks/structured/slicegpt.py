"""Method "slicegpt": the residual stream is rotated to its principal directions, and the last of them are dropped.

Ashkboos et al. 2024, as in their code (microsoft/TransformerCompression): the signals are the stream before each norm,
with all earlier slicing in place; the gains of the norms go into the matrices behind them; the new width is
int((1 - s) * d) rounded down to a multiple of 8; the last block's output and the head stay at full width unless asked.
Here the dense block runs on the projected stream, which is the sliced block's in the old basis, so that a block is
rewritten once, when its three bases are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from tqdm import tqdm

from prune_hooks.errors import PruneError
from prune_hooks.options import Option
from prune_hooks.structured.families import FAMILIES, model_type
from prune_hooks.structured.layout import keep_layout
from prune_hooks.structured.registry import Job, StructuredOutcome, register_structured
from prune_hooks.structured.sliced import slice_block, slice_ends
from prune_hooks.walk import Step, walk

MULTIPLE = 8
_GEMMA = (
    "Gemma normalises each sub-layer's output before it is added to the stream, so that the norm's gain would have to "
    "become one more matrix a sub-layer and nothing would be saved"
)


@register_structured(
    "slicegpt",
    ("llama", "mistral", "phi3", "qwen3"),
    options={"head": Option(0, least=0, most=1, about="1: the last block's output and the head are narrowed too")},
    reasons=dict.fromkeys(("gemma2", "gemma3", "gemma3_text"), _GEMMA),
)
def slicegpt(job: Job) -> StructuredOutcome:
    """Slices the stream; sparsity is the share of its directions, so that fewer parameters go than that share."""
    width = int(job.model.config.hidden_size)
    kept = sliced_width(width, job.spec.sparsity)
    layers = slice_model(job, kept, bool(job.options["head"]))
    return StructuredOutcome(layers, "load_sliced", {"width": [width, kept], "head_sliced": bool(job.options["head"])})


def sliced_width(width: int, sparsity: float) -> int:
    """Returns int((1 - s) * d) rounded down to a multiple of 8.

    Raises:
        PruneError: if nothing is left.
    """
    kept = int((1 - sparsity) * width) // MULTIPLE * MULTIPLE
    if kept < MULTIPLE:
        raise PruneError(
            f"method 'slicegpt' at sparsity {sparsity:g} of width {width} leaves {kept} directions: expected at least "
            f"{MULTIPLE}, as widths are rounded down to a multiple of {MULTIPLE}; lower sparsity"
        )
    return kept


def slice_model(job: Job, kept: int, head: bool) -> list[dict[str, Any]]:
    """Slices a dense model in place.

    Args:
        job: the model and its calibration rows.
        kept: directions of the stream left, at most its width; equal to it, the model is only rotated.
        head: whether the last block's output and the head are narrowed too.

    Returns:
        For each block the share of the signal's energy in the directions dropped behind attention and behind the MLP.
    """
    model, family = job.model, FAMILIES[model_type(job.model)]
    dense_config = model.config.to_dict()
    layers: list[dict[str, Any]] = []
    entering = leaving = torch.empty(0)
    steps = walk(model, job.targets, job.batches(), job.precision)
    for step in tqdm(steps, "slicing", len(job.targets.blocks), unit="block", disable=not job.progress):
        block: Any = step.block.module
        last = step.index == len(job.targets.blocks) - 1
        if step.index == 0:
            leaving, _ = principal((step.hidden(batch) for batch in step.batches), kept)
            first = leaving
            for batch in step.batches:
                step.put(batch, projected(step.hidden(batch), leaving))
        entering = leaving
        with job.precision.at_hand(step.block), job.precision.forward():
            middles = [_before_mlp(step, batch) for batch in step.batches]
            middle, lost_attention = principal(middles, kept)
            for batch in step.batches:
                x = projected(middles[batch], middle)
                step.put(batch, x + block.mlp(block.post_attention_layernorm(x)))
        del middles
        leaving, lost_mlp = principal(
            (step.hidden(batch) for batch in step.batches), block_width(model) if last and not head else kept
        )
        for batch in step.batches:
            step.put(batch, projected(step.hidden(batch), leaving))
        slice_block(family, step.block.name, block, entering, middle, leaving)
        layers.append({"block": step.block.name, "dropped_energy": [lost_attention, lost_mlp]})
    slice_ends(model, first, leaving)
    keep_layout(model, {"kind": "slicegpt", "config": dense_config, "kept": kept, "head": head})
    return layers


def block_width(model: Any) -> int:
    """Returns the dense width of the stream."""
    return int(model.config.hidden_size)


def principal(signals: Any, kept: int) -> tuple[torch.Tensor, float]:
    """Returns the principal directions of signals about the origin, calculated in float64.

    Args:
        signals: tensors (rows, tokens, d), taken one after the other.
        kept: how many directions.

    Returns:
        (d, kept) float64, orthonormal columns, largest first; and the share of energy in the directions left out.
    """
    total: torch.Tensor | None = None
    for signal in signals:
        x = signal.reshape(-1, signal.shape[-1]).double()
        total = x.T @ x if total is None else total.addmm_(x.T, x)
    assert total is not None
    values, vectors = torch.linalg.eigh(total)
    lost = float(values[: len(values) - kept].clamp(min=0).sum() / values.clamp(min=0).sum())
    return vectors.flip(1)[:, :kept].contiguous(), lost


def projected(hidden: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    """Returns (..., d) with all directions but those of `basis` (d, kept) taken out, in the dtype it came in."""
    return ((hidden.double() @ basis) @ basis.T).to(hidden.dtype)


class _Seen(Exception):
    """The stream before the MLP has been seen."""


def _before_mlp(step: Step, batch: int) -> torch.Tensor:
    """Returns the stream that the block's second norm reads."""
    seen: list[torch.Tensor] = []
    block: Any = step.block.module

    def look(_: Any, args: tuple[torch.Tensor, ...]) -> None:
        seen.append(args[0])
        raise _Seen

    with _hooked(block.post_attention_layernorm, look), suppress(_Seen):
        step.run(batch)
    return seen[0]


@contextmanager
def _hooked(module: Any, look: Callable[..., None]) -> Iterator[None]:
    handle = module.register_forward_pre_hook(look)
    try:
        yield
    finally:
        handle.remove()
