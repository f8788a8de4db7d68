"""Method "block_influence": whole blocks go, those first that change the hidden states least (ShortGPT, 2024).

Block influence of block i: 1 - mean over calibration tokens of cos(h_i, h_i+1), h_i entering it and h_i+1 leaving it,
measured once on the dense model. It is where ShortOPD starts from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from prune_hooks.errors import PruneError
from prune_hooks.structured.registry import Job, StructuredOutcome, register_structured
from prune_hooks.targets import Targets
from prune_hooks.walk import walk

FAMILIES = ("gemma3_text", "gpt2", "llama", "mistral", "mixtral", "opt", "phi3", "qwen3", "qwen3_moe")
_T5 = "its first blocks hold the position bias of all, and encoder and decoder would have to be shortened alike"


@register_structured("block_influence", FAMILIES, reasons={"t5": _T5, "mt5": _T5})
def block_influence(job: Job) -> StructuredOutcome:
    """Removes the least influential blocks; their number is the nearest to the asked share of block parameters."""
    config = job.model.config
    if getattr(config, "scale_attn_by_inverse_layer_idx", False):
        raise PruneError(
            "method 'block_influence' on a model with scale_attn_by_inverse_layer_idx: its attention is scaled by each "
            "block's number, which removal changes; expected a model without it, use method=heads"
        )
    influence = measure(job)
    sizes = [sum(p.numel() for p in block.module.parameters()) for block in job.targets.blocks]
    gone = choose(influence, sizes, job.spec.sparsity)
    if not gone:
        raise PruneError(
            f"method 'block_influence' at sparsity {job.spec.sparsity:g} of {len(sizes)} blocks removes none: expected "
            f"at least {min(sizes) / sum(sizes) / 2:.3f}, half of the smallest block's share; raise sparsity"
        )
    remove(job.model, job.targets, gone)
    layers = [
        {"block": block.name, "influence": value, "removed": number in gone}
        for number, (block, value) in enumerate(zip(job.targets.blocks, influence, strict=True))
    ]
    return StructuredOutcome(layers, "from_pretrained")


def measure(job: Job) -> list[float]:
    """Returns each block's influence."""
    steps = walk(job.model, job.targets, job.batches(), job.precision)
    found = []
    for step in tqdm(steps, "measuring", len(job.targets.blocks), unit="block", disable=not job.progress):
        total, tokens = 0.0, 0
        with job.precision.at_hand(step.block):
            for batch in step.batches:
                entered = step.hidden(batch)
                step.advance(batch)
                cosines = nn.functional.cosine_similarity(entered.float(), step.hidden(batch).float(), dim=-1)
                total += float(cosines.sum(dtype=torch.float64))
                tokens += cosines.numel()
        found.append(1 - total / tokens)
    return found


def choose(influence: Sequence[float], sizes: Sequence[int], sparsity: float) -> list[int]:
    """Returns the numbers of the blocks to remove, ascending; at least one block stays.

    Args:
        influence: of each block; of equal ones the first goes.
        sizes: parameters of each block.
        sparsity: share of their sum to remove; the nearest number of blocks is taken, the smaller of two as near.
    """
    order = sorted(range(len(sizes)), key=lambda number: (influence[number], number))
    sums = [sum(sizes[number] for number in order[:count]) for count in range(len(sizes))]
    count = min(range(len(sizes)), key=lambda count: (abs(sums[count] - sparsity * sum(sizes)), count))
    return sorted(order[:count])


def remove(model: Any, targets: Targets, gone: Sequence[int]) -> None:
    """Takes blocks out of the model and renumbers the rest, in modules and configuration alike."""
    stack = targets.blocks[0].stack
    left = [number for number in range(len(targets.blocks)) if number not in gone]
    kept = nn.ModuleList([targets.blocks[number].module for number in left])
    kept.training = model.get_submodule(stack).training
    parent, _, name = stack.rpartition(".")
    setattr(model.get_submodule(parent), name, kept)
    for index, block in enumerate(kept):
        for module in block.modules():
            if hasattr(module, "layer_idx"):
                setattr(module, "layer_idx", index)  # noqa: B010  # typed as Tensor or Module otherwise
    config = model.config
    if config.model_type == "qwen3_moe":
        # Which blocks have a plain MLP is told by number, and by the parity of numbers.
        config.mlp_only_layers = [i for i, block in enumerate(kept) if not hasattr(block.mlp, "experts")]
        config.decoder_sparse_step = 1
    if getattr(config, "layer_types", None) is not None:
        config.layer_types = [config.layer_types[number] for number in left]
        owner: Any = model.get_submodule(parent)
        if hasattr(owner, "has_sliding_layers"):
            owner.has_sliding_layers = "sliding_attention" in config.layer_types
    config.num_hidden_layers = len(left)
