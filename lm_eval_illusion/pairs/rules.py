"""The rules a distractor must keep, as pure predicates; one place for authored, found and borrowed options alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import regex

from .answers import F1_NEEDED, overlap_f1
from .kinds import Look, look_of
from .normalise import digit_runs, normalise, tokens

_MARKUP = regex.compile(r"[<>{}|\\]|\[\d*\]")
_CLUSTER = regex.compile(r"(?!\s)\X")


@dataclass(frozen=True)
class Length:
    """What counts as similar length: the longer has at most ratio x shorter + slack grapheme clusters."""

    ratio: float
    """Factor on the shorter text."""
    slack: int
    """Grapheme clusters on top, for short texts."""


SIMILAR = Length(2.5, 5)
"""Length rule in the language that decides."""
ALIGNED = Length(3.0, 10)
"""Length rule in the other languages of parallel data: a translation may be twice as long as another."""


@dataclass(frozen=True)
class Answer:
    """A text that may stand among the options, with what the rules need of it, computed once."""

    text: str
    """As shown."""
    language: str
    """ISO 639-1 code."""

    @cached_property
    def look(self) -> Look:
        """How it looks on the page."""
        return look_of(self.text, self.language)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Normalised tokens."""
        return tuple(tokens(self.text, self.language))

    @cached_property
    def key(self) -> str:
        """Normalised spelling without spaces; equality and containment are judged on it."""
        return "".join(self.tokens) or normalise(self.text, self.language).replace(" ", "")

    @cached_property
    def token_set(self) -> frozenset[str]:
        """Distinct tokens, for a quick look before F1 is computed."""
        return frozenset(self.tokens)

    @cached_property
    def length(self) -> int:
        """Grapheme clusters of the text as shown, spaces not counted."""
        return len(self.text.replace(" ", "")) if self.text.isascii() else len(_CLUSTER.findall(self.text))


def similar_length(left: Answer, right: Answer, rule: Length = SIMILAR) -> bool:
    """Say whether two answers are of similar length under a rule."""
    short, long = sorted((left.length, right.length))
    return long <= rule.ratio * short + rule.slack


def same_script(left: Answer, right: Answer) -> bool:
    """Say whether letters and digits of two answers, where both have them, share a script."""
    a, b = left.look, right.look
    letters = not (a.letters and b.letters) or bool(a.letters & b.letters)
    digits = not (a.digits and b.digits) or bool(a.digits & b.digits)
    return letters and digits


def unlikeness(option: Answer, gold: Answer) -> float:
    """Return how far an admissible option is from looking like the gold: 0 not at all, about 1 a clear step."""
    a, b = option.look, gold.look
    cost = 0.5 * abs(math.log((option.length + 2) / (gold.length + 2)))
    cost += 0.25 * abs(len(option.tokens) - len(gold.tokens)) / max(len(gold.tokens), 1)
    if a.numeric:
        cost += 0.0 if a.shape == b.shape else 0.4 + 0.6 * (("Y" in a.shape) != ("Y" in b.shape))
        cost += 0.4 * (bool(a.letters) != bool(b.letters))
    elif a.capital != b.capital:
        cost += 0.8
    return cost


def entangled(left: Answer, right: Answer) -> bool:
    """Say whether one answer equals, contains or is contained in the other after normalisation."""
    return left.key in right.key or right.key in left.key


def would_count_as_right(option: Answer, gold: Answer) -> bool:
    """Say whether the matcher would take the option for the gold: then it is no distractor."""
    if entangled(option, gold):
        return True
    if option.token_set.isdisjoint(gold.token_set):
        return False
    if Counter(digit_runs(gold.tokens)) - Counter(digit_runs(option.tokens)):
        return False
    return overlap_f1(option.tokens, gold.tokens) >= F1_NEEDED


def admissible(option: Answer, golds: Sequence[Answer], *, length: Length = SIMILAR, kind: bool = True) -> bool:
    """Say whether an option may stand beside the first gold: wrong by every gold, alike in kind, script and length.

    Args:
        option: The would-be distractor.
        golds: Every right answer; the first is the one shown.
        length: Length rule.
        kind: Compare the kind too; False where the kind was compared in another language of the same item.
    """
    return (
        similar_length(option, golds[0], length)
        and (not kind or option.look.numeric == golds[0].look.numeric)
        and same_script(option, golds[0])
        and bool(option.tokens)
        and not _MARKUP.search(option.text)
        and not any(would_count_as_right(option, gold) for gold in golds)
    )
