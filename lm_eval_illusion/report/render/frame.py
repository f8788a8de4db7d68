"""The frame that pictures share: panels side by side, shares upwards. The template only sets what stands here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from lm_eval_illusion.report.render.legend import COLOURS, GROUNDS, Entry

__all__ = ["BOTTOM", "HEIGHT", "LEFT", "RIGHT", "TOP", "WIDTH", "Mark", "Picture", "Trace", "draw", "height_of"]

WIDTH, HEIGHT = 340.0, 250.0
"""Of one panel, with its title and axis labels, in user units."""
LEFT, RIGHT, TOP, BOTTOM = 40.0, 12.0, 30.0, 38.0
"""Room around the plotting area."""
ACROSS = 3
"""Panels side by side."""
MARGIN = 14.0
HEAD = 26.0
"""Height of the title."""
FOOT = 24.0
LEAST = 480.0
"""Width that the legend has even beside one panel."""


@dataclass(frozen=True)
class Mark:
    """One measure of one run."""

    x: float
    y: float
    low: float | None
    """Height of the interval's lower end; None: no interval."""
    high: float | None
    style: str
    """Class: whose colour."""
    shape: str
    """Path of the form."""
    hollow: bool
    small: bool
    """One of several runs of a point."""
    text: str
    """What a pointer over it shows."""


@dataclass(frozen=True)
class Trace:
    """A line through one method's points of one measure."""

    points: str
    style: str
    measure: str


@dataclass(frozen=True)
class Picture:
    """One panel, laid out."""

    title: str
    marks: list[Mark]
    traces: list[Trace]
    chance: list[float]
    """Heights of 1/k."""
    note: str
    """What is not drawn, and why."""


def height_of(share: float) -> float:
    """Where a share from 0 to 1 stands within a panel."""
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def draw(
    *,
    title: str,
    description: str,
    axis: str,
    legend: Callable[[float], tuple[list[Entry], float]],
    panels: Sequence[Picture],
    x_ticks: Sequence[tuple[float, str]],
    decided: bool,
) -> str:
    """Set panels under a title and a legend. The same arguments give the same bytes.

    Args:
        title: Above the panels.
        description: The picture in words, for those who do not see it.
        axis: What goes from left to right.
        legend: Width of a row -> entries and the height that they take.
        panels: What is drawn, row by row.
        x_ticks: Places within a panel, and their words.
        decided: Whether every panel has enough items for a verdict.
    """
    across = min(ACROSS, len(panels))
    room = max(across * WIDTH, LEAST)
    entries, depth = legend(room)
    top = MARGIN + HEAD + depth
    placed = [
        (MARGIN + WIDTH * (index % across), top + HEIGHT * (index // across), panel)
        for index, panel in enumerate(panels)
    ]
    few = "" if decided else " *: too few items or passages for a verdict."
    return str(
        _template().render(
            title=title,
            description=description,
            axis=axis,
            width=room + 2 * MARGIN,
            height=top + HEIGHT * -(-len(panels) // across) + FOOT,
            margin=MARGIN,
            below=MARGIN + HEAD,
            entries=entries,
            panels=placed,
            palette=COLOURS,
            grounds=GROUNDS,
            foot=f"Vertical bars: 95 % intervals.{few}",
            x_ticks=x_ticks,
            y_ticks=[(height_of(tick / 5), f"{tick / 5:g}") for tick in range(6)],
            area=(LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM),
        )
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["at"] = lambda value: f"{value:.1f}"
    return environment.get_template("picture.svg.j2")
