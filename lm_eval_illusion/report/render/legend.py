"""The picture's colours, forms and legend: what tells one line from another, also for colour-blind readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lm_eval_illusion.report.curve_figures import MEASURES
from lm_eval_illusion.report.render.safe import inert

__all__ = ["COLOURS", "GROUNDS", "SHAPES", "Entry", "legend", "rows_of", "style_of"]

GROUNDS = {"light": "#FFFFFF", "dark": "#14181D"}
"""Behind everything, so that text is legible whatever page the picture lies on."""
COLOURS = {
    "light": ("#0699F5", "#F34076", "#8C7A00", "#8900F5", "#23275B", "#5A1E08"),
    "dark": ("#1BF5BF", "#FB53D8", "#E4D04A", "#AD04FA", "#037F61", "#8F8D1E"),
}
"""Apart from each other for normal, protan, deutan and tritan eyes, and at least 3:1 against the ground."""
SHAPES = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "M0,-5L4.6,3.4L-4.6,3.4z",
    "M0,-5.2L5.2,0L0,5.2L-5.2,0z",
    "M-3.7,-3.7h7.4v7.4h-7.4z",
    "M0,5L4.6,-3.4L-4.6,-3.4z",
)
"""Paths of marks around 0,0; five, so that with six colours thirty lines differ."""
ROW = 20.0
_CHARACTER = 6.6
"""Mean width of a character at the legend's size."""
_SAMPLE = 30.0
_GAP = 18.0


@dataclass(frozen=True)
class Entry:
    """One sample with its text."""

    x: float
    y: float
    text: str
    style: str
    """Class of the colour."""
    shape: str | None
    """Path of the mark; None: a line alone."""
    measure: str | None
    """Class of the line; None: a mark alone."""
    hollow: bool = False


def style_of(line: int) -> tuple[str, str]:
    """Colour class and mark of the line with this number."""
    return f"c{line % len(COLOURS['light'])}", SHAPES[line % len(SHAPES)]


def legend(names: Sequence[str], width: float, structured: bool) -> tuple[list[Entry], float]:
    """Lay the legend out in rows: measures by line, then the dense model and the methods by colour and mark.

    Args:
        names: Names of the lines.
        width: Room for a row.
        structured: Whether n:m points occur.

    Returns:
        Entries, placed from 0,0, and the height that they take.
    """
    wanted: list[tuple[str, str, str | None, str | None, bool]] = [
        (words, "ink", None, name, False) for name, words in reversed(MEASURES.items())
    ]
    wanted += [("chance", "chance", None, "chance", False), ("dense", "ink", SHAPES[0], None, False)]
    wanted += [(inert(name, 60), *style_of(line), None, False) for line, name in enumerate(names)]
    if structured:
        wanted.append(("hollow: n:m pattern", "ink", SHAPES[0], None, True))
    return rows_of(wanted, width)


def rows_of(wanted: Sequence[tuple[str, str, str | None, str | None, bool]], width: float) -> tuple[list[Entry], float]:
    """Set samples one after the other, row by row.

    Args:
        wanted: Text, colour class, mark, line class and whether hollow, of each.
        width: Room for a row.

    Returns:
        Entries, placed from 0,0, and the height that they take.
    """
    entries = []
    x, y = 0.0, ROW / 2
    for text, style, shape, measure, hollow in wanted:
        takes = _SAMPLE + _CHARACTER * len(text) + _GAP
        if x and x + takes > width:
            x, y = 0.0, y + ROW
        entries.append(Entry(x, y, text, style, shape, measure, hollow))
        x += takes
    return entries, y + ROW / 2
