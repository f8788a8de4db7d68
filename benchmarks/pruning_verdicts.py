"""Whether the sides of `pruning.py` agree, and which bounds of time, memory and perplexity ours keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pair import Comparison, line
from pruning_sides import Side

BOUNDS = {
    ("wanda", "ours"): 0.55,
    ("sparsegpt", "ours"): 0.65,
    ("wanda", "ours, bfloat16 forward"): 0.35,
    ("sparsegpt", "ours, bfloat16 forward"): 0.55,
}
"""Share of llmcompressor's time that ours may take, on calibration of BOUND_SHAPE: printed beside what was seen."""
BOUND_SHAPE = (32, 512)
"""Rows and tokens a row from which the bounds of time and memory are judged."""
PERPLEXITY = 1.01
"""Times the rival's perplexity that ours may have, on every held-out set and on all."""
SHORT_PERPLEXITY = 1.1
"""The same in the short form, on little text."""
ROUNDING = 3.0
"""Times the share of mask positions in which the published protocol differs from itself, its rows in reverse order,
that ours may differ from it in its own order: float32 sums in another order grow over the blocks, the more the less
text there is, and no fixed share says how far."""
LEAST_ROUNDING = 0.001
"""Share of mask positions that may differ however little the published protocol differs from itself."""


def differing(left: Path, right: Path) -> float:
    """Return the share of weights that are zero in one result and not in the other."""
    import numpy as np

    return float((np.fromfile(left, bool) != np.fromfile(right, bool)).mean())


def times(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    """Return our perplexity over theirs on each held-out set, and on all as the geometric mean."""
    found = {name: value / theirs["perplexity"][name] for name, value in ours["perplexity"].items()}
    return {**found, "all": math.prod(found.values()) ** (1 / len(found))}


def within(ratios: dict[str, float], limit: float, lowest: float = 0.0) -> tuple[bool, str]:
    """Say whether every held-out set and all together keep the limit, and each in words."""
    kept = {name: lowest <= ratio <= limit for name, ratio in ratios.items()}
    words = (f"{name} {ratio:.4f}{'' if kept[name] else ' (not within the limit)'}" for name, ratio in ratios.items())
    return all(kept.values()), ", ".join(words)


def enough(shape: tuple[int, int]) -> bool:
    """Say whether calibration of this shape is what the bounds of time and memory are for, or more."""
    return shape[0] >= BOUND_SHAPE[0] and shape[1] >= BOUND_SHAPE[1]


def judge_bounds(summary: dict[str, Any], bound: float, shape: tuple[int, int]) -> str:
    """Add the bounds of time and memory to a comparison with llmcompressor; return what is to be said of them."""
    met = {"met": 1 / summary["times_sooner"] <= bound, "memory_met": summary["memory_share"] <= 1}
    summary["bound"] = bound
    if not enough(shape):
        summary |= dict.fromkeys(met)
        return (
            f"  bounds for 32 x 512 tokens: {bound} of its time, no more memory: not judged on {shape[0]} x {shape[1]}"
        )
    summary |= met
    time, memory = ("met" if kept else "not met" for kept in met.values())
    return f"  bounds for 32 x 512 tokens: {bound} of its time {time}, no more memory {memory}"


def compare(
    method: str, here: Sequence[Side], limit: float, shape: tuple[int, int]
) -> tuple[list[dict[str, Any]], bool]:
    """Print one method's comparisons, on calibration of a shape; return them, and whether all sides agree."""
    by_name = {side.name: side for side in here}
    summaries, agree = [], True
    rivals = [by_name[name] for name in ("llmcompressor", "the published protocol") if name in by_name]
    mine = [side for side in here if side.timed and side.name.startswith("ours")]
    for side in mine:
        for rival in rivals:
            title = f"{method}{side.name.removeprefix('ours')}"
            summary = Comparison(title, rival.name, tuple(side.turns), tuple(rival.turns)).summary()
            ratios = times(side.judged, rival.judged)
            bounded = rival is rivals[0]
            close, said = within(ratios, limit if bounded else math.inf)
            sound = abs(side.judged["zeros"] - rival.judged["zeros"]) < 1e-3 and close
            summary |= {"perplexity": side.judged["perplexity"], "rival_perplexity": rival.judged["perplexity"]}
            summary |= {"perplexity_times": ratios, "agree": sound} | ({"perplexity_limit": limit} if bounded else {})
            bounds = judge_bounds(summary, BOUNDS[method, side.name], shape) if rival.name == "llmcompressor" else ""
            print(line(summary))
            held = f" (limit {limit} on each and on all)" if bounded else ""
            print(f"  held-out perplexity, times the rival's: {said}{held}{'' if sound else ' FAIL'}")
            if bounds:
                print(bounds)
            summaries.append(summary)
            agree &= sound
    for side in mine[1:]:
        close, said = within(times(side.judged, mine[0].judged), limit)
        agree &= close
        held = f"(limit {limit} on each and on all){'' if close else ' FAIL'}"
        print(f"  {method}: perplexity, times that of the float32 forward: {said} {held}")
    share, sound = same_masks(method, by_name, limit)
    summaries.append({"name": f"{method}, masks in the published order", "differing": share})
    agree &= sound
    return summaries, agree


def same_masks(method: str, by_name: dict[str, Side], limit: float) -> tuple[float, bool]:
    """Print how far ours in the published order is from the published protocol; return the share, and if it may be.

    The perplexities may differ by `limit` times, either way, on every held-out set and on all.
    """
    mine, published = by_name["ours, published order"].judged, by_name["the published protocol"].judged
    share = differing(mine["masks"], published["masks"])
    itself = differing(by_name["the published protocol, rows reversed"].judged["masks"], published["masks"])
    allowed = max(ROUNDING * itself, LEAST_ROUNDING)
    close, said = within(times(mine, published), limit, 1 / limit)
    sound = share <= allowed and close
    print(
        f"  {method}: in its order {share:.2%} of the mask differ, {itself:.2%} between the published protocol "
        f"and itself with its rows reversed (limit {allowed:.2%}); perplexity, times its own: {said}"
        f"{'' if sound else ' FAIL'}"
    )
    return share, sound
