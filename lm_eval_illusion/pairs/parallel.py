"""Distractors of parallel data, chosen once by id: each language then shows its own aligned answers.

A candidate stands only if the rules hold in every language. Near candidates, best first: golds of the same paragraph,
numbers that stand in the passage in every language, golds of the same article (those that occur in the passage as well
before the others). Far candidates: golds of other articles that occur in the passage in no language.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import regex

from .choose import KEPT, Candidate, choose_three
from .draw import draw, shuffled
from .normalise import normalise
from .options import Options, arrange
from .questions import Question
from .rules import ALIGNED, Answer, admissible, unlikeness

Texts = Mapping[str, Answer]
"""Language -> the aligned answer."""

_NUMBER = regex.compile(r"(?<![\p{Nd}.,])\p{Nd}+(?:[.,٬]\p{Nd}+)*(?![\p{Nd}])")
_REFERENCE = "en"
ARTICLE_COST = 2.0
"""Cost of a gold of the same article that occurs in the passage in no language; less for each in which it does."""
NUMBER_COST = 0.3
"""Cost of a number of the passage against a gold of the paragraph."""
FAR_TRIED = 2 * KEPT
"""How many far candidates are collected before three are chosen."""


@dataclass(frozen=True)
class Item:
    """One question in all its languages."""

    source_id: str
    """Shared by all languages."""
    questions: Mapping[str, Question]
    """Language -> question."""
    golds: Mapping[str, tuple[Answer, ...]]
    """Language -> every right answer."""
    passages: Mapping[str, str]
    """Language -> normalised passage without spaces, for occurrence checks."""

    @cached_property
    def shown(self) -> dict[str, Answer]:
        """Language -> the gold that is shown."""
        return {language: golds[0] for language, golds in self.golds.items()}

    @cached_property
    def title(self) -> str:
        """Title of the article, in the language that decides."""
        return self.questions[self.reference].title

    @cached_property
    def reference(self) -> str:
        """The language whose lengths and places decide: English where there is one."""
        return _REFERENCE if _REFERENCE in self.golds else min(self.golds)


def join_languages(by_language: Mapping[str, Sequence[Question]]) -> dict[str, Item]:
    """Join the languages of a parallel data set on the source id; ids that some language lacks are left out."""
    tables = {language: {q.source_id: q for q in questions} for language, questions in by_language.items()}
    shared = set.intersection(*(set(table) for table in tables.values())) if tables else set()
    spelled: dict[tuple[str, str], str] = {}
    items: dict[str, Item] = {}
    for source_id in sorted(shared):
        rows = {language: table[source_id] for language, table in tables.items()}
        for language, q in rows.items():
            if (language, q.passage) not in spelled:
                spelled[language, q.passage] = normalise(q.passage, language).replace(" ", "")
        items[source_id] = Item(
            source_id=source_id,
            questions=rows,
            golds={language: tuple(Answer(a, language) for a in q.answers) for language, q in rows.items()},
            passages={language: spelled[language, q.passage] for language, q in rows.items()},
        )
    return items


def _holds_everywhere(texts: Texts, item: Item) -> bool:
    decides = item.reference
    if not admissible(texts[decides], item.golds[decides]):
        return False
    return all(
        admissible(texts[language], golds, length=ALIGNED, kind=False)
        for language, golds in item.golds.items()
        if language != decides
    )


def _share_in_passage(texts: Texts, item: Item) -> float:
    return sum(texts[language].key in passage for language, passage in item.passages.items()) / len(texts)


def _numbers(item: Item) -> Iterator[tuple[str, dict[str, Answer]]]:
    """Yield (digits, language -> as written) for numbers that stand in the passage in every language."""
    found: list[dict[str, str]] = []
    for language, question in item.questions.items():
        written: dict[str, str] = {}
        for hit in _NUMBER.finditer(question.passage):
            written.setdefault(normalise(hit.group(), language), hit.group())
        found.append(written)
    for digits in sorted(set.intersection(*(set(written) for written in found))):
        yield (
            digits,
            {
                language: Answer(written[digits], language)
                for language, written in zip(item.questions, found, strict=True)
            },
        )


def _candidate(texts: Texts, item: Item, source: str, cost: float) -> Candidate:
    language = item.reference
    answer = texts[language]
    place = item.passages[language].find(answer.key)
    likeness = sum(unlikeness(texts[code], golds[0]) for code, golds in item.golds.items()) / len(item.golds)
    return Candidate(answer, source, cost + likeness, place if place >= 0 else None)


@dataclass(frozen=True)
class Aligned:
    """Three distractors in every language, and the hash key of their order."""

    texts: list[tuple[Texts, str]]
    key: tuple[object, ...]

    def options(self, gold: str, language: str) -> Options:
        """Return the options of one language."""
        return arrange(gold, [(texts[language].text, source) for texts, source in self.texts], self.key)


@dataclass(frozen=True)
class Parallel:
    """A parallel data set, ready to give each item its options."""

    items: Mapping[str, Item]
    """Source id -> item."""
    seed: int
    """`illusion_seed`."""

    def _options(
        self, item: Item, pool: dict[str, Texts], candidates: list[Candidate], condition: str
    ) -> Aligned | None:
        key = (next(iter(item.questions.values())).dataset, item.source_id, condition, self.seed)
        gold = item.shown[item.reference]
        place = item.passages[item.reference].find(gold.key)
        chosen = choose_three(candidates, gold, place if place >= 0 else None, key)
        return None if chosen is None else Aligned([(pool[c.source], c.source) for c in chosen], key)

    @cached_property
    def _articles(self) -> dict[str, list[Item]]:
        found: dict[str, list[Item]] = {}
        for item in self.items.values():
            found.setdefault(item.title, []).append(item)
        return found

    @cached_property
    def _ring(self) -> list[str]:
        return shuffled(self.items, "ring", self.seed)

    def near(self, item: Item) -> Aligned | None:
        """Choose distractors of the same paragraph, passage or article; None where there are no three."""
        here = next(iter(item.questions.values())).cluster
        pool: dict[str, Texts] = {}
        candidates: list[Candidate] = []
        for other in self._articles[item.title]:
            same = next(iter(other.questions.values())).cluster == here
            texts = other.shown
            if other.source_id == item.source_id or not _holds_everywhere(texts, item):
                continue
            source = f"{'paragraph' if same else 'article'}:{other.source_id}"
            pool[source] = texts
            cost = 0.0 if same else ARTICLE_COST * (1 - _share_in_passage(texts, item))
            candidates.append(_candidate(texts, item, source, cost))
        for digits, texts in _numbers(item) if item.shown[item.reference].look.numeric else ():
            if _holds_everywhere(texts, item):
                source = f"passage:number {digits}"
                pool[source] = texts
                candidates.append(_candidate(texts, item, source, NUMBER_COST))
        return self._options(item, pool, candidates, "near")

    def far(self, item: Item) -> Aligned | None:
        """Choose golds of other articles: all ids stand on a ring in hash order, walked from the item's own hash on."""
        ring = self._ring
        start = draw("ring", item.source_id, self.seed) % len(ring)
        pool: dict[str, Texts] = {}
        candidates: list[Candidate] = []
        for source_id in itertools.chain(ring[start:], ring[:start]):
            other = self.items[source_id]
            if other.title == item.title:
                continue
            texts = other.shown
            if _holds_everywhere(texts, item) and not _share_in_passage(texts, item):
                source = f"language:{source_id}"
                pool[source] = texts
                candidates.append(_candidate(texts, item, source, 0.0))
                if len(candidates) == FAR_TRIED:
                    break
        return self._options(item, pool, candidates, "far")
