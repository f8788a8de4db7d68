"""`inspect`: what a checkpoint on disk holds, read a few megabytes at a time, no model built and none of its code run.

The answer to `inspect_checkpoint(Path("pruned"))` has the share of zeros of each block, of all blocks and of the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.checkpoint.files import read_json, safetensors_of
from lm_eval_illusion.harness.checkpoint.formats import METHODS, Format, format_of
from lm_eval_illusion.harness.checkpoint.gguf_file import GgufFile
from lm_eval_illusion.harness.checkpoint.tied import Tied, tied_of
from lm_eval_illusion.harness.checkpoint.weights import Weight, count, weights_of
from lm_eval_illusion.harness.checkpoint.zeros import Tally
from lm_eval_illusion.harness.exported import ReceiptCheck, check_receipt

SCHEMA = 1


@dataclass(frozen=True)
class MatrixFound:
    """One weight tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    """Weights it stands for."""
    zeros: int | None
    """None where they cannot be counted."""
    patterns: tuple[str, ...]
    """Such as "2:4" (every group keeps just two) and "2:4 at least" (some keep fewer)."""
    axis: str
    """What the patterns run along: "last" (inputs of a Linear) or "first" (inputs of a Conv1D)."""
    block: tuple[str, int] | None
    """List of blocks and number in it."""
    not_counted: str | None


@dataclass(frozen=True)
class Share:
    """Zeros of several tensors; what could not be counted is in neither number."""

    weights: int
    """All weights, counted or not."""
    counted: int
    zeros: int
    sparsity: float | None
    """zeros / counted; None where nothing was counted."""
    patterns: dict[str, int]
    """Pattern -> matrices in which it holds."""
    matrices: int


@dataclass(frozen=True)
class Layer:
    """One block."""

    blocks: str
    """Name of the list of blocks."""
    number: int
    share: Share


@dataclass(frozen=True)
class Inspection:
    """What was found in a checkpoint."""

    path: str
    format: Format
    files: int
    bytes: int
    model_type: str | None
    architectures: tuple[str, ...]
    dtypes: dict[str, int]
    """Stored type -> weights."""
    whole: Share
    """Every stored weight, embeddings and vectors included; tied ones are stored once."""
    blocks: Share
    """Matrices within blocks."""
    layers: tuple[Layer, ...]
    tied: Tied
    matrices: tuple[MatrixFound, ...]
    not_counted: dict[str, int]
    """Reason -> weights."""
    receipt: ReceiptCheck | None
    """Of a checkpoint that `export` wrote: what its receipt says, and whether the zeros are those it counts."""
    schema: int = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON-able values."""
        return asdict(self)


def inspect_checkpoint(path: Path) -> Inspection:
    """Read a checkpoint.

    Args:
        path: A folder with safetensors or one GGUF file, or such a file itself.

    Raises:
        IllusionError: If there is none, it cannot be read, or it holds no weights.
    """
    if not path.exists():
        raise IllusionError(
            f"{path}: no such checkpoint; expected a folder with *.safetensors or a file; a model on the hub is "
            "fetched with: hf download NAME --local-dir DIR"
        )
    folder = path if path.is_dir() else path.parent
    config = read_json(folder / "config.json") or dict(read_json(folder / "prune_hooks.json").get("config") or {})
    gguf = _gguf(path)
    if gguf is not None:
        files: Any = GgufFile(gguf)
        kind = files.architecture
        form = Format("gguf", METHODS["gguf"][0], None, "float tensors are counted; quantised types are not")
    else:
        files = safetensors_of(path)
        kind = config.get("model_type")
        form = format_of(folder, config, files.tensors.values())
    weights = list(weights_of(files, form))
    if not weights:
        raise IllusionError(f"{path}: its files hold no weights; expected a checkpoint: copy it again")
    matrices = [_found(weight, *_counted(weight, files)) for weight in weights]
    in_blocks = [matrix for matrix in matrices if matrix.block]
    dtypes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for matrix in matrices:
        dtypes[matrix.dtype] += matrix.elements
        if matrix.not_counted:
            reasons[matrix.not_counted] += matrix.elements
    architectures = config.get("architectures")
    return Inspection(
        path=str(path),
        format=form,
        files=len(files.files),
        bytes=sum(file.stat().st_size for file in files.files),
        model_type=None if kind is None else str(kind),
        architectures=tuple(map(str, architectures)) if isinstance(architectures, list) else (),
        dtypes=dict(dtypes.most_common()),
        whole=_share(matrices),
        blocks=_share(in_blocks),
        layers=_layers(in_blocks),
        tied=tied_of(files, config),
        matrices=tuple(matrices),
        not_counted=dict(reasons.most_common()),
        receipt=check_receipt(folder, {matrix.name: matrix.zeros for matrix in matrices}),
    )


def _gguf(path: Path) -> Path | None:
    if path.is_file():
        return path if path.suffix == ".gguf" else None
    found = sorted(path.glob("*.gguf")) if not any(path.glob("*.safetensors")) else []
    if len(found) > 1:
        raise IllusionError(
            f"{path}: holds {len(found)} GGUF files ({', '.join(file.name for file in found[:3])}); expected one: name "
            "the file itself (of one in several parts, join them first: llama-gguf-split --merge)"
        )
    return found[0] if found else None


def _counted(weight: Weight, files: Any) -> tuple[Tally | None, str]:
    return (None, "last") if weight.how == "not counted" else count(weight, files)


def _found(weight: Weight, tally: Tally | None, axis: str) -> MatrixFound:
    matrix = len(weight.shape) > 1
    return MatrixFound(
        name=weight.name,
        dtype=weight.dtype,
        shape=weight.shape,
        elements=weight.elements,
        zeros=tally.zeros if tally else None,
        patterns=tuple(map(str, tally.patterns)) if tally and matrix else (),
        axis=axis,
        block=weight.block,
        not_counted=weight.reason,
    )


def _share(matrices: Sequence[MatrixFound]) -> Share:
    counted = sum(m.elements for m in matrices if m.zeros is not None)
    zeros = sum(m.zeros for m in matrices if m.zeros is not None)
    patterns = Counter(pattern for m in matrices for pattern in m.patterns)
    return Share(
        weights=sum(m.elements for m in matrices),
        counted=counted,
        zeros=zeros,
        sparsity=zeros / counted if counted else None,
        patterns=dict(sorted(patterns.items(), key=lambda pair: (-pair[1], pair[0]))),
        matrices=len(matrices),
    )


def _layers(matrices: Sequence[MatrixFound]) -> tuple[Layer, ...]:
    grouped: dict[tuple[str, int], list[MatrixFound]] = {}
    for matrix in matrices:
        if matrix.block:
            grouped.setdefault(matrix.block, []).append(matrix)
    return tuple(Layer(*key, _share(found)) for key, found in sorted(grouped.items()))
