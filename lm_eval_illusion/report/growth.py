"""Statements about a sweep: does recognition without an answer grow with sparsity, and is it strongest with Wanda?

Runs answer the same items, so their difference is taken item by item. What is compared is recognition beyond guessing:
of an item without an open answer (R - 1/k)/(1 - 1/k), else 0. A dead model has a mean of zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lm_eval_illusion.report.conclusion_figures import Answer, Statement
from lm_eval_illusion.report.curve_figures import CurvePoint, Curves
from lm_eval_illusion.report.figures import difference
from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.numbers import interval
from lm_eval_illusion.report.schema import Settings
from lm_eval_illusion.report.statements import judge
from lm_eval_illusion.report.stats import Clusters

__all__ = ["beyond_guessing", "change", "sweep_statements"]

WANDA = "wanda"

_Line = Mapping[str, Any]
"""One line of items.jsonl."""


def sweep_statements(curves: Curves | None, items: Sequence[_Line], settings: Settings) -> list[Statement]:
    """Judge growth for every line of the curves, and Wanda against other methods.

    Args:
        curves: Lines and their points, of one sparsity too; None where no run was pruned.
        items: What items.jsonl holds.
        settings: Least sizes and the margin.
    """
    if curves is None:
        return []
    lines = [
        (curves.lines[line.line].name, curves.lines[line.line].method, _by_sparsity(line.points))
        for line in curves.panels[0].lines
    ]
    if sum(len(runs) for _, _, runs in lines) < 2:
        return []  # one point is no sweep
    said = []
    for distance in ("near", "far"):
        for name, _, runs in lines:
            if len(runs) > 1:
                said.append(_growth(name, runs, distance, items, settings))
        said += _wanda(lines, distance, items, settings)
    return said


def _by_sparsity(points: Sequence[CurvePoint]) -> dict[float, list[str]]:
    """Sparsity -> labels of the runs there, the least first."""
    return {
        sparsity: [point.run for point in points if point.sparsity == sparsity]
        for sparsity in sorted({point.sparsity for point in points})
    }


def _growth(
    name: str, runs: dict[float, list[str]], distance: str, items: Sequence[_Line], settings: Settings
) -> Statement:
    least, greatest = min(runs), max(runs)
    grown = change(items, runs[least], runs[greatest], distance)
    answer, reason = judge(grown, settings)
    return Statement(
        key=f"growth_{distance}",
        claim=f"recognition without an answer grows with sparsity, {distance} options ({name})",
        answer=answer,
        numbers=f"beyond guessing {interval(grown, sign=True)} from sparsity {least:g} to {greatest:g} on "
        f"{grown.items} items",
        reason=reason,
    )


def _wanda(
    lines: Sequence[tuple[str, str, dict[float, list[str]]]],
    distance: str,
    items: Sequence[_Line],
    settings: Settings,
) -> list[Statement]:
    """At the greatest sparsity that the first Wanda line shares with another method."""
    mine = next((runs for _, method, runs in lines if method == WANDA), None)
    if mine is None:
        return []
    key, claim = f"wanda_{distance}", f"recognition without an answer is strongest with Wanda, {distance} options"
    others = [(name, runs) for name, method, runs in lines if method != WANDA]
    shared = [sparsity for sparsity in mine if any(sparsity in runs for _, runs in others)]
    if not shared:
        reason = "no other method was run at the same sparsity"
        return [Statement(key=key, claim=claim, answer="undecided", numbers="", reason=reason)]
    sparsity = max(shared)
    found = {n: change(items, runs[sparsity], mine[sparsity], distance) for n, runs in others if sparsity in runs}
    answer, reason = _all_below(found, settings)
    told = "; ".join(f"{interval(estimate, sign=True)} more than {name}" for name, estimate in found.items())
    return [Statement(key=key, claim=claim, answer=answer, numbers=f"at {sparsity:g}: {told}", reason=reason)]


def _all_below(found: Mapping[str, Estimate], settings: Settings) -> tuple[Answer, str]:
    """Yes where every other method is below; no where one is not below by more than the margin; else undecided."""
    judged = {name: judge(estimate, settings) for name, estimate in found.items()}
    for wanted in ("no", "undecided"):
        for name, (answer, reason) in judged.items():
            if answer == wanted:
                return answer, f"{name}: {reason}"
    return "yes", ""


def change(items: Sequence[_Line], before: Sequence[str], after: Sequence[str], distance: str) -> Estimate:
    """Mean change of recognition beyond guessing between two sets of runs, over the items that all of them answered."""
    kept, values = [], []
    for item in items:
        ends = [[beyond_guessing(item, run, distance) for run in runs] for runs in (before, after)]
        known = [[value for value in end if value is not None] for end in ends]
        if all(len(some) == len(end) for some, end in zip(known, ends, strict=True)):
            kept.append(item)
            values.append(sum(known[1]) / len(known[1]) - sum(known[0]) / len(known[0]))
    clusters = Clusters.from_keys(*([str(item[key]) for item in kept] for key in ("dataset", "language", "cluster")))
    return difference(np.array(values, dtype=np.float64), clusters, (-2.0, 2.0))


def beyond_guessing(item: _Line, run: str, distance: str) -> float | None:
    """(R - 1/k)/(1 - 1/k) of an item without an open answer, 0 of one with; None where a half is missing or invalid."""
    answers, options = item["runs"].get(run), item[distance]
    name = answers.get(f"quadrant_{distance}") if answers else None
    if name is None or options is None:
        return None
    if name in ("both", "generation_only"):
        return 0.0
    chance = 1 / len(options["choices"])
    return (float(name == "recognition_only") - chance) / (1 - chance)
