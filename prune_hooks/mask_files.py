"""Masks as files: which weights of a model are zero, written once and put onto another model of the same shape.

save_mask(model, "mask.safetensors")
put_mask(other, "mask.safetensors")

The same from a spec: `save_mask=PATH` writes what was pruned, `method=mask,mask=PATH` prunes by it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from prune_hooks.errors import PruneError
from prune_hooks.mask_header import KIND, read_header
from prune_hooks.targets import find_targets
from prune_hooks.weights import Weight
from prune_hooks.zeros import erase


def save_mask(
    model: nn.Module, path: str | os.PathLike[str], spec: Mapping[str, object] | None = None
) -> dict[str, str]:
    """Writes which of a model's prunable weights are zero.

    Args:
        model: pruned, in memory or offloaded by accelerate.
        path: file to write, safetensors.
        spec: options it was pruned with, kept in the file.

    Returns:
        The path and the digest of the mask, as a receipt lists them.

    Raises:
        PruneError: as `find_targets`; or if the file is there already.
    """
    file = Path(path).expanduser()
    require_free(file)
    shapes: dict[str, tuple[int, int]] = {}
    packed: dict[str, torch.Tensor] = {}
    removed = 0
    for weight in find_targets(model).opened():
        zero = weight.matrix() == 0
        shapes[weight.name] = (zero.shape[0], zero.shape[1])
        removed += int(zero.count_nonzero())
        packed[weight.name] = torch.from_numpy(np.packbits(zero.cpu().numpy()))
    digest = _digest(shapes, packed)
    head = {"kind": KIND, "shapes": json.dumps(shapes), "removed": str(removed), "digest": digest}
    from safetensors.torch import save_file

    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(packed, file, {**head, "spec": json.dumps(dict(spec or {}), sort_keys=True)})
    return {"path": str(path), "sha256": digest}


def require_free(path: Path) -> None:
    """Raises PruneError if a mask cannot be written to a path: something is there, or nothing can be written there."""
    if path.expanduser().exists():
        raise PruneError(f"save_mask: {path} is there already: expected a new file; remove it, or name another")
    above = next(folder for folder in path.expanduser().absolute().parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise PruneError(f"save_mask: {path} cannot be written, since {above} is no writable folder; name another file")


class MaskFile:
    """A mask file, opened and checked."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads the file.

        Raises:
            PruneError: no mask file, bits that are not those its digest was made of, or another count of them.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        self.path = Path(path).expanduser()
        self.header = read_header(self.path)
        try:
            self._packed = load_file(self.path)
        except SafetensorError as error:
            raise PruneError(f"mask {path} is damaged ({error}): expected the file that save_mask wrote") from error
        complete = self._packed.keys() == self.header.shapes.keys()
        found = _digest(self.header.shapes, self._packed) if complete else "of other matrices"
        if found != self.header.digest:
            raise PruneError(
                f"mask {path} is damaged (SHA-256 {found[:16]}): expected {self.header.digest[:16]}, that of the mask "
                "when it was saved; copy or write it anew"
            )
        removed = sum(int(np.unpackbits(bits.numpy()).sum()) for bits in self._packed.values())
        if removed != self.header.removed:
            raise PruneError(
                f"mask {path} is damaged: its header says that {self.header.removed} weights go, its bits remove "
                f"{removed}; copy or write it anew"
            )

    def require_fits(self, weights: Iterable[Weight]) -> None:
        """Raises PruneError, by name, unless the mask is for exactly these weights."""
        shapes = {weight.name: (weight.matrix().shape[0], weight.matrix().shape[1]) for weight in weights}
        for there, other, what in (
            (shapes, self.header.shapes, "the model's {} is not in the mask"),
            (self.header.shapes, shapes, "the mask's {} is not in the model"),
        ):
            missing = [name for name in there if name not in other]
            if missing:
                raise PruneError(
                    f"mask {self.path} does not fit: {what.format(missing[0])} ({len(missing)} such matrices); "
                    "expected a model of the same shape as the one it was saved from"
                )
        for name, (rows, columns) in shapes.items():
            if self.header.shapes[name] != (rows, columns):
                raise PruneError(
                    f"mask {self.path} does not fit: {name} is {rows} x {columns} in the model and "
                    f"{' x '.join(map(str, self.header.shapes[name]))} in the mask; expected a model of the same shape"
                )

    def of(self, weight: Weight) -> torch.Tensor:
        """Returns a weight's mask: bool (out, in) on its device, True where it is removed."""
        rows, columns = self.header.shapes[weight.name]
        bits = np.unpackbits(self._packed[weight.name].numpy(), count=rows * columns).reshape(rows, columns)
        return torch.from_numpy(bits).to(weight.matrix().device, torch.bool)


@torch.no_grad()
def put_mask(model: nn.Module, mask: MaskFile | str | os.PathLike[str]) -> None:
    """Sets to zero what a mask removes; what it keeps stays as it is. After an optimiser's step it keeps a mask kept.

    Args:
        model: of the shape that the mask was saved from.
        mask: the file, or for use again and again a `MaskFile`.

    Raises:
        PruneError: as `MaskFile`; or if the mask does not fit the model, before anything is touched.
    """
    file = mask if isinstance(mask, MaskFile) else MaskFile(mask)
    targets = find_targets(model)
    file.require_fits(targets.weights())
    for block in targets.blocks:
        with block.opened(write=True):
            for weight in block.weights():
                erase(weight.matrix(), file.of(weight))


def _digest(shapes: Mapping[str, tuple[int, int]], packed: Mapping[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(shapes):
        digest.update(f"{name} {tuple(shapes[name])}".encode())
        digest.update(packed[name].numpy().data)
    return digest.hexdigest()
