"""Zeros of a matrix, and the n:m patterns they form: arithmetic alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

LONGEST = 32
"""Longest group looked at."""
AT_LEAST = " at least"
"""After a pattern's name: some groups hold more zeros than it asks."""
ROUND = (4, 8, 16, 32)
"""Groups for which a pattern is named although some groups hold more zeros than it asks."""
_TIGHT = 0.9
"""Such a pattern is named where at least this share of what it lets stay is there: then it explains the zeros. Long
groups of a sparse matrix keep few by chance, which says nothing. 2:4 is always named: hardware asks for no more."""


@dataclass(frozen=True)
class Pattern:
    """At most `kept` of every `group` consecutive weights are not zero."""

    kept: int
    group: int
    exact: bool
    """Every group keeps just that many."""

    def __str__(self) -> str:
        return f"{self.kept}:{self.group}" + ("" if self.exact else AT_LEAST)


@dataclass(frozen=True)
class Tally:
    """What was counted in one matrix."""

    elements: int
    zeros: int
    patterns: tuple[Pattern, ...]
    """Those that hold along the rows; none that another one of them implies."""


def nonzero(values: torch.Tensor) -> torch.Tensor:
    """Return where a tensor is not zero (minus zero is zero, NaN is not), 8-bit floats included."""
    if values.is_floating_point() and values.element_size() == 1:
        return (values.view(torch.uint8) & 0x7F) != 0
    return values != 0


def tally(chunks: Iterable[torch.Tensor], until_settled: bool = False) -> Tally:
    """Count zeros and find patterns.

    Args:
        chunks: Boolean tensors (rows, width), True where a weight is not zero; one width throughout.
        until_settled: Stop as soon as no pattern can hold any more; elements and zeros are then those seen so far.
    """
    elements = zeros = 0
    kept: dict[int, tuple[int, int]] | None = None
    for chunk in chunks:
        elements += chunk.numel()
        zeros += chunk.numel() - int(torch.count_nonzero(chunk))
        if kept is None:
            kept = {size: (size, 0) for size in range(2, LONGEST + 1) if chunk.shape[-1] % size == 0}
        even: list[tuple[int, int]] = []  # (size, kept in every group of it): what is known of its multiples
        for size, (least, most) in list(kept.items()):
            known = next((each * size // part for part, each in even if size % part == 0), None)
            low, high = (known, known) if known is not None else _extremes(chunk, size)
            if low == high and known is None:
                even.append((size, low))
            least, most = min(least, low), max(most, high)
            if most == size:
                del kept[size]
            else:
                kept[size] = least, most
        if until_settled and not kept:
            break
    left = elements - zeros
    return Tally(elements, zeros, _named(kept or {}, left / elements) if left else ())


def _extremes(mask: torch.Tensor, size: int) -> tuple[int, int]:
    """Return the least and the most that is kept in a group of `size` consecutive entries."""
    counts = mask.reshape(-1, size).sum(-1, dtype=torch.uint8)
    return int(counts.min()), int(counts.max())


def _named(kept: dict[int, tuple[int, int]], density: float) -> tuple[Pattern, ...]:
    """Return the patterns worth naming: a pattern implies the same at every multiple of its group."""
    found: list[Pattern] = []
    for group, (least, most) in sorted(kept.items()):
        new = Pattern(most, group, exact=least == most)
        telling = density >= _TIGHT * most / group or (group == 4 and most <= 2)
        if (new.exact or (group in ROUND and telling)) and not any(_implies(old, new) for old in found):
            found.append(new)
    return tuple(found)


def _implies(old: Pattern, new: Pattern) -> bool:
    times, rest = divmod(new.group, old.group)
    return not rest and new.kept >= old.kept * times and (old.exact or not new.exact)


def unpacked(bits: torch.Tensor, width: int) -> torch.Tensor:
    """Return a mask (rows, width) from bits packed eight to a byte along the rows, the lowest bit first."""
    places = torch.arange(8, dtype=torch.uint8)
    return ((bits[..., None] >> places) & 1).flatten(-2)[..., :width].bool()
