"""Weights that accelerate keeps off the execution device: brought in for a while, and written back.

A model loaded with `device_map` (or `cpu_offload`, `disk_offload`) has parameters on the meta device, and hooks that
read the values from a map when a module runs. What is pruned goes back into that map: in host memory in place; on disk
into new files beside the old ones, so that neither the checkpoint nor the offload folder's own files ever change. The
new files vanish with the model.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from prune_hooks.errors import PruneError

Place = tuple[int, str]
"""id of a module and the name of a parameter or buffer in it."""


@dataclass(frozen=True, eq=False)
class Slot:
    """One offloaded tensor."""

    module: nn.Module
    """The module that holds it."""
    key: str
    """Its own name in the module."""
    hook: Any
    """accelerate's AlignDevicesHook that brings it in."""
    name: str
    """Its name in the hook's map."""

    @property
    def device(self) -> torch.device:
        """Where it is used."""
        return torch.device(self.hook.execution_device)

    @property
    def table(self) -> dict[str, Any]:
        """The module's own table that it stands in."""
        return self.module._parameters if self.key in self.module._parameters else self.module._buffers

    def read(self) -> torch.Tensor:
        """Returns the value, wherever it is kept; not to be written to."""
        value: torch.Tensor = self.hook.weights_map[self.name]
        return value

    def require_writable(self) -> None:
        """Raises PruneError if a new value could not be kept."""
        keeper, name = _keeper(self.hook.weights_map, self.name)
        if isinstance(keeper, dict):
            return
        if not _is_loader(keeper):
            raise PruneError(
                f"{name} is offloaded into a {type(keeper).__name__}: expected accelerate's own map in memory or on "
                "disk; load the model with from_pretrained and device_map"
            )
        if keeper.save_folder is None:
            raise PruneError(
                f"{name} is offloaded to the checkpoint's own files, which stay as they are: expected a folder for the "
                "pruned weights; load the model with offload_folder=DIR"
            )

    def write(self, value: torch.Tensor) -> None:
        """Keeps a new value, so that every later forward of the model reads it."""
        keeper, name = _keeper(self.hook.weights_map, self.name)
        if isinstance(keeper, dict):
            keeper[name].copy_(value)  # in place: tied weights share the memory
        else:
            _write_file(keeper, name, value)


def find_slots(root: nn.Module) -> dict[Place, Slot]:
    """Returns the offloaded parameters and buffers of a module and all it contains; empty if nothing is offloaded."""
    slots: dict[Place, Slot] = {}
    for module in root.modules():
        for hook in _offloading_hooks(module):
            tensors = [name for name, _ in module.named_parameters(recurse=hook.place_submodules)]
            if hook.offload_buffers:
                tensors += [name for name, _ in module.named_buffers(recurse=hook.place_submodules)]
            for name in tensors:
                path, _, key = name.rpartition(".")
                owner = module.get_submodule(path)
                if key not in owner._non_persistent_buffers_set:
                    slots[id(owner), key] = Slot(owner, key, hook, name)
    return slots


def first_device(model: nn.Module) -> torch.device:
    """Returns the device that a model's inputs belong on: where its first parameter is used."""
    parameter = next(model.parameters())
    if not parameter.is_meta:
        return parameter.device
    return next(iter(find_slots(model).values())).device


@contextmanager
def brought_in(root: nn.Module, write: Collection[Place] = ()) -> Iterator[None]:
    """Holds a module's offloaded tensors on their execution device; inside, it runs and is changed like any other.

    Args:
        root: the module.
        write: what is written back in the end, unless an exception ends it; all the rest is only read.
    """
    slots = find_slots(root)
    away = {place: slot.table[slot.key] for place, slot in slots.items() if slot.table[slot.key].is_meta}
    hooks = {id(slot.hook): slot.hook for slot in slots.values()}
    try:
        for place, was in away.items():
            slot = slots[place]
            value = slot.read().to(slot.device)
            slot.table[slot.key] = nn.Parameter(value, was.requires_grad) if isinstance(was, nn.Parameter) else value
        for hook in hooks.values():
            hook.offload = False
        yield
        for place in away:
            if place in write:
                slots[place].write(slots[place].table[slots[place].key].detach())
    finally:
        for hook in hooks.values():
            hook.offload = True
        for place, was in away.items():
            slots[place].table[slots[place].key] = was


def _offloading_hooks(module: nn.Module) -> Iterator[Any]:
    hook = getattr(module, "_hf_hook", None)
    if hook is None:
        return
    from accelerate.hooks import AlignDevicesHook, SequentialHook

    for one in hook.hooks if isinstance(hook, SequentialHook) else (hook,):
        if isinstance(one, AlignDevicesHook) and one.offload and one.weights_map is not None:
            yield one


def _keeper(kept: Mapping[str, torch.Tensor], name: str) -> tuple[Any, str]:
    """Returns the map that truly holds a tensor (a dict, or a loader of files), and its name there."""
    from accelerate.utils import PrefixedDataset

    keeper: Any = kept
    while isinstance(keeper, PrefixedDataset):
        keeper, name = keeper.dataset, f"{keeper.prefix}{name}"
    if _is_loader(keeper) and name in keeper.state_dict:
        keeper = keeper.state_dict
    return keeper, name


def _is_loader(kept: object) -> bool:
    from accelerate.utils import OffloadedWeightsLoader

    return isinstance(kept, OffloadedWeightsLoader)


def _write_file(loader: Any, name: str, value: torch.Tensor) -> None:
    """Writes a tensor to a file of its own and leads the loader there."""
    from safetensors.torch import save_file

    path = _scratch_folder(loader) / f"{name}.safetensors"
    part = path.with_suffix(".part")
    save_file({name: value.contiguous().cpu()}, part)
    os.replace(part, path)
    dtype = str(value.dtype).removeprefix("torch.")
    loader.index[name] = {"safetensors_file": str(path), "weight_name": name, "dtype": dtype}


def _scratch_folder(loader: Any) -> Path:
    """Returns the folder for one model's pruned weights, under its offload folder, removed when the model is."""
    folder: Path | None = getattr(loader, "pruned_folder", None)
    if folder is None:
        Path(loader.save_folder).mkdir(parents=True, exist_ok=True)
        folder = loader.pruned_folder = Path(tempfile.mkdtemp(prefix="pruned-", dir=loader.save_folder))
        weakref.finalize(loader, shutil.rmtree, folder, ignore_errors=True)
    return folder
