"""Which tensors of a checkpoint are weights, how many each stands for, and what can be counted of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.checkpoint.files import Stored
from lm_eval_illusion.harness.checkpoint.formats import FLOATS, Format
from lm_eval_illusion.harness.checkpoint.zeros import Tally, nonzero, tally, unpacked

How = Literal["values", "bit mask", "not counted"]

_BESIDE = re.compile(
    r"\.(weight_scale|weight_scale_inv|weight_zero_point|weight_g_idx|weight_shape|weight_global_scale|weight_format"
    r"|(input|output|k|v|q)_(scale|zero_point|global_scale)|scales|qzeros|g_idx|SCB|row_offsets|shape|bitmask"
    r"|compressed|weight\.(absmax|quant_map|nested_absmax|nested_quant_map|quant_state\..+))$"
)
"""Names of what stands beside a packed weight; none of it is a weight."""
_BLOCK = re.compile(r"^(.+?)\.(\d+)\.(.+)$")
_NO_MATRIX = "relative_attention_bias.weight"
"""An embedding within T5's blocks."""


@dataclass(frozen=True)
class Weight:
    """One weight tensor, packed or not."""

    name: str
    """Of the tensor, or of the weight that a bit mask stands for."""
    dtype: str
    shape: tuple[int, ...]
    """As stored."""
    elements: int
    """Weights it stands for."""
    how: How
    reason: str | None = None
    """Why it is not counted."""

    @property
    def block(self) -> tuple[str, int] | None:
        """The list of blocks it belongs to and its number there; None outside of blocks, and for vectors."""
        found = _BLOCK.match(self.name)
        if found is None or len(self.shape) < 2 or self.name.endswith(_NO_MATRIX):
            return None
        return found[1], int(found[2])


def weights_of(files: Any, form: Format) -> Iterator[Weight]:
    """Yield the weights of a checkpoint, in the order of their names; what stands beside packed ones is left out."""
    tensors: Mapping[str, Stored] = files.tensors
    for name in sorted(tensors, key=_by_number):
        stored = tensors[name]
        base = name.removesuffix(".bitmask")
        if base != name and f"{base}.shape" in tensors and f"{base}.compressed" in tensors:
            shape = tuple(int(size) for size in files.value(f"{base}.shape").tolist())
            kind = tensors[f"{base}.compressed"].dtype
            yield Weight(f"{base.removesuffix('.weight')}.weight", kind, shape, math.prod(shape), "bit mask")
        elif form.method is None or not _BESIDE.search(name):
            yield _weight(stored, files, form)


def _weight(stored: Stored, files: Any, form: Format) -> Weight:
    name, tensors = stored.name, files.tensors
    if stored.dtype in FLOATS or _is_plain_integer(stored, files):
        return Weight(name, stored.dtype, stored.shape, stored.elements, "values")
    base, elements = name.removesuffix("_packed"), stored.elements
    if f"{base}_shape" in tensors:
        elements = math.prod(int(size) for size in files.value(f"{base}_shape").tolist())
    elif name.endswith(".qweight") and form.detail and (bits := re.search(r"\b(?:bits|w_bit) (\d+)", form.detail)):
        elements = stored.elements * 32 // int(bits[1])
    elif f"{name}.absmax" in tensors or name.endswith("_packed"):
        elements = stored.elements * 2  # two 4-bit codes to a byte
    what = "a quantised type" if form.method == "gguf" else "packed or integer"
    return Weight(name, stored.dtype, stored.shape, elements, "not counted", f"{what} ({stored.dtype})")


def _is_plain_integer(stored: Stored, files: Any) -> bool:
    """Say whether 0 means 0: 8-bit integers times a scale, without a zero point."""
    base = stored.name.removesuffix(".weight")
    scaled = f"{base}.weight_scale" in files.tensors or f"{base}.SCB" in files.tensors
    if stored.dtype != "I8" or base == stored.name or not scaled:
        return False
    point = f"{base}.weight_zero_point"
    return point not in files.tensors or not bool(files.value(point).any())


def count(weight: Weight, files: Any) -> tuple[Tally, str]:
    """Count a weight's zeros and find its patterns.

    Returns:
        The tally, and the axis its patterns run along: "last" (the inputs of a Linear), or "first" where only the
        transpose has one (the inputs of a Conv1D, as in GPT-2).
    """
    if weight.how == "bit mask":
        short = f"{weight.name.removesuffix('.weight')}.bitmask"
        name = short if short in files.tensors else f"{weight.name}.bitmask"
        found = tally([unpacked(files.value(name), weight.shape[-1])])
        if found.elements != weight.elements:
            raise IllusionError(
                f"{weight.name}: {found.elements} bits for {weight.shape} weights; expected one each: the file is "
                "damaged, copy it again"
            )
        return found, "last"
    found = tally(nonzero(chunk) for chunk in files.chunks(weight.name))
    settled = any(pattern.exact for pattern in found.patterns)
    if settled or len(weight.shape) < 2 or not 0 < found.zeros < found.elements:
        return found, "last"
    turned = tally((nonzero(chunk) for chunk in files.columns(weight.name)), until_settled=True)
    better = any(pattern.exact for pattern in turned.patterns) or (turned.patterns and not found.patterns)
    return (Tally(found.elements, found.zeros, turned.patterns), "first") if better else (found, "last")


def _by_number(name: str) -> tuple[tuple[int, int | str], ...]:
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in name.split("."))
