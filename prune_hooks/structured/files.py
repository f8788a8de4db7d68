"""Saving and reloading models whose shapes transformers cannot rebuild: a small JSON beside one safetensors file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from transformers import AutoConfig, AutoModelForCausalLM

from prune_hooks.errors import PruneError
from prune_hooks.structured.cut import cut_to_shapes
from prune_hooks.structured.families import FAMILIES
from prune_hooks.structured.layout import keep_layout, layout_of
from prune_hooks.structured.sliced import slice_block, slice_ends

LAYOUT_FILE = "prune_hooks.json"
WEIGHTS_FILE = "prune_hooks.safetensors"
_SCHEMA = 1


def save_sliced(model: Any, folder: str | Path, tokenizer: Any = None) -> Path:
    """Saves a model that a structured method has cut, with what is needed to rebuild its shapes.

    Args:
        model: cut by method slicegpt, heads or l0.
        folder: made if it is not there.
        tokenizer: saved beside it, if given.

    Returns:
        The folder.

    Raises:
        PruneError: for a model that save_pretrained and from_pretrained bring back by themselves.
    """
    layout = layout_of(model)
    if layout is None:
        raise PruneError(
            f"{type(model).__name__} has shapes that its configuration describes: expected a model whose receipt says "
            "load_sliced; use model.save_pretrained"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    attention = getattr(model.config, "_attn_implementation", None)
    written = {"schema": _SCHEMA, "dtype": dtype, "attn_implementation": attention, **layout}
    (folder / LAYOUT_FILE).write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    save_model(model, str(folder / WEIGHTS_FILE), metadata={"format": "pt"})
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


def load_sliced(folder: str | Path, device: Any = "cpu") -> Any:
    """Loads a model saved by `save_sliced`, in the dtype it was saved in and in evaluation mode.

    Args:
        folder: what `save_sliced` wrote.
        device: where the model goes.

    Raises:
        PruneError: if the folder holds no such model, or one of a later version.
    """
    path = Path(folder) / LAYOUT_FILE
    if not path.is_file():
        raise PruneError(
            f"{folder} has no {LAYOUT_FILE}: expected a folder written by save_sliced; an ordinary checkpoint loads "
            "with from_pretrained"
        )
    layout: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if layout.pop("schema", None) != _SCHEMA:
        raise PruneError(f"{path} is of another version than {_SCHEMA}: expected one; update lm-eval-illusion")
    dtype, attention = getattr(torch, layout.pop("dtype")), layout.pop("attn_implementation")
    config = AutoConfig.for_model(**layout["config"])
    model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
    with torch.no_grad():
        _shape(model, layout)
    keep_layout(model, layout)
    load_model(model, str(Path(folder) / WEIGHTS_FILE))
    if (Path(folder) / "generation_config.json").is_file():
        model.generation_config = type(model.generation_config).from_pretrained(folder)
    return model.to(device).eval()


def _shape(model: Any, layout: dict[str, Any]) -> None:
    """Gives a dense model the shapes of the layout; its values are whatever they are."""
    family = FAMILIES[model.config.model_type]
    if layout["kind"] == "cut":
        cut_to_shapes(family, model, layout["blocks"])
        return
    wide = torch.eye(int(model.config.hidden_size), dtype=torch.float64)
    narrow = wide[:, : layout["kept"]]
    blocks = model.get_submodule(family.blocks)
    leaving = narrow if layout["head"] else wide
    for number, block in enumerate(blocks):
        ends = number == len(blocks) - 1
        slice_block(family, f"{family.blocks}.{number}", block, narrow, narrow, leaving if ends else narrow)
    slice_ends(model, narrow, leaving)
