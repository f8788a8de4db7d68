"""When is an open answer right? Exact, contained, F1 - and the standard fixed in advance, over every gold.

The standard G: exact; or the gold's tokens as a contiguous run in an answer of at most 3 x gold + 5 tokens; or token
F1 of at least 0.5 with every digit run of the gold present. Empty output is never right. `anywhere` has no limit of
length and is no part of the standard: it tells an answer that is lost from one that is there, but not by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .normalise import Level, characters, digit_runs, level_of, tokens

F1_NEEDED = 0.5
"""Token F1 from which an answer counts as right, digits permitting."""
LENGTH_FACTOR, LENGTH_EXTRA = 3, 5
"""A gold counts as contained only in an answer of at most LENGTH_FACTOR x gold + LENGTH_EXTRA tokens."""


@dataclass(frozen=True)
class Match:
    """How well one answer fits a question's golds; each field is the best over the golds."""

    exact: bool
    """The same tokens in the same order."""
    contained: bool
    """Some gold is a contiguous run of tokens in an answer that is short enough."""
    anywhere: bool
    """Some gold is a contiguous run of tokens in an answer of any length."""
    near: bool
    """F1 of at least 0.5 with every digit run of that gold present."""
    f1: float
    """Token F1, 0 to 1."""
    char_f1: float
    """F1 over grapheme clusters, digit runs whole, 0 to 1; for languages with particles and cases."""

    @property
    def standard(self) -> bool:
        """The definition of "right" that was fixed in advance (G)."""
        return self.exact or self.contained or self.near


NO_MATCH = Match(exact=False, contained=False, anywhere=False, near=False, f1=0.0, char_f1=0.0)
"""What an empty answer gets."""


def overlap_f1(left: Sequence[str], right: Sequence[str]) -> float:
    """Return 2 x shared / (left + right) over multisets, 0 to 1; 0 where either is empty."""
    shared = sum((Counter(left) & Counter(right)).values())
    return 2 * shared / (len(left) + len(right)) if shared else 0.0


def is_run(needle: Sequence[str], haystack: Sequence[str]) -> bool:
    """Say whether `needle` (not empty) occurs in `haystack` as a contiguous run."""
    n = len(needle)
    return n > 0 and any(list(haystack[i : i + n]) == list(needle) for i in range(len(haystack) - n + 1))


def _match_one(answer: str, gold: str, language: str) -> Match:
    level = level_of(gold, language)
    said, wanted = tokens(answer, language, level), tokens(gold, language, level)
    if not said or not wanted:
        return NO_MATCH
    f1 = overlap_f1(said, wanted)
    digits_there = not (Counter(digit_runs(wanted)) - Counter(digit_runs(said)))
    anywhere = is_run(wanted, said)
    return Match(
        exact=said == wanted,
        contained=anywhere and len(said) <= LENGTH_FACTOR * len(wanted) + LENGTH_EXTRA,
        anywhere=anywhere,
        near=f1 >= F1_NEEDED and digits_there,
        f1=f1,
        char_f1=f1 if level is Level.RAW else overlap_f1(characters(said), characters(wanted)),
    )


def match(answer: str, golds: Sequence[str], language: str) -> Match:
    """Compare one answer line with every gold.

    Args:
        answer: The line that counts as the answer (see `reading.read_answer`).
        golds: One or more right answers.
        language: ISO 639-1 code.

    Returns:
        The best value of each matcher over the golds; `NO_MATCH` for an empty answer or no golds.
    """
    found = [_match_one(answer, gold, language) for gold in golds] if answer.strip() else []
    if not found:
        return NO_MATCH
    return Match(
        exact=any(m.exact for m in found),
        contained=any(m.contained for m in found),
        anywhere=any(m.anywhere for m in found),
        near=any(m.near for m in found),
        f1=max(m.f1 for m in found),
        char_f1=max(m.char_f1 for m in found),
    )
