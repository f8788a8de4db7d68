"""Parameters that hold several matrices at once: which part is which, and what each part reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from prune_hooks.errors import PruneError

Part = tuple[str, tuple[int, int] | None]
"""A part's label ("" for the whole matrix) and its output rows (None for all)."""


def linear_parts(leaf: str, owner: Any, module: nn.Module, out_features: int) -> list[Part]:
    """Splits a fused Linear or Conv1D into its logical matrices.

    Known layouts: gate_up_proj (halves), Phi-3's qkv_proj (heads, then key and value heads), GPT-2's c_attn (thirds).
    Layouts that interleave heads (query_key_value and the like) stay one matrix: row-wise methods see no difference.

    Args:
        leaf: the module's own name.
        owner: the module that holds it.
        module: the Linear or Conv1D.
        out_features: its number of output rows.
    """
    if leaf == "gate_up_proj" and out_features % 2 == 0:
        return _split(("gate", "up"), (out_features // 2, out_features // 2))
    if leaf == "qkv_proj" and type(owner).__name__.startswith("Phi"):
        config, head_dim = owner.config, owner.head_dim
        queries, keys = config.num_attention_heads * head_dim, config.num_key_value_heads * head_dim
        if queries + 2 * keys == out_features:
            return _split(("q", "k", "v"), (queries, keys, keys))
    if leaf == "c_attn" and isinstance(module, Conv1D):
        width = module.weight.shape[0]
        labels = {3 * width: ("q", "k", "v"), 2 * width: ("k", "v")}.get(out_features)
        if labels:
            return _split(labels, (width,) * len(labels))
    return [("", None)]


def is_experts(module: nn.Module) -> bool:
    """Tells whether a module is a fused experts layer in transformers' common layout (3-D up and down tensors)."""
    down = getattr(module, "down_proj", None)
    return isinstance(down, nn.Parameter) and down.dim() == 3 and hasattr(module, "is_transposed")


def expert_stages(module: Any) -> list[tuple[str, list[Part]]]:
    """Returns, in the order they are applied, the parameter names of an experts layer and one expert's parts."""
    if not module.has_gate:
        return [("up_proj", [("", None)]), ("down_proj", [("", None)])]
    out_features = module.gate_up_proj.shape[2 if module.is_transposed else 1]
    halves = _split(("gate", "up"), (out_features // 2, out_features // 2))
    # Interleaved rows (gate0, up0, gate1, ...) are no contiguous view: the pair stays one matrix.
    return [("gate_up_proj", halves if module.is_concatenated else [("", None)]), ("down_proj", [("", None)])]


def expert_inputs(
    name: str, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], stage: int
) -> Iterator[torch.Tensor]:
    """Yields, expert by expert, what the stage's weights read: (tokens routed to the expert, in).

    Args:
        name: the module's name, for errors.
        module: the experts layer.
        args: positional arguments of its forward: hidden states (tokens, in), chosen experts (tokens, top_k), weights.
        kwargs: keyword arguments of its forward.
        stage: 0 for the tokens themselves, 1 for the expert's own hidden activation, computed from its current weights.
    """
    hidden, chosen = expert_tokens(name, args, kwargs)
    for expert in range(module.down_proj.shape[0]):
        tokens = hidden[(chosen == expert).any(dim=1)]
        yield tokens if stage == 0 else _activation(module, expert, tokens)


def expert_tokens(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what an experts layer is called with: hidden states (tokens, in) and chosen experts (tokens, top_k)."""
    bound = dict(zip(("hidden_states", "top_k_index", "top_k_weights"), args, strict=False)) | kwargs
    hidden, chosen = bound.get("hidden_states"), bound.get("top_k_index")
    if hidden is None or chosen is None:
        raise PruneError(
            f"{name} is called with {sorted(bound)}: expected hidden_states and top_k_index (transformers 5)"
        )
    hidden = hidden.reshape(-1, hidden.shape[-1])
    chosen = chosen.reshape(hidden.shape[0], -1)
    return hidden, chosen


def _activation(module: Any, expert: int, tokens: torch.Tensor) -> torch.Tensor:
    first = "gate_up_proj" if module.has_gate else "up_proj"
    weight = getattr(module, first)[expert]
    bias = getattr(module, f"{first}_bias")[expert] if module.has_bias else None
    out = functional.linear(tokens, weight.T if module.is_transposed else weight, bias)
    hidden: torch.Tensor = module._apply_gate(out) if module.has_gate else module.act_fn(out)
    return hidden


def _split(labels: tuple[str, ...], sizes: tuple[int, ...]) -> list[Part]:
    parts: list[Part] = []
    start = 0
    for label, size in zip(labels, sizes, strict=True):
        parts.append((label, (start, start + size)))
        start += size
    return parts
