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

from .aligned import Aligned, Item, Texts, holds_everywhere, share_in_passage, shared_numbers
from .choose import Candidate, choose_three
from .draw import draw, shuffled
from .graded import choose_distances
from .rules import unlikeness
from .spans import kind_of
from .vocabulary import Vocabulary, alike, count_words

ARTICLE_COST = 2.0
"""Cost of a gold of the same article that occurs in the passage in no language; less for each in which it does."""
NUMBER_COST = 0.3
"""Cost of a number of the passage against a gold of the paragraph."""
ASKED_COST = 0.5
"""Cost of a gold whose question asks with quite other words (who, when, how many)."""
FAR_TRIED = 30
"""How many far candidates are collected before three are chosen."""


def candidate_of(texts: Texts, item: Item, source: str, cost: float) -> Candidate:
    """Return an aligned answer as a candidate, by the language that decides; its likeness is the mean over all."""
    language = item.reference
    answer = texts[language]
    place = item.passages[language].find(answer.key)
    likeness = sum(unlikeness(texts[code], golds[0]) for code, golds in item.golds.items()) / len(item.golds)
    return Candidate(answer, source, cost + likeness, place if place >= 0 else None)


@dataclass(frozen=True)
class Parallel:
    """A parallel data set, ready to give each item its options."""

    items: Mapping[str, Item]
    """Source id -> item."""
    seed: int
    """`illusion_seed`."""

    def _place(self, item: Item) -> int | None:
        place = item.passages[item.reference].find(item.shown[item.reference].key)
        return place if place >= 0 else None

    def _options(self, item: Item, found: Sequence[tuple[Texts, Candidate]], condition: str) -> Aligned | None:
        key = (item.questions[item.reference].dataset, item.source_id, condition, self.seed)
        pool = {candidate.source: texts for texts, candidate in found}
        gold = item.shown[item.reference]
        chosen = choose_three([candidate for _, candidate in found], gold, self._place(item), key)
        return None if chosen is None else Aligned([(pool[c.source], c.source.split(" ")[0]) for c in chosen], key)

    @cached_property
    def _words(self) -> Vocabulary:
        reference = next(iter(self.items.values())).reference
        return count_words([item.questions[reference] for item in self.items.values()], reference)

    @cached_property
    def _types(self) -> dict[str, str]:
        """Source id -> type as the source gives it, else number, name or phrase by the language that decides."""
        return {source_id: self._type(item) for source_id, item in self.items.items()}

    def _type(self, item: Item) -> str:
        gold, given = item.shown[item.reference], item.questions[item.reference].kind
        return given or ("number" if gold.look.numeric else kind_of(gold.text, self._words))

    def _same_type(self, item: Item, other: Item) -> bool:
        return self._types[item.source_id] == self._types[other.source_id]

    @cached_property
    def _asks(self) -> dict[str, frozenset[str]]:
        return {i: self._words.asks(item.questions[item.reference].question) for i, item in self.items.items()}

    def _asked(self, item: Item, other: Item) -> float:
        return ASKED_COST * (1 - alike(self._asks[item.source_id], self._asks[other.source_id]))

    @cached_property
    def _articles(self) -> dict[str, list[Item]]:
        found: dict[str, list[Item]] = {}
        for item in self.items.values():
            found.setdefault(item.title, []).append(item)
        return found

    @cached_property
    def _ring(self) -> list[str]:
        return shuffled(self.items, "ring", self.seed)

    def _related(self, item: Item) -> Iterator[tuple[Texts, Candidate]]:
        """Yield golds of the paragraph and the article, and numbers of the passage."""
        for other in self._articles[item.title]:
            same = other.cluster == item.cluster
            texts = other.shown
            if (
                other.source_id == item.source_id
                or not self._same_type(item, other)
                or not holds_everywhere(texts, item)
            ):
                continue
            source = f"{'paragraph' if same else 'article'}:{other.source_id}"
            cost = 0.0 if same else ARTICLE_COST * (1 - share_in_passage(texts, item))
            yield texts, candidate_of(texts, item, source, cost + self._asked(item, other))
        for digits, texts in shared_numbers(item) if item.shown[item.reference].look.numeric else ():
            if holds_everywhere(texts, item):
                yield texts, candidate_of(texts, item, f"passage:number {digits}", NUMBER_COST)

    def _foreign(self, item: Item) -> Iterator[tuple[Texts, Candidate]]:
        """Yield golds of other articles: all ids stand on a ring in hash order, walked from the item's own hash on."""
        ring = self._ring
        start = draw("ring", item.source_id, self.seed) % len(ring)
        for source_id in itertools.chain(ring[start:], ring[:start]):
            other = self.items[source_id]
            if other.title == item.title or not self._same_type(item, other):
                continue
            texts = other.shown
            if holds_everywhere(texts, item) and not share_in_passage(texts, item):
                yield texts, candidate_of(texts, item, f"language:{source_id}", self._asked(item, other))

    @cached_property
    def _found(self) -> dict[tuple[str, str], list[tuple[Texts, Candidate]]]:
        return {}

    def _related_once(self, item: Item) -> list[tuple[Texts, Candidate]]:
        key = ("related", item.source_id)
        if key not in self._found:
            self._found[key] = list(self._related(item))
        return self._found[key]

    def _foreign_once(self, item: Item) -> list[tuple[Texts, Candidate]]:
        key = ("foreign", item.source_id)
        if key not in self._found:
            self._found[key] = list(itertools.islice(self._foreign(item), FAR_TRIED))
        return self._found[key]

    def near(self, item: Item) -> Aligned | None:
        """Choose distractors of the same paragraph, passage or article; None where there are no three."""
        return self._options(item, self._related_once(item), "near")

    def far(self, item: Item) -> Aligned | None:
        """Choose golds of other articles."""
        return self._options(item, self._foreign_once(item), "far")

    def graded(self, item: Item, authored: Sequence[tuple[Texts, Candidate]] = ()) -> list[tuple[str, Texts, str]]:
        """Choose an option at each distance: (distance, language -> text, source), those left out that have none.

        Args:
            item: The item.
            authored: Options of the passage that the author wrote; they stand for those found there.
        """
        related = self._related_once(item)
        found = {
            "paragraph": authored or [pair for pair in related if not pair[1].source.startswith("article:")],
            "article": [
                (texts, candidate)
                for texts, candidate in related
                if candidate.source.startswith("article:") and not share_in_passage(texts, item)
            ],
            "language": self._foreign_once(item),
        }
        pool = {candidate.source: texts for pairs in found.values() for texts, candidate in pairs}
        candidates = {distance: [candidate for _, candidate in pairs] for distance, pairs in found.items()}
        key = (item.questions[item.reference].dataset, item.source_id, self.seed)
        chosen = choose_distances(candidates, item.shown[item.reference], self._place(item), key)
        return [(distance, pool[c.source], c.source.split(" ")[0]) for distance, c in chosen.items()]
