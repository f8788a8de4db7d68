"""The files of a safetensors checkpoint, read lazily: headers first, values a few megabytes at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from lm_eval_illusion.errors import IllusionError

INDEX = "model.safetensors.index.json"
CHUNK = 1 << 22
"""Elements read at a time."""
SLICED = "prune_hooks.safetensors"


@dataclass(frozen=True)
class Stored:
    """One tensor of a checkpoint."""

    name: str
    dtype: str
    """As safetensors or GGUF spells it: F32, BF16, F8_E4M3, I32, Q4_K, ..."""
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Values it holds."""
        return math.prod(self.shape)


class SafetensorsFiles:
    """The tensors of one or more safetensors files.

    Args:
        files: The files, all of which exist.

    Raises:
        IllusionError: If one cannot be read, or holds a tensor that another holds too.
    """

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self._open: dict[str, Any] = {}
        self.tensors: dict[str, Stored] = {}
        for path in files:
            try:
                handle: Any = safe_open(str(path), framework="pt")
            except (SafetensorError, OSError) as error:
                raise IllusionError(
                    f"{path}: cannot be read as safetensors ({error}): cut off or not such a file; copy it again"
                ) from error
            for name in handle.keys():  # noqa: SIM118 (a handle is no mapping)
                if name in self.tensors:
                    raise IllusionError(
                        f"{path}: holds tensor {name!r}, which another file of the folder holds too; expected each "
                        "once: remove the files that do not belong to the checkpoint"
                    )
                told = handle.get_slice(name)
                self.tensors[name] = Stored(name, str(told.get_dtype()), tuple(told.get_shape()))
                self._open[name] = handle

    def value(self, name: str) -> torch.Tensor:
        """Return a whole, small tensor."""
        return self._open[name].get_tensor(name)  # type: ignore[no-any-return]

    def chunks(self, name: str) -> Iterator[torch.Tensor]:
        """Yield a tensor's values as (rows, width), a few megabytes at a time."""
        stored, part = self.tensors[name], self._open[name].get_slice(name)
        if len(stored.shape) < 2 or not stored.elements:
            yield self.value(name).reshape(1, -1)
            return
        step = max(1, CHUNK // max(1, math.prod(stored.shape[1:])))
        for start in range(0, stored.shape[0], step):
            yield part[start : start + step].reshape(-1, stored.shape[-1])

    def columns(self, name: str) -> Iterator[torch.Tensor]:
        """Yield a matrix's values as (columns, rows): its transpose, a few megabytes at a time."""
        stored, part = self.tensors[name], self._open[name].get_slice(name)
        step = max(1, CHUNK // max(1, stored.elements // stored.shape[-1]))
        for start in range(0, stored.shape[-1], step):
            piece = part[..., start : start + step]
            yield piece.transpose(-1, -2).reshape(-1, stored.shape[-2])


def safetensors_of(path: Path) -> SafetensorsFiles:
    """Open the safetensors files of a folder, or one file.

    Raises:
        IllusionError: If there are none, shards are missing, or what an index names is not where it says.
    """
    if path.is_file():
        return SafetensorsFiles([path])
    index = path / INDEX
    if index.is_file():
        return _sharded(path, index)
    for name in ("model.safetensors", SLICED):
        if (path / name).is_file():
            return SafetensorsFiles([path / name])
    found = sorted(path.glob("*.safetensors"))
    if not found:
        held = sorted(p.name for p in path.iterdir() if p.suffix in {".bin", ".pt", ".pth", ".h5", ".msgpack"})
        seen = f"it holds {', '.join(held[:3])}, which cannot be read lazily" if held else "it holds no weights"
        raise IllusionError(
            f"{path}: no *.safetensors and no *.gguf in it ({seen}); expected a checkpoint folder: save the model with "
            "save_pretrained, which writes safetensors"
        )
    return SafetensorsFiles(found)


def _sharded(folder: Path, index: Path) -> SafetensorsFiles:
    try:
        told = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = {str(name): str(file) for name, file in told.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IllusionError(f"{index}: no index of shards ({error!r}); copy the checkpoint again") from error
    shards = sorted(set(names.values()))
    wrong = [name for name in shards if Path(name).name != name or not (folder / name).is_file()]
    if wrong:
        raise IllusionError(
            f"{index} names {len(wrong)} of {len(shards)} shards that are not in the folder (first {wrong[0]!r}); "
            "expected all beside it: copy the checkpoint again"
        )
    files = SafetensorsFiles([folder / name for name in shards])
    missing = sorted(names.keys() - files.tensors.keys())
    if missing:
        raise IllusionError(
            f"{index} names {len(missing)} tensors that no shard holds (first {missing[0]!r}); expected each in its "
            "shard: copy the checkpoint again"
        )
    return files


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object; empty where there is no such file.

    Raises:
        IllusionError: If the file holds anything else.
    """
    if not path.is_file():
        return {}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise IllusionError(f"{path}: is not JSON ({error}); copy the checkpoint again") from error
    if not isinstance(held, dict):
        raise IllusionError(
            f"{path}: holds a JSON {type(held).__name__}, expected an object; copy the checkpoint again"
        )
    return held
