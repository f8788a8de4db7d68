"""Distractors of data with one language at a time: spans of the passage first, golds of other passages after them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from .choose import Candidate, choose_three
from .draw import draw, shuffled
from .eligible import reason_against
from .graded import Distant, choose_distances
from .options import Options, arrange
from .questions import Question
from .rules import Answer, admissible, unlikeness
from .spans import typed_spans
from .vocabulary import Vocabulary, alike, count_words

LANGUAGE_COST = 6.0
"""Cost of a gold of another passage against a span of this one: only where spans run out."""
ASKED_COST = 1.0
"""Cost of a gold whose question asks with quite other words (who, when, how many)."""
BORROWED_TRIED = 60
"""How many golds of other passages are collected before three are chosen."""


def _numbers_alike(span: Answer, gold: Answer) -> bool:
    """Say whether a span has a year if the gold has, and a number first or last if the gold has; True for words."""
    a, b = span.look.shape, gold.look.shape
    if not gold.look.numeric or a == b:
        return True
    same_edges = [(a[:1] == "w") == (b[:1] == "w"), (a[-1:] == "w") == (b[-1:] == "w")]
    return ("Y" in a) == ("Y" in b) and all(same_edges)


def _written(question: Question) -> Iterator[Candidate]:
    """Yield the distractors that the question's author wrote: nothing is preferred to them."""
    for text in question.distractors:
        place = question.passage.find(text)
        yield Candidate(Answer(text, question.language), "author", 0.0, place if place >= 0 else None)


@dataclass(frozen=True)
class Single:
    """The questions of one language, ready to give each its options."""

    questions: Sequence[Question]
    """All of them, before any sampling."""
    seed: int
    """`illusion_seed`."""

    @cached_property
    def words(self) -> Vocabulary:
        """Word statistics over all passages."""
        return count_words(self.questions, self.questions[0].language)

    @cached_property
    def golds(self) -> dict[str, tuple[Answer, ...]]:
        """Source id -> every right answer, the shown one first."""
        return {q.source_id: tuple(Answer(a, q.language) for a in q.right_texts) for q in self.questions}

    @cached_property
    def by_id(self) -> dict[str, Question]:
        """Source id -> question."""
        return {q.source_id: q for q in self.questions}

    @cached_property
    def _asks(self) -> dict[str, frozenset[str]]:
        return {q.source_id: self.words.asks(q.question) for q in self.questions}

    @cached_property
    def _ring(self) -> list[str]:
        return shuffled((q.source_id for q in self.questions if not reason_against(q)), "ring", self.seed)

    @cached_property
    def _passages(self) -> dict[str, list[Question]]:
        found: dict[str, list[Question]] = {}
        for question in self.questions:
            found.setdefault(question.cluster, []).append(question)
        return found

    def _borrowed(self, question: Question, cost: float, article: bool | None = None) -> Iterator[Candidate]:
        """Yield admissible golds of other passages that do not occur in this passage, from the item's own hash on.

        `article` True takes those of the same article alone, False those of other articles, None both.
        """
        golds = self.golds[question.source_id]
        passage = question.passage.casefold()
        start = draw("ring", question.source_id, self.seed) % len(self._ring)
        for source_id in itertools.chain(self._ring[start:], self._ring[:start]):
            answer, other = self.golds[source_id][0], self.by_id[source_id]
            if article is not None and article != (other.title == question.title):
                continue
            if other.cluster == question.cluster or answer.text.casefold() in passage:
                continue
            if admissible(answer, golds) and answer.look.capital == golds[0].look.capital:
                asked = ASKED_COST * (1 - alike(self._asks[question.source_id], self._asks[source_id]))
                source = f"{'article' if article else 'language'}:{source_id}"
                yield Candidate(answer, source, cost + asked + unlikeness(answer, golds[0]))

    def _nearby(self, question: Question) -> Iterator[Candidate]:
        if question.distractors:
            yield from _written(question)
            return
        golds = self.golds[question.source_id]
        for other in self._passages[question.cluster]:
            answer = self.golds[other.source_id][0]
            if other.source_id != question.source_id and admissible(answer, golds):
                place = question.passage.find(answer.text)
                yield Candidate(answer, f"paragraph:{other.source_id}", unlikeness(answer, golds[0]), place)
        asked = frozenset(Answer(question.question, question.language).tokens)
        for span in typed_spans(question.passage, golds[0], self.words):
            answer = Answer(span.text, question.language)
            if not _numbers_alike(answer, golds[0]) or asked.issuperset(answer.tokens):
                continue
            if admissible(answer, golds):
                cost = unlikeness(answer, golds[0]) + span.roughness
                yield Candidate(answer, f"passage:{span.kind}", cost, span.place)

    def _options(self, question: Question, candidates: Sequence[Candidate], condition: str) -> Options | None:
        key = (question.dataset, question.source_id, condition, self.seed)
        gold = self.golds[question.source_id][0]
        place = question.passage.find(gold.text)
        chosen = choose_three(candidates, gold, place if place >= 0 else None, key)
        return None if chosen is None else arrange(gold.text, [(c.answer.text, c.source) for c in chosen], key)

    def near(self, question: Question) -> Options | None:
        """Choose distractors of the same passage; where they run out, golds of other passages, so recorded."""
        found = list(self._nearby(question))
        options = self._options(question, found, "near")
        if options is not None:
            return options
        return self._options(
            question,
            found + list(itertools.islice(self._borrowed(question, LANGUAGE_COST), BORROWED_TRIED)),
            "near",
        )

    def far(self, question: Question) -> Options | None:
        """Choose distractors among the golds of other passages."""
        return self._options(question, list(itertools.islice(self._borrowed(question, 0.0), BORROWED_TRIED)), "far")

    def graded(self, question: Question) -> list[Distant]:
        """Choose an option of the passage, one of another passage of its article, and one of another article."""
        gold = self.golds[question.source_id][0]
        place = question.passage.find(gold.text)
        found = {
            "paragraph": list(self._nearby(question)),
            "article": list(self._borrowed(question, 0.0, article=True)),
            "language": list(itertools.islice(self._borrowed(question, 0.0, article=False), BORROWED_TRIED)),
        }
        key = (question.dataset, question.source_id, self.seed)
        chosen = choose_distances(found, gold, place if place >= 0 else None, key)
        return [Distant(distance, c.answer.text, c.source) for distance, c in chosen.items()]
