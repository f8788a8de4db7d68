"""What each condition lets the model read before the answer label; an item and its demonstrations look alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .prompts import compose


@dataclass(frozen=True)
class Display:
    """The parts of a prompt that a condition shows."""

    passage: bool = True
    question: bool = True
    listed: bool = False
    """The near options, a line each."""
    lettered: bool = False
    """They begin with letters, and the letter is the answer."""
    earlier: bool = False
    """The model's earlier answer."""

    @property
    def needs_options(self) -> bool:
        """A demonstration can look so only if it has near options."""
        return self.listed or self.earlier


PAIRED = Display()
"""What the pair itself reads: passage and question."""
_REVISE = Display(earlier=True)

DISPLAYS: dict[str, Display] = {
    "mc_letters": Display(listed=True, lettered=True),
    "shown": Display(listed=True),
    "shown_nogold": Display(listed=True),
    "closed_mc": Display(passage=False),
    "closed_gen": Display(passage=False),
    "question_only": Display(passage=False),
    "choices_only": Display(passage=False, question=False),
    "revise1_mc": _REVISE,
    "revise1_gen": _REVISE,
    "revise2_mc": _REVISE,
    "revise2_gen": _REVISE,
}
"""Condition -> what it shows; all others show what the pair reads."""


def text_of(
    display: Display,
    language: str,
    passage: str,
    question: str,
    *,
    options: Sequence[str] = (),
    earlier: str | None = None,
) -> str:
    """Return the text of one question up to the answer label; what the display does not show is left out."""
    return compose(
        language,
        passage=passage if display.passage else None,
        question=question if display.question else None,
        options=options if display.listed else (),
        lettered=display.lettered,
        earlier=earlier if display.earlier else None,
    )
