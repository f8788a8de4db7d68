"""What sort of answer a text is: numeric (number or date) or words, and how it looks on the page.

Kinds do not rest on capitals, which most of the scripts here do not have. Where a script has them, the look of a text
(does it open with a capital?) is matched besides, so that a capital is never a hint at the key.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import regex

from .lexicon import NUMBER_WORDS
from .normalise import base_language, plain

_YEAR = regex.compile(r"(?<!\d)(?:1\d{3}|20\d{2}|21\d{2})(?!\d)")
_WORD = regex.compile(r"\d+|[^\d\s]+")


@dataclass(frozen=True)
class Look:
    """What the eye sees of an answer before reading it; a distractor must look like the gold."""

    numeric: bool
    """Holds a digit or is made of number words."""
    shape: str
    """Numeric only: a letter a token - Y year, D other digit run, w word; "" for words."""
    letters: frozenset[str]
    """Scripts of the letters, as the first word of their Unicode names; Chinese and Japanese count as one."""
    digits: frozenset[str]
    """Scripts of the digits."""
    capital: bool
    """The first letter is upper case (always False in scripts without case)."""


@lru_cache(maxsize=8192)
def script_of(char: str) -> str:
    """Return the script of a letter or digit, by the first word of its Unicode name; Chinese and Japanese are one."""
    if char.isdecimal():
        return unicodedata.name(char, "").rpartition("DIGIT")[0].strip() or "ASCII"
    name = unicodedata.name(char, "").split(" ")[0]
    return "HAN" if name in {"CJK", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC"} else name


def number_shape(text: str, language: str) -> str:
    """Return a letter a token of a numeric text: "11 Julai 1977" is DwY."""
    pieces = _WORD.findall(plain(text, language))
    return "".join("Y" if _YEAR.fullmatch(p) else "D" if p.isdecimal() else "w" for p in pieces)


def is_numeric(text: str, language: str) -> bool:
    """Say whether a text holds a digit of any script, or consists of number words of the language."""
    if any(c.isdecimal() for c in text):
        return True
    known = NUMBER_WORDS.get(base_language(language), frozenset())
    words = plain(text, language).split()
    return bool(words) and words[0] in known and len(words) <= 4


def look_of(text: str, language: str) -> Look:
    """Describe how an answer looks."""
    numeric = is_numeric(text, language)
    first = next((c for c in text if c.isalpha()), "")
    return Look(
        numeric=numeric,
        shape=number_shape(text, language) if numeric else "",
        letters=frozenset(script_of(c) for c in text if c.isalpha()),
        digits=frozenset(script_of(c) for c in text if c.isdecimal()),
        capital=first.isupper(),
    )
