"""Puts a pruned model back to its dense weights in place, bit for bit, from host memory or from its own files.

Only what `prune` writes to is kept: the parameters behind the prunable weights. A method that removes structures writes
to none, and the model's parts are put together again as they were. Every restoration is verified by the
hash that receipts carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from prune_hooks.errors import PruneError
from prune_hooks.receipt import hash_weights
from prune_hooks.structure import Structure
from prune_hooks.targets import find_targets
from prune_hooks.weights import Block

RESTORE = ("memory", "shards")
"""Where dense weights come back from: a copy in host memory, or the checkpoint's safetensors files."""

Read = Callable[[str], torch.Tensor]


class DenseWeights:
    """A dense model's prunable weights and the way to get them back."""

    def __init__(self, model: nn.Module, read: Read | None = None) -> None:
        """Notes the weights as they are now; copies them to host memory unless they can be read again.

        Args:
            model: with dense weights; accelerate may keep some of them off the device.
            read: parameter name -> the same tensor, on the CPU; None keeps a copy of each.

        Raises:
            PruneError: as `find_targets`; or if `read` does not give a parameter's very bits.
        """
        self._targets = find_targets(model)
        self._structure = Structure(model)
        self.digest = hash_weights(self._targets.opened())
        """SHA-256 of the dense weights, as in a receipt's `weights_sha256`."""
        copies: dict[str, torch.Tensor] = {}
        for block in self._targets.blocks:
            with block.opened():
                for name, parameter in _parameters(block):
                    if read is None:
                        copies[name] = parameter.detach().to("cpu", copy=True)
                    else:
                        _require_same(name, parameter, read(name))
        self._read = read or copies.__getitem__

    @torch.no_grad()
    def restore(self) -> None:
        """Writes the dense values into the model's own parameters.

        Raises:
            PruneError: if the result is not what was noted (files that changed meanwhile, memory at fault).
        """
        self._structure.restore()
        for block in self._targets.blocks:
            with block.opened(write=True):
                for name, parameter in _parameters(block):
                    parameter.copy_(self._read(name))
        found = hash_weights(self._targets.opened())
        if found != self.digest:
            raise PruneError(
                f"the restored weights have SHA-256 {found[:16]}: expected {self.digest[:16]}, that of the dense "
                "model; load it anew, and leave its files alone while it is in use"
            )


def _parameters(block: Block) -> Iterator[tuple[str, nn.Parameter]]:
    """Yields each parameter that holds prunable weights, by its name in the model."""
    named = {weight.name.partition("[")[0]: weight.parameter for weight in block.weights()}
    yield from named.items()


def shard_reader(model: nn.Module, files: Mapping[str, Path]) -> Read:
    """Returns a function that reads a model's parameters from safetensors files, one at a time.

    Args:
        model: whose parameters are asked for, for their names, and the dtype to convert to.
        files: name of a tensor -> the file that holds it.

    Raises:
        PruneError: from the function, for a parameter that is in no file under its own name (some are merged or
            renamed while loading).
    """
    from safetensors import safe_open

    dtypes = {name: parameter.dtype for name, parameter in model.named_parameters()}
    prefix = f"{getattr(model, 'base_model_prefix', '')}."

    def read(name: str) -> torch.Tensor:
        stored = next((n for n in (name, name.removeprefix(prefix), prefix + name) if n in files), None)
        if stored is None:
            raise PruneError(
                f"restore=shards: {name} is in no safetensors file of the checkpoint under that name: expected files "
                "that hold every prunable weight as the model does; use restore=memory"
            )
        with safe_open(files[stored], framework="pt") as opened:
            tensor: torch.Tensor = opened.get_tensor(stored)
        return tensor.to(dtypes[name])

    return read


def shard_files(source: str, **options: Any) -> dict[str, Path]:
    """Returns which safetensors file of a checkpoint holds which tensor.

    Args:
        source: folder or hub name.
        options: what `from_pretrained` takes to find files: revision, subfolder, cache_dir, token, ...

    Raises:
        PruneError: if the checkpoint has no safetensors files.
    """
    from safetensors import safe_open
    from transformers.utils import cached_file
    from transformers.utils.hub import get_checkpoint_shard_files

    quiet = {**options, "_raise_exceptions_for_missing_entries": False}
    index = cached_file(source, "model.safetensors.index.json", **quiet)
    single = None if index else cached_file(source, "model.safetensors", **quiet)
    if index:
        paths = get_checkpoint_shard_files(source, index, **options)[0]
    elif single:
        paths = [single]
    else:
        raise PruneError(
            f"restore=shards: {source} has no model.safetensors: expected a checkpoint in safetensors files; use "
            "restore=memory"
        )
    found: dict[str, Path] = {}
    for path in paths:
        with safe_open(path, framework="pt") as opened:
            found |= dict.fromkeys(opened.keys(), Path(path))
    return found


def _require_same(name: str, parameter: nn.Parameter, read: torch.Tensor) -> None:
    mine = parameter.detach().cpu()
    same = mine.shape == read.shape and torch.equal(_bits(mine), _bits(read))
    if not same:
        raise PruneError(
            f"restore=shards: {name} in memory is not what its file holds ({tuple(mine.shape)} against "
            f"{tuple(read.shape)}): expected a model just loaded from it, unchanged; use restore=memory"
        )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)
