"""Curves of right answers against sparsity: the structure. `curves.py` fills it."""

from __future__ import annotations

from typing import Literal

from lm_eval_illusion.report.measures import Estimate, Plain

__all__ = ["MEASURES", "CurveLine", "CurveMean", "CurvePanel", "CurvePoint", "Curves", "LeftOut", "LineDefinition"]

MEASURES = {"near": "MC near", "far": "MC far", "generation": "generation"}
"""What is drawn, with its names in words."""


class LineDefinition(Plain):
    """What the points of one line share."""

    name: str
    """Method, pattern, and what else tells this line from the others."""
    method: str
    pattern: str
    """`unstructured`, or the family `n:4` (all patterns with four inputs in a group)."""
    settings: dict[str, str]
    """Allocation, order and calibration."""


class CurvePoint(Plain):
    """One run in one scope. Multiple choice is given at both distances or at none."""

    run: str
    sparsity: float
    """Share of block weights asked for; 1 - n/m of an n:m pattern; 0 of the dense model."""
    pattern: str | None
    seed: int | None
    joined: int
    """Items that this run and the dense one share."""
    near: Estimate | None
    far: Estimate | None
    generation: Estimate | None


class CurveMean(Plain):
    """Mean over the runs of one line at one sparsity (several seeds)."""

    sparsity: float
    runs: int
    near: float | None
    far: float | None
    generation: float | None


class CurveLine(Plain):
    """One line in one scope."""

    line: int
    """Index into `Curves.lines`."""
    points: list[CurvePoint]
    means: list[CurveMean]


class CurvePanel(Plain):
    """One scope."""

    scope: Literal["overall", "dataset", "language"]
    dataset: str | None
    language: str | None
    decided: bool
    """Whether every comparison has enough items and passages for a verdict here."""
    missing: list[str]
    """Conditions not measured here; where one distance lacks, multiple choice is not drawn."""
    chance: dict[str, float]
    """distance -> 1/k; empty where multiple choice is not given."""
    dense: CurvePoint | None
    """None where the first run was pruned itself, or nothing is left to compare."""
    lines: list[CurveLine]


class LeftOut(Plain):
    """A run that stands on no curve."""

    run: str
    why: str


class Curves(Plain):
    """Right answers against sparsity, a line a method."""

    lines: list[LineDefinition]
    panels: list[CurvePanel]
    """In the order of a comparison's rows: overall, datasets, languages."""
    left_out: list[LeftOut]
