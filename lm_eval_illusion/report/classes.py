"""Quadrants of right and wrong, and the moves of items between them from the dense model to the pruned one."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["QUADRANTS", "count_transitions", "quadrant"]

QUADRANTS = ("both", "recognition_only", "generation_only", "neither")
"""R and G; R alone (the illusion); G alone; none."""


def quadrant(recognised: bool, generated: bool) -> str:
    """The class of one item: R = multiple choice right, G = open generation right."""
    if recognised:
        return "both" if generated else "recognition_only"
    return "generation_only" if generated else "neither"


def count_transitions(moves: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Count (dense quadrant, pruned quadrant) pairs in a full 4 x 4 table."""
    table = {before: dict.fromkeys(QUADRANTS, 0) for before in QUADRANTS}
    for before, after in moves:
        table[before][after] += 1
    return table
