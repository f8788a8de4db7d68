"""How much of what open generation lost a probe brings back, beside what would come back by chance.

The corrected recovery over n failures is a ratio of means, theta = (mean h - mean c)/(1 - mean c), h being whether (or
how probably) the probe hit the gold and c the share of the item's own wrong targets that the same outputs hit. Its
interval is that of the linearised values z_i = theta + [(h_i - c_i) - theta (1 - c_i)]/(1 - mean c), whose mean is
theta, by cluster.

Items whose prompt holds none of their wrong targets are left out of it: nobody copies what is not there, and with them
a model that copies spans of the passage would seem to recover two answers in three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.halves import MATCHERS, GenerationHalf, SeveralHalf
from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.probe_measures import RecoveryFigures
from lm_eval_illusion.report.stats import mcnemar

__all__ = ["corrected_recovery", "linearised", "recovery_figures"]


@dataclass(frozen=True)
class _Probe:
    """What one probe showed, by item."""

    name: str
    condition: str
    right: Mapping[int, float]
    control: Mapping[int, float]
    """Of the items whose prompt holds some target."""
    first: Mapping[int, float] | None
    whole: bool
    """Whether `right` is yes or no, not an expectation."""


def linearised(hits: Mapping[int, float], control: Mapping[int, float]) -> dict[int, float] | None:
    """Values whose mean is the corrected recovery, and whose spread is that of its estimate.

    Args:
        hits: h of each item, 0 to 1.
        control: c of the same items, 0 to 1.

    Returns:
        z of each item; None without items, or where every control is 1 (nothing can be told from chance).
    """
    count = len(hits)
    left = count - math.fsum(control.values())
    if not count or left <= 1e-12 * count:
        return None
    theta = (math.fsum(hits.values()) - math.fsum(control.values())) / left
    scale = left / count
    return {i: theta + ((h - control[i]) - theta * (1 - control[i])) / scale for i, h in hits.items()}


def corrected_recovery(asked: Asked, hits: Mapping[int, float], control: Mapping[int, float]) -> Estimate | None:
    """(recovered - control)/(1 - control) with its cluster-robust interval; see the module."""
    values = linearised(hits, control)
    return None if values is None else asked.mean(values, (-math.inf, 1.0))


def recovery_figures(asked: Asked) -> list[RecoveryFigures]:
    """Every recovering probe that was run, over the items whose open answer was wrong."""
    produced = asked.produced()
    if produced is None:
        return []
    return [_figures(asked, probe, produced) for probe in _probes(asked)]


def _probes(asked: Asked) -> list[_Probe]:
    found = []
    there = asked.probes()
    for name, condition in CONDITIONS.items():
        if not condition.recovers or name not in there:
            continue
        if condition.kind == "generation":
            written = asked.having(name, GenerationHalf)
            right = {i: float(bool(half.right[MATCHERS[0]])) for i, half in written.items()}
            found.append(_Probe(name, name, right, _controls(written), None, True))
            continue
        several = asked.having(name, SeveralHalf)
        first = {i: float(bool(half.right_first[MATCHERS[0]])) for i, half in several.items()}
        if not any(half.pass_at for half in several.values()):
            right = {i: float(bool(half.right[MATCHERS[0]])) for i, half in several.items()}
            found.append(_Probe(name, name, right, _controls(several), first, True))
            continue
        shared = sorted(set.intersection(*(set(half.pass_at) for half in several.values())), key=int)
        for k in shared:
            right = {i: float(half.pass_at[k]) for i, half in several.items()}
            control = {i: float(half.control_pass_at[k]) for i, half in several.items() if half.control_in_prompt}
            whole = all(half.draws == int(k) for half in several.values())
            found.append(_Probe(f"{name} pass@{k}", name, right, control, first if k == shared[-1] else None, whole))
    return found


def _controls(halves: Mapping[int, GenerationHalf] | Mapping[int, SeveralHalf]) -> dict[int, float]:
    return {i: float(half.control or 0.0) for i, half in halves.items() if half.control_in_prompt}


def _figures(asked: Asked, probe: _Probe, produced: Sequence[bool]) -> RecoveryFigures:
    hits = {i: h for i, h in probe.right.items() if not produced[i]}
    control = {i: probe.control[i] for i in hits if i in probe.control}
    lost = None
    if probe.whole and asked.asked_of_all(probe.condition):
        lost = sum(produced[i] and h == 0 for i, h in probe.right.items())
    gained = int(sum(hits.values())) if probe.whole else None
    first = None if probe.first is None else {i: probe.first[i] for i in hits}
    return RecoveryFigures(
        probe=probe.name,
        items=len(hits),
        decided=asked.decided(hits),
        hits=math.fsum(hits.values()),
        control=math.fsum(control.values()) / len(control) if control else None,
        recovered=asked.share(hits) if probe.whole else asked.mean(hits, (0.0, 1.0)),
        corrected=corrected_recovery(asked, {i: hits[i] for i in control}, control),
        corrected_hits=math.fsum(hits[i] for i in control) if control else None,
        first=None if first is None else asked.share(first),
        gained=gained,
        lost=lost,
        p=None if gained is None or lost is None else mcnemar(lost, gained),
    )
