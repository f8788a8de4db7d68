"""A GGUF file read as a checkpoint: float tensors can be counted, quantised ones are named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.checkpoint.files import CHUNK, Stored

_KINDS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


class GgufFile:
    """The tensors of a GGUF file, mapped into memory.

    Raises:
        IllusionError: If the package `gguf` is missing, or the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            from gguf import GGUFReader
        except ImportError as error:
            raise IllusionError(f"{path}: reading GGUF needs the package gguf; run: pip install gguf") from error
        try:
            reader: Any = GGUFReader(str(path))
        except Exception as error:  # of a damaged file it raises whatever its first wrong number leads to
            raise IllusionError(f"{path}: cannot be read as GGUF ({error}); copy it again") from error
        self.files = [path]
        self._held = {str(tensor.name): tensor for tensor in reader.tensors}
        self.tensors = {
            name: Stored(name, str(tensor.tensor_type.name), tuple(int(size) for size in reversed(tensor.shape)))
            for name, tensor in self._held.items()
        }
        field = reader.get_field("general.architecture")
        self.architecture = str(field.contents()) if field is not None else None

    def value(self, name: str) -> torch.Tensor:
        """Return a float tensor whole."""
        stored = self.tensors[name]
        raw = torch.frombuffer(bytearray(self._held[name].data.tobytes()), dtype=_KINDS[stored.dtype])
        return raw.reshape(stored.shape)

    def chunks(self, name: str) -> Iterator[torch.Tensor]:
        """Yield a float tensor's values as (rows, width)."""
        value = self.value(name)
        flat = value.reshape(-1, value.shape[-1]) if value.dim() > 1 else value.reshape(1, -1)
        yield from torch.split(flat, max(1, CHUNK // max(1, flat.shape[1])))

    def columns(self, name: str) -> Iterator[torch.Tensor]:
        """Yield a float matrix's transpose."""
        value = self.value(name).transpose(-1, -2)
        yield value.reshape(-1, value.shape[-1])
