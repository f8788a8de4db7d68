"""Batches of prompts of like length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

AUTO_BATCH_TOKENS = 16_384
"""Tokens of prompts in one forward where the batch size is `auto`."""
LEAST_FILL = 0.7
"""Length of the shortest prompt of a batch as a share of the longest."""


def batch_rows(longest: int, batch_size: int | str, max_batch_size: int) -> int:
    """Return how many items of this length (tokens) a batch takes; see `like_length`."""
    size = (
        min(max(1, AUTO_BATCH_TOKENS // max(1, longest)), max_batch_size) if batch_size == "auto" else int(batch_size)
    )
    return max(1, size)


def like_length(
    items: Sequence[T],
    lengths: Sequence[int],
    batch_size: int | str,
    max_batch_size: int,
    *,
    least_fill: float = LEAST_FILL,
) -> Iterator[list[T]]:
    """Cut items, longest first, into batches of like length.

    A batch holds nothing shorter than `least_fill` of its longest: one very long prompt would pad all the others to its
    length.

    Args:
        items: What to batch, longest first.
        lengths: Tokens of each item.
        batch_size: Most items of a batch, or "auto": as many as AUTO_BATCH_TOKENS padded tokens allow.
        max_batch_size: Most items of an `auto` batch.
        least_fill: Length of the shortest as a share of the longest, 0 to 1.
    """
    start = 0
    while start < len(items):
        longest = max(1, lengths[start])
        size = batch_rows(longest, batch_size, max_batch_size)
        end = start + 1
        while end < min(start + size, len(items)) and lengths[end] >= least_fill * longest:
            end += 1
        yield list(items[start:end])
        start = end
