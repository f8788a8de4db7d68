"""What a data set's own passages say about a language's words: which are function words, which endings come off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import regex

from .lexicon import FUNCTION_WORDS, PARTICLES
from .normalise import base_language

FREQUENT_SHARE, FREQUENT_PASSAGES = 0.06, 30
"""A word in at least this share of the passages is a function word, provided that there are so many passages."""
STEM_ENDINGS = 2
"""A written-on ending comes off if its stem is seen with so many different endings (or bare)."""

WORD = regex.compile(r"(?:\p{L}|\p{M}|\p{Nd})+(?:(?:[.,٬]\p{Nd}+)|['’ʼ\-–‑](?:\p{L}|\p{M}|\p{Nd})+)*%?")
"""A word with inner hyphens and apostrophes, or a number with its marks."""


@dataclass(frozen=True)
class Vocabulary:
    """Word statistics of one language of one data set."""

    language: str
    """ISO 639-1 code."""
    passages: int
    """How many passages were counted."""
    passage_counts: Mapping[str, int]
    """Casefolded word -> number of passages that have it."""
    lower_seen: frozenset[str]
    """Casefolded words that are written with a small first letter somewhere."""

    @cached_property
    def function_words(self) -> frozenset[str]:
        """Listed function words and words that occur in very many passages."""
        listed = FUNCTION_WORDS.get(base_language(self.language), frozenset())
        if self.passages < FREQUENT_PASSAGES:
            return listed
        often = {
            word
            for word, count in self.passage_counts.items()
            if count >= FREQUENT_SHARE * self.passages and not any(c.isdecimal() for c in word)
        }
        return listed | often

    @cached_property
    def _stems(self) -> Mapping[str, int]:
        endings: Counter[str] = Counter()
        for word in self.passage_counts:
            endings[word] += 1
            for particle in PARTICLES.get(base_language(self.language), ()):
                if word.endswith(particle) and len(word) > len(particle) + 1:
                    endings[word[: -len(particle)]] += 1
        return endings

    def bare(self, word: str) -> str:
        """Return a word without a written-on particle, where the language has them and the stem is seen elsewhere."""
        for particle in PARTICLES.get(base_language(self.language), ()):
            stem = word[: -len(particle)]
            if word.endswith(particle) and len(stem) > 1 and self._stems[stem.casefold()] >= STEM_ENDINGS:
                return stem
        return word


def count_words(passages: Iterable[str], language: str) -> Vocabulary:
    """Count the words of distinct passages."""
    counts: Counter[str] = Counter()
    lower: set[str] = set()
    distinct = set(passages)
    for passage in distinct:
        words = WORD.findall(passage)
        counts.update({word.casefold() for word in words})
        lower.update(word.casefold() for word in words if word[:1].islower())
    return Vocabulary(language, len(distinct), counts, frozenset(lower))
