"""What a data set says about a language's words: function words, endings, how answers look, what questions ask."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import regex

from .lexicon import FUNCTION_WORDS, PARTICLES
from .normalise import base_language
from .questions import Question

FREQUENT_SHARE, FREQUENT_PASSAGES = 0.06, 30
"""A word in at least this share of the passages is a function word, provided that there are so many passages."""
ASKED_SHARE = 0.02
"""A word in at least this share of the questions tells what is asked for."""
SMOOTHING = 2.0
"""Counts added on both sides before a ratio is taken."""
STEM_ENDINGS = 2
"""A written-on ending comes off if its stem is seen with so many different endings (or bare)."""

WORD = regex.compile(r"(?:\p{L}|\p{M}|\p{Nd})+(?:(?:[.,٬]\p{Nd}+)|['’ʼ\-–‑](?:\p{L}|\p{M}|\p{Nd})+)*%?")
"""A word with inner hyphens and apostrophes, or a number with its marks."""


@dataclass(frozen=True)
class Edges:
    """How much likelier the first and last letters of a word are in answers than in passages.

    This tells nouns and names from verbs without knowing the language: 다 ends Korean verbs and hardly an answer.
    """

    starts: Mapping[str, float]
    """First letters of a first word -> log ratio."""
    ends: Mapping[str, float]
    """Last letters of a last word -> log ratio."""

    def unlikely(self, first: str, last: str) -> float:
        """Return how unlike an answer's edges two words are, -1 (very like) to 2, 0 where nothing is known."""
        first, last = first.casefold(), last.casefold()
        ratio = self.starts.get(first[: letters(first)], 0.0) / 2 + self.ends.get(last[-letters(last) :], 0.0)
        return min(2.0, max(-1.0, -ratio))


def alike(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the share (0 to 1) of words that two sets have both, of those that either has; 0 for two empty sets."""
    return len(left & right) / len(left | right) if left or right else 0.0


def letters(word: str) -> int:
    """Return how many letters make an edge: one where a letter is a syllable (Hangul), two elsewhere."""
    return 1 if "가" <= word[-1:] <= "힣" else 2


def _log_ratios(answers: Iterable[str], words: Counter[str], cut: Callable[[str], str]) -> dict[str, float]:
    seen = Counter(cut(word.casefold()) for word in answers)
    everywhere: Counter[str] = Counter()
    for word, count in words.items():
        everywhere[cut(word)] += count
    scale = sum(seen.values()) / max(sum(everywhere.values()), 1)
    return {e: math.log((seen[e] + SMOOTHING) / (n * scale + SMOOTHING)) for e, n in everywhere.items()}


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
    edges: Edges
    """How answers of the data set begin and end."""
    asking: frozenset[str]
    """Words that many questions share: who, when, how many."""

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

    def asks(self, question: str) -> frozenset[str]:
        """Return the asking words of a question."""
        return self.asking.intersection(word.casefold() for word in WORD.findall(question))

    def bare(self, word: str) -> str:
        """Return a word without a written-on particle, where the language has them and the stem is seen elsewhere."""
        for particle in PARTICLES.get(base_language(self.language), ()):
            stem = word[: -len(particle)]
            if word.endswith(particle) and len(stem) > 1 and self._stems[stem.casefold()] >= STEM_ENDINGS:
                return stem
        return word


def count_words(questions: Sequence[Question], language: str) -> Vocabulary:
    """Count the words of the passages, answers and questions of one language."""
    counts: Counter[str] = Counter()
    running: Counter[str] = Counter()
    lower: set[str] = set()
    distinct = {q.passage for q in questions}
    for passage in distinct:
        words = WORD.findall(passage)
        folded = [word.casefold() for word in words]
        counts.update(set(folded))
        running.update(word for word in folded if not word.isdecimal())
        lower.update(word.casefold() for word in words if word[:1].islower())
    answers = [WORD.findall(q.gold) for q in questions]
    worded = [words for words in answers if words and not any(c.isdecimal() for word in words for c in word)]
    asked = Counter(word for q in questions for word in {w.casefold() for w in WORD.findall(q.question)})
    return Vocabulary(
        language=language,
        passages=len(distinct),
        passage_counts=counts,
        lower_seen=frozenset(lower),
        edges=Edges(
            starts=_log_ratios((words[0] for words in worded), running, lambda word: word[: letters(word)]),
            ends=_log_ratios((words[-1] for words in worded), running, lambda word: word[-letters(word) :]),
        ),
        asking=frozenset(word for word, count in asked.items() if count >= ASKED_SHARE * len(questions)),
    )
