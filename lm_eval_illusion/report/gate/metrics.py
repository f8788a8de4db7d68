"""What a rule may be about: every metric by name, and how it is read off a report that is there already."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lm_eval_illusion.report.columns import Distance
from lm_eval_illusion.report.measures import EquivalenceFigures, Estimate, Flips
from lm_eval_illusion.report.render.grid import DISTANCES, contrast_at, far_or_near
from lm_eval_illusion.report.schema import Row, RunSummary

__all__ = ["METRICS", "Metric", "Reading"]

CONDITION = {"near": "mc", "far": "mc_far", "generation": "gen"}


@dataclass(frozen=True)
class Reading:
    """One metric on one row; None where the report does not hold it."""

    value: float | None
    low: float | None
    """Lower end of the 95 % interval; the value itself where it was counted, not sampled."""
    high: float | None
    low90: float | None = None
    """Ends of the 90 % interval, for two one-sided tests."""
    high90: float | None = None
    items: int = 0
    """Items the metric is over."""
    clusters: int = 0


NOTHING = Reading(None, None, None)
Reader = Callable[[Row, RunSummary], Reading]


@dataclass(frozen=True)
class Metric:
    """One thing that a rule can limit."""

    name: str
    """As lines and rules write it, its distance included."""
    bad_side: int
    """1: high is bad, a limit is a most; -1: low is bad, a limit is a least."""
    bounds: tuple[float, float]
    read: Reader
    conditions: tuple[str, ...] = ()
    """Conditions that must have been run in every language of the row."""
    distance: Distance | None = None
    """The distance whose R must differ from chance, or the metric says nothing."""
    against_dense: bool = False
    """Whether it is a change, so that the dense model's R must differ from chance too."""
    has_equivalence: bool = False
    counted: bool = False
    """From the pruning receipt: no sample, so overall only and no least number of items."""


def _estimate(found: Estimate | None, same: EquivalenceFigures | None = None) -> Reading:
    if found is None:
        return NOTHING
    ends = (same.low, same.high) if same else (None, None)
    return Reading(found.value, found.low, found.high, *ends, found.items, found.clusters)


def _negative(reading: Reading) -> Reading:
    """A drop is a change with the other sign."""
    value, low, high, low90, high90 = (
        None if end is None else 0.0 - end
        for end in (reading.value, reading.high, reading.low, reading.high90, reading.low90)
    )
    return Reading(value, low, high, low90, high90, reading.items, reading.clusters)


def _flips(row: Row, part: str) -> Flips | None:
    if row.contrast is None:
        return None
    if part == "generation":
        return row.contrast.generation
    found = row.contrast.near if part == "near" else row.contrast.far
    return found.accuracy if found else None


def _drop(part: str) -> Reader:
    def read(row: Row, run: RunSummary) -> Reading:
        flips = _flips(row, part)
        return _negative(_estimate(flips.delta, flips.equivalence)) if flips else NOTHING

    return read


def _changed(part: str) -> Reader:
    def read(row: Row, run: RunSummary) -> Reading:
        flips = _flips(row, part)
        return _estimate(flips.changed) if flips else NOTHING

    return read


def _gap(distance: Distance) -> Reader:
    def read(row: Row, run: RunSummary) -> Reading:
        figures = far_or_near(row.pruned, distance)
        return _estimate(figures.gap) if figures else NOTHING

    return read


def _recognition_only(distance: Distance) -> Reader:
    def read(row: Row, run: RunSummary) -> Reading:
        figures = far_or_near(row.pruned, distance)
        return _estimate((figures.quadrants or {}).get("recognition_only")) if figures else NOTHING

    return read


def _excess(distance: Distance) -> Reader:
    def read(row: Row, run: RunSummary) -> Reading:
        change = contrast_at(row.contrast, distance)
        return _estimate(change.excess_gap, change.excess_equivalence) if change else NOTHING

    return read


def _induced(distance: Distance) -> Reader:
    def read(row: Row, run: RunSummary) -> Reading:
        change = contrast_at(row.contrast, distance)
        return _estimate(change.induced) if change else NOTHING

    return read


def _form(flag: str) -> Reader:
    def read(row: Row, run: RunSummary) -> Reading:
        failures = row.pruned and row.pruned.failures
        return _estimate(failures.intervals.get(flag)) if failures else NOTHING

    return read


def _receipt(field: str) -> Reader:
    def read(row: Row, run: RunSummary) -> Reading:
        value = getattr(run.pruning, field) if run.pruning else None
        known = value if value is not None and math.isfinite(value) else None
        return Reading(known, known, known, items=row.joined, clusters=row.clusters)

    return read


def _all() -> dict[str, Metric]:
    found: list[Metric] = []
    for distance in DISTANCES:
        asked = (CONDITION[distance], "gen")
        found += [
            Metric(f"gap {distance}", 1, (-1, 1), _gap(distance), asked, distance),
            Metric(f"excess gap {distance}", 1, (-2, 2), _excess(distance), asked, distance, True, True),
            Metric(f"recognition-only {distance}", 1, (0, 1), _recognition_only(distance), asked, distance),
            Metric(f"induced illusion {distance}", 1, (-1, 1), _induced(distance), asked, distance, True),
            Metric(f"MC drop {distance}", 1, (-1, 1), _drop(distance), asked[:1], has_equivalence=True),
            Metric(f"flips {distance}", 1, (0, 1), _changed(distance), asked[:1]),
        ]
    found += [
        Metric("generation drop", 1, (-1, 1), _drop("generation"), ("gen",), has_equivalence=True),
        Metric("flips generation", 1, (0, 1), _changed("generation"), ("gen",)),
        Metric("empty share", 1, (0, 1), _form("empty"), ("gen",)),
        Metric("repeated share", 1, (0, 1), _form("repeated"), ("gen",)),
        Metric("sparsity reached", -1, (0, 1), _receipt("sparsity_reached"), counted=True),
        Metric("coverage", -1, (0, 1), _receipt("coverage"), counted=True),
    ]
    return {metric.name: metric for metric in found}


METRICS: dict[str, Metric] = _all()
"""name -> metric. A rule that names no distance where there are two stands for both."""
