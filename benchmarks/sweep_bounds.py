"""How long a sweep may take, from what its points took as separate runs.

The strict bound decides: the points' own pruning and evaluation, plus one load of the model, plus 5 %. The loose one
has a whole start in place of the load: all that the dense run does beside its evaluation - imports, task index,
tokenizer, model, files. Each is shown again with the sweep's own pruning and evaluation, timed inside, where a busy
machine slows both sides alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from turn import Turn

LIMIT = 1.05
"""Times a bound's seconds that the sweep may take."""
BOUNDS = {"strict": "one load", "loose": "one whole start"}
"""Bound -> what is added to the points' own pruning and evaluation; the first decides."""


def together(turns: Iterable[Turn]) -> Turn:
    """Return separate runs as one turn: their seconds added, their highest peak."""
    runs = list(turns)
    peak = max(turn.peak_mb for turn in runs)
    return Turn(sum(turn.wall for turn in runs), sum(turn.cpu for turn in runs), peak, None)


def bound(name: str, swept: Sequence[Turn], apart: Sequence[dict[str, Turn]]) -> dict[str, Any]:
    """Return the sweep's share of a bound in every turn, and whether the median is within LIMIT."""
    added, own, shares, inside = [], [], [], []
    for sweep, alone in zip(swept, apart, strict=True):
        added.append(float(alone["dense"].result["load"]) if name == "strict" else rest(alone["dense"]))
        own.append(sum(work(turn) for turn in alone.values()))
        shares.append(sweep.cpu / (own[-1] + added[-1]))
        inside.append(sweep.cpu / (work(sweep) + added[-1]))
    return {
        "name": name,
        "points_own_seconds": statistics.median(own),
        "added_seconds": statistics.median(added),
        "share": statistics.median(shares),
        "range": [min(shares), max(shares)],
        "share_inside": statistics.median(inside),
        "met": statistics.median(shares) <= LIMIT,
    }


def said_of(found: dict[str, Any]) -> str:
    """Return a bound in one line of text."""
    low, high = found["range"]
    return (
        f"{found['name']} bound, its points' own pruning and evaluation plus {BOUNDS[found['name']]} "
        f"({found['points_own_seconds']:.1f} + {found['added_seconds']:.1f} s): {found['share']:.3f} of it "
        f"(range {low:.3f} to {high:.3f}; by its own, timed inside: {found['share_inside']:.3f}), limit {LIMIT}: "
        f"{'met' if found['met'] else 'not met'}"
    )


def work(turn: Turn) -> float:
    """Return the seconds of pruning and evaluation."""
    return float(turn.result["prune"]) + float(turn.result["evaluate"])


def rest(turn: Turn) -> float:
    """Return the other seconds: the load, and what surrounds the work."""
    return turn.cpu - work(turn)
