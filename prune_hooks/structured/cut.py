"""Heads and channels physically removed: smaller matrices in the place of the old ones, and attributes that say so."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from prune_hooks.structured.families import Family, Part, attention_part, matrix, mlp_part, model_type, owner
from prune_hooks.structured.layout import keep_layout


def cut_part(family: Family, block: nn.Module, part: Part, kept: Sequence[int]) -> None:
    """Removes all units of a part but those kept (ascending numbers), in place of modules, never in a parameter."""
    chosen = torch.tensor(list(kept), dtype=torch.long)
    for name, rows in part.rows.items():
        _put(block, name, narrowed(block.get_submodule(name), rows=rows[chosen].flatten().sort().values))
    _put(block, part.out, narrowed(block.get_submodule(part.out), columns=part.columns[chosen].flatten()))
    if part.out == family.attention_out:
        _tell(owner(block, part.out), len(chosen), part.columns.shape[1])


def narrowed(module: Any, rows: torch.Tensor | None = None, columns: torch.Tensor | None = None) -> nn.Module:
    """Returns a new Linear or Conv1D with some output rows and input columns of another; its weight stays whole."""
    values, bias = matrix(module), module.bias
    if rows is not None:
        values = values.index_select(0, rows.to(values.device))
        bias = None if bias is None else bias.detach().index_select(0, rows.to(values.device))
    if columns is not None:
        values = values.index_select(1, columns.to(values.device))
    return projection(module, values, bias)


def projection(like: Any, values: torch.Tensor, bias: torch.Tensor | None) -> nn.Module:
    """Returns a layer of the same class with weight `values` (out, in) and bias (out,), each of its own memory."""
    out, width = values.shape
    with torch.device("meta"):
        layer: Any = Conv1D(out, width) if isinstance(like, Conv1D) else nn.Linear(width, out, bias=bias is not None)
    stored = values.T if isinstance(like, Conv1D) else values
    layer.weight = nn.Parameter(stored.clone(memory_format=torch.contiguous_format), like.weight.requires_grad)
    layer.bias = None if bias is None else nn.Parameter(bias.detach().clone(), like.weight.requires_grad)
    layer.training = like.training
    return layer  # type: ignore[no-any-return]


def settle(model: Any, family: Family, dense_config: dict[str, Any]) -> str:
    """Makes the configuration say what is left, where it can, after all blocks are cut.

    Args:
        model: cut.
        family: of the model.
        dense_config: the configuration as it was before.

    Returns:
        What reloads the model: "from_pretrained", or "load_sliced" where the configuration has no words for its shape
        (blocks of different widths; heads of GPT-2 and OPT, whose width is hidden_size / heads; numbers of heads that
        the configuration class refuses). A layout to be saved is then kept with the model.
    """
    shapes = [shape_of(family, block) for block in model.get_submodule(family.blocks)]
    first = shapes[0]
    layout = {"kind": "cut", "config": dense_config, "blocks": shapes}
    names = ("channels", "queries", "groups")
    entries = {entry: first[name] for entry, name in zip(family.widths, names, strict=False)}
    if "num_attention_heads" in entries:
        entries["head_dim"] = int(owner(model.get_submodule(family.blocks)[0], family.attention_out).head_dim)
    elif first["queries"] != model.config.num_attention_heads:
        entries.clear()
    if not entries or any(shape != first for shape in shapes) or not _describes(model.config, entries):
        keep_layout(model, layout)
        return "load_sliced"
    for entry, value in entries.items():
        setattr(model.config, entry, value)
    for block in model.get_submodule(family.blocks):
        attention = owner(block, family.attention_out)
        if model_type(model) == "phi3":
            attention.config = model.config
    return "from_pretrained"


def shape_of(family: Family, block: nn.Module) -> dict[str, int]:
    """Returns a block's numbers of key-value groups, query heads and MLP channels."""
    attention = attention_part(family, block)
    queries = attention.columns.numel() // int(owner(block, family.attention_out).head_dim)
    return {"groups": attention.units, "queries": queries, "channels": mlp_part(family, block).units}


def cut_to_shapes(family: Family, model: nn.Module, shapes: Sequence[dict[str, int]]) -> None:
    """Gives a dense model's blocks the shapes of a cut one, whichever units stay: their weights are to be loaded."""
    for block, shape in zip(model.get_submodule(family.blocks), shapes, strict=True):  # type: ignore[call-overload]
        cut_part(family, block, attention_part(family, block), range(shape["groups"]))
        cut_part(family, block, mlp_part(family, block), range(shape["channels"]))


def _put(block: nn.Module, name: str, module: nn.Module) -> None:
    setattr(owner(block, name), name.rpartition(".")[2], module)


def _tell(attention: Any, groups: int, width: int) -> None:
    """Corrects what an attention module remembers of its size.

    Args:
        attention: the module.
        groups: key-value groups left.
        width: query channels of one group.
    """
    queries = groups * width // int(attention.head_dim)
    for name, value in (("num_heads", queries), ("num_key_value_heads", groups), ("split_size", groups * width)):
        if hasattr(attention, name):
            setattr(attention, name, value)
    if type(attention).__name__.startswith("Phi3"):  # reads the configuration as it runs
        attention.config = copy.copy(attention.config)
        attention.config.num_attention_heads = queries
        attention.config.num_key_value_heads = groups


def _describes(config: Any, entries: dict[str, int]) -> bool:
    """Whether the configuration class takes these values; some want hidden_size divisible by the heads."""
    try:
        type(config)(**(config.to_dict() | entries))
    except Exception:
        return False
    return True
