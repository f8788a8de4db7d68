"""What a mask file says of itself before its bits are read. Imports no torch.

The file is safetensors: for each weight matrix its mask as packed bits, and a header that gives kind, shapes, counts
and the digest of names, shapes and bits. What the header says is checked against the bits by `mask_files.MaskFile`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prune_hooks.errors import PruneError

KIND = "prune_hooks mask 1"
_MOST = 1 << 28
"""Bytes of a header beyond which a file is none of ours."""


@dataclass(frozen=True)
class MaskHeader:
    """The header of a mask file."""

    shapes: Mapping[str, tuple[int, int]]
    """Weight -> (out, in)."""
    removed: int
    """Weights that the mask removes."""
    digest: str
    """SHA-256 (hex) over names, shapes and packed bits."""
    spec: Mapping[str, object]
    """Options that the mask was found with; empty if it was read off a model."""

    @property
    def sparsity(self) -> float:
        """Share of the weights that the mask removes."""
        return self.removed / sum(rows * columns for rows, columns in self.shapes.values())


def read_header(path: Path) -> MaskHeader:
    """Reads the header of a mask file.

    Raises:
        PruneError: no such file, or another kind of file.
    """
    mend = "expected a file written with save_mask"
    path = path.expanduser()
    if not path.is_file():
        raise PruneError(f"mask {path} is no file: {mend}")
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(length)) if 0 < length < _MOST else {}
        values = head["__metadata__"]
        kind = values["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise PruneError(f"mask {path} is no mask file ({type(error).__name__}): {mend}") from error
    if kind != KIND:
        raise PruneError(f"mask {path} is of the kind {kind!r}: expected {KIND!r}; write it anew")
    try:
        shapes = {name: (int(rows), int(columns)) for name, (rows, columns) in json.loads(values["shapes"]).items()}
        return MaskHeader(shapes, int(values["removed"]), values["digest"], json.loads(values["spec"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PruneError(f"mask {path} has a damaged header ({type(error).__name__}): {mend}") from error
