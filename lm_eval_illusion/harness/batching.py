"""Batches of prompts of like length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

AUTO_BATCH_TOKENS = 16_384
"""Tokens of prompts in one forward where the batch size is `auto`."""
LEAST_FILL = 0.7
"""Length of the shortest prompt of a batch as a share of the longest."""


def like_length(
    items: Sequence[T], lengths: Sequence[int], batch_size: int | str, max_batch_size: int
) -> Iterator[list[T]]:
    """Cut items, longest first, into batches of like length.

    A batch holds nothing shorter than LEAST_FILL of its longest: one very long prompt would pad all the others to its
    length.

    Args:
        items: What to batch, longest first.
        lengths: Tokens of each item.
        batch_size: Most items of a batch, or "auto": as many as AUTO_BATCH_TOKENS padded tokens allow.
        max_batch_size: Most items of an `auto` batch.
    """
    start = 0
    while start < len(items):
        longest = max(1, lengths[start])
        size = min(max(1, AUTO_BATCH_TOKENS // longest), max_batch_size) if batch_size == "auto" else int(batch_size)
        end = start + 1
        while end < min(start + max(1, size), len(items)) and lengths[end] >= LEAST_FILL * longest:
            end += 1
        yield list(items[start:end])
        start = end
