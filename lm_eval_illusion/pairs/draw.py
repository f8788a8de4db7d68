"""Chance without a stream: every draw is a hash of ids and a seed, so it never depends on order, limit or process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def draw(*parts: object) -> int:
    """Return a 64-bit integer that depends on the parts alone, uniform over SHA-256."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big")


def shuffled(values: Iterable[T], *parts: object) -> list[T]:
    """Return the values in the order of their own hashes together with `parts`; their input order plays no role."""
    return sorted(values, key=lambda value: (draw(*parts, value), str(value)))


def spread(clusters: Sequence[str], keys: Sequence[str], *parts: object) -> list[int]:
    """Return row numbers in sampling order: one row of every cluster first, then second rows, and so on.

    Args:
        clusters: Cluster (passage) of each row.
        keys: Stable id of each row; with `parts` it alone decides the order.
        parts: Further parts of the hash.
    """
    rank = [(draw("sample", *parts, key), key) for key in keys]
    turn: dict[str, int] = {}
    rounds = [0] * len(keys)
    for row in sorted(range(len(keys)), key=rank.__getitem__):
        rounds[row] = turn.get(clusters[row], 0)
        turn[clusters[row]] = rounds[row] + 1
    return sorted(range(len(keys)), key=lambda row: (rounds[row], rank[row]))
