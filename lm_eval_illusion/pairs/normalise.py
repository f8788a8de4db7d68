"""One spelling for every way of writing the same answer, in 18 languages and more.

The rules, in this order (reference: the project's matching rules; each has a hand-written case in tests/pairs/cases):

1. space-like grouping marks between digit groups go first (NFKC would turn them into plain spaces);
2. NFKC, casefold with the Turkish dotted and dotless i by rule, NFKC again;
3. format characters (zero-width, bidi, soft hyphen) and the Arabic tatweel are dropped; combining marks never are;
4. digits of every script become ASCII; grouping marks between groups of three are dropped (1,000 = 1.000 = 1000);
5. punctuation (Unicode P*) becomes a space: deleting it would fuse "1990-1995";
6. tokens: a digit run is always one token; grapheme clusters for Chinese, Japanese and Thai (a word in an alphabet
   stays whole there), whitespace-separated elsewhere;
7. articles of the language are dropped; Arabic "al-" only at the start of a word.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

import regex

from .lexicon import ARTICLES

GRAPHEME_LANGUAGES = frozenset({"zh", "ja", "th"})
"""Languages written without spaces: their tokens are grapheme clusters."""

_AL_KEEPS = 3
"""An Arabic token of at most this many letters keeps its "al-"; from longer ones it goes, repeatedly (idempotence)."""
_SPACE_GROUPED = frozenset({"fi", "ru", "uk", "pl", "cs", "fr", "sv", "no", "bg"})
_THIN_SPACES = "\u00a0\u2009\u202f\u2007"
_NBSP_GROUP = regex.compile(rf"(?<!\p{{Nd}})\p{{Nd}}{{1,3}}(?:[{_THIN_SPACES}]\p{{Nd}}{{3}})+(?!\p{{Nd}})")
_SPACE_GROUP = regex.compile(r"(?<!\d)\d{1,3}(?: \d{3})+(?!\d)")
_MARK_GROUP = regex.compile(r"(?<![\d.,])\d{1,3}(?:([.,'’٬،])\d{3})(?:\1\d{3})*(?!\d)")
_LAKH_GROUP = regex.compile(r"(?<![\d.,])\d{1,2}(?:,\d{2})+,\d{3}(?!\d)")
_DROPPED = regex.compile(r"[\p{Cf}\u0640]")
_PUNCTUATION = regex.compile(r"\p{P}")
_WORD_PIECES = regex.compile(r"\d+|[^\d\s]+")
_GRAPHEME_PIECES = regex.compile(r"\d+|(?:[\p{Latin}\p{Greek}\p{Cyrillic}]\p{M}*)+|(?!\s)\X")
_GRAPHEMES = regex.compile(r"\d+|(?!\s)\X")


class Level(IntEnum):
    """How much normalisation a text survives; a gold that would vanish is compared at a lower level."""

    FULL = 0
    """Every rule."""
    ARTICLES_KEPT = 1
    """Every rule but the last: for golds such as "The The" or the blood group "A"."""
    RAW = 2
    """Whitespace-separated pieces of the text as it stands: for golds made of punctuation alone."""


def fold_whitespace(text: str) -> str:
    """Drop a byte-order mark and make every run of whitespace (newlines too) one space."""
    return " ".join(text.replace("\ufeff", "").split())


@lru_cache(maxsize=256)
def base_language(language: str) -> str:
    """Return the language of a tag such as "zh-Hans" or "pt_BR": "zh", "pt"."""
    return language.replace("_", "-").split("-")[0].lower()


def _casefold(text: str, language: str) -> str:
    if language in {"tr", "az"}:
        text = text.replace("I", "ı")
    return text.replace("İ", "i").casefold()


def _ascii_digits(text: str) -> str:
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(c)) if unicodedata.category(c) == "Nd" else c for c in text)


def _ungroup(text: str, language: str) -> str:
    text = _LAKH_GROUP.sub(lambda m: m.group().replace(",", ""), text)
    text = _MARK_GROUP.sub(lambda m: m.group().replace(m.group(1), ""), text)
    if language in _SPACE_GROUPED:
        text = _SPACE_GROUP.sub(lambda m: m.group().replace(" ", ""), text)
    return text


def plain(text: str, language: str) -> str:
    """Apply rules 1 to 5: the comparable text before it is cut into tokens, without outer or double spaces."""
    language = base_language(language)
    text = _NBSP_GROUP.sub(lambda m: "".join(c for c in m.group() if c not in _THIN_SPACES), text)
    text = _DROPPED.sub("", unicodedata.normalize("NFKC", text))
    text = unicodedata.normalize("NFKC", _casefold(text, language))
    text = _ungroup(_ascii_digits(text), language)
    return " ".join(_PUNCTUATION.sub(" ", text).split())


def _without_article(token: str, language: str) -> str:
    if language == "ar":
        while token.startswith("ال") and len(token) > _AL_KEEPS:
            token = token[2:]
    return token


def tokens(text: str, language: str, level: Level = Level.FULL) -> list[str]:
    """Cut a text into comparable tokens.

    Args:
        text: Any text, a gold or a model's answer.
        language: ISO 639-1 code; a region or script suffix is ignored; an unknown code gets the general rules.
        level: See `Level`.

    Returns:
        Tokens in order; empty for a text of which nothing is left at this level.
    """
    language = base_language(language)
    if level is Level.RAW:
        return text.split()
    pattern = _GRAPHEME_PIECES if language in GRAPHEME_LANGUAGES else _WORD_PIECES
    found: list[str] = pattern.findall(plain(text, language))
    if level is Level.ARTICLES_KEPT:
        return found
    articles = ARTICLES.get(language, frozenset())
    return [_without_article(t, language) for t in found if t not in articles]


def level_of(gold: str, language: str) -> Level:
    """Return the strongest level at which something of a gold is left."""
    for level in (Level.FULL, Level.ARTICLES_KEPT):
        if tokens(gold, language, level):
            return level
    return Level.RAW


def normalise(text: str, language: str) -> str:
    """Return the comparable spelling: tokens joined with single spaces (idempotent).

    A text that would vanish is kept at the strongest level that leaves something of it.
    """
    pieces = tokens(text, language, level_of(text, language))
    joined = pieces[:1]
    for before, piece in itertools.pairwise(pieces):
        # With a mere space between neighbouring numbers, "5 300" would read as one grouped number the next time.
        joined += ["/", piece] if before.isdecimal() and piece.isdecimal() else [piece]
    return " ".join(joined)


def characters(pieces: Sequence[str]) -> list[str]:
    """Cut tokens into grapheme clusters; a digit run stays one piece (1989 against 1999 must not score 0.75)."""
    return [g for piece in pieces for g in _GRAPHEMES.findall(piece)]


def digit_runs(pieces: Sequence[str]) -> list[str]:
    """Return the tokens that are digit runs, in order."""
    return [piece for piece in pieces if piece.isdecimal()]
