"""Which questions can be asked at all; the others are left out of every half, and counted by reason."""

from __future__ import annotations

import unicodedata

from .normalise import GRAPHEME_LANGUAGES, base_language
from .questions import Question

MAX_GOLD_CHARACTERS = 60
"""Questions whose shown answer is longer ask for a sentence, which the budget and the matchers are not made for. A
Chinese, Japanese or Korean character counts twice."""


def too_long(question: Question) -> bool:
    """Say whether the shown answer is longer than `MAX_GOLD_CHARACTERS`."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in question.gold)
    return len(question.gold) + wide > MAX_GOLD_CHARACTERS


def is_fragment(question: Question) -> bool:
    """Say whether the shown answer begins inside a word wherever it occurs: the source's offsets were off.

    An end inside a word is ordinary (a particle or ending follows). Languages written without spaces are not judged.
    """
    gold, passage = question.gold, question.passage
    if base_language(question.language) in GRAPHEME_LANGUAGES or not _in_word(gold[:1]):
        return False
    places = [i for i in range(len(passage)) if passage.startswith(gold, i)]
    return bool(places) and all(i > 0 and _in_word(passage[i - 1]) for i in places)


def _in_word(char: str) -> bool:
    return unicodedata.category(char)[:1] in "LM" if char else False


def reason_against(question: Question) -> str | None:
    """Return why a question of one language cannot be asked, or None."""
    if too_long(question):
        return f"answer longer than {MAX_GOLD_CHARACTERS} characters"
    if is_fragment(question):
        return "answer begins inside a word"
    return None
