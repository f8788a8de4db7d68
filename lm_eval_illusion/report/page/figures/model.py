"""What a figure of the page is: panels with words for them, a key, and the same numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from lm_eval_illusion.report.render.grid import Table

__all__ = ["Figure", "Key", "Panel"]


@dataclass(frozen=True)
class Panel:
    """One picture."""

    title: str
    svg: str
    words: str
    """What it shows, for those who do not see it."""


@dataclass(frozen=True)
class Key:
    """One entry of the key."""

    text: str
    colour: str
    """Name of a colour of the style sheet."""
    form: str
    """A character that looks like the mark."""


@dataclass(frozen=True)
class Figure:
    """Pictures that belong together."""

    title: str
    intro: str
    panels: list[Panel]
    keys: list[Key] = field(default_factory=list)
    table: Table | None = None
    wide: bool = False
    """Whether a panel takes the whole width."""
