"""Where the attention heads and MLP channels of each architecture lie, and what belongs to each, as indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D


@dataclass(frozen=True)
class Family:
    """Names of modules in a block; equal names stand for one fused matrix, its parts in the order given."""

    blocks: str
    """The list of blocks, in the model."""
    attention: tuple[str, str, str]
    """Query, key and value projection."""
    attention_out: str
    mlp: tuple[str, ...]
    """What makes the MLP's channels (gate and up, or one)."""
    mlp_out: str
    widths: tuple[str, ...]
    """Configuration entries that can say what is left: MLP width, and query and key-value heads where head_dim is an
    entry of its own."""


_LLAMA = Family(
    "model.layers",
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attn.o_proj",
    ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down_proj",
    ("intermediate_size", "num_attention_heads", "num_key_value_heads"),
)

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "qwen3": _LLAMA,
    "mistral": _LLAMA,
    "gemma3_text": _LLAMA,
    "phi3": Family(
        "model.layers",
        ("self_attn.qkv_proj",) * 3,
        "self_attn.o_proj",
        ("mlp.gate_up_proj",) * 2,
        "mlp.down_proj",
        _LLAMA.widths,
    ),
    "gpt2": Family("transformer.h", ("attn.c_attn",) * 3, "attn.c_proj", ("mlp.c_fc",), "mlp.c_proj", ("n_inner",)),
    "opt": Family(
        "model.decoder.layers",
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "self_attn.out_proj",
        ("fc1",),
        "fc2",
        ("ffn_dim",),
    ),
}
"""`config.model_type` -> where its heads and channels are."""


def model_type(model: nn.Module) -> str:
    """Returns `config.model_type`, or the class's name where there is none."""
    return str(getattr(getattr(model, "config", None), "model_type", "") or type(model).__name__)


@dataclass(frozen=True, eq=False)
class Part:
    """The units of one kind in a block (key-value groups with their query heads, or MLP channels): what each holds."""

    units: int
    rows: dict[str, torch.Tensor]
    """Module -> (units, n): the output rows that belong to each unit."""
    out: str
    """The module that reads the units."""
    columns: torch.Tensor
    """(units, m): the input columns of `out` that belong to each unit."""

    def size(self, block: nn.Module) -> int:
        """Returns the parameters that go with one unit, biases included."""
        count = matrix(block.get_submodule(self.out)).shape[0] * self.columns.shape[1]
        for name, rows in self.rows.items():
            module = block.get_submodule(name)
            count += rows.shape[1] * (matrix(module).shape[1] + (module.bias is not None))
        return count


def matrix(module: nn.Module) -> torch.Tensor:
    """Returns a Linear's or Conv1D's weight as (out, in), a view."""
    weight: torch.Tensor = module.weight.detach()  # type: ignore[operator]
    return weight.T if isinstance(module, Conv1D) else weight


def attention_part(family: Family, block: nn.Module) -> Part:
    """Returns a block's key-value groups, told from the shapes as they are now."""
    head = int(owner(block, family.attention_out).head_dim)
    queries = matrix(block.get_submodule(family.attention_out)).shape[1] // head
    modules = dict.fromkeys(family.attention)
    rows = sum(matrix(block.get_submodule(name)).shape[0] for name in modules)
    groups = (rows // head - queries) // 2
    widths = (queries // groups * head, head, head)
    indices: dict[str, list[torch.Tensor]] = {name: [] for name in modules}
    start = 0
    for name, width in zip(family.attention, widths, strict=True):
        if len(modules) > 1:
            start = 0
        indices[name].append(_runs(start, groups, width))
        start += groups * width
    return Part(
        groups,
        {name: torch.cat(runs, dim=1) for name, runs in indices.items()},
        family.attention_out,
        _runs(0, groups, widths[0]),
    )


def mlp_part(family: Family, block: nn.Module) -> Part:
    """Returns a block's MLP channels."""
    width = matrix(block.get_submodule(family.mlp_out)).shape[1]
    modules = dict.fromkeys(family.mlp)
    parts = len(family.mlp) // len(modules)
    fused = torch.cat([_runs(number * width, width, 1) for number in range(parts)], dim=1)
    return Part(width, dict.fromkeys(modules, fused), family.mlp_out, _runs(0, width, 1))


def owner(block: nn.Module, name: str) -> Any:
    """Returns the module that holds the module of that name."""
    return block.get_submodule(name.rpartition(".")[0])


def _runs(start: int, units: int, width: int) -> torch.Tensor:
    return torch.arange(start, start + units * width).reshape(units, width)
