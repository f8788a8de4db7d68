"""One question in all its languages, and what holds for a text only if it holds in every one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import regex

from .normalise import normalise
from .options import Options, arrange
from .questions import Question
from .rules import ALIGNED, Answer, admissible

Texts = Mapping[str, Answer]
"""Language -> the aligned answer."""

_NUMBER = regex.compile(r"(?<![\p{Nd}.,])\p{Nd}+(?:[.,٬]\p{Nd}+)*(?![\p{Nd}])")
_REFERENCE = "en"


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
    def cluster(self) -> str:
        """Id of the passage, the same in every language."""
        return self.questions[self.reference].cluster

    @cached_property
    def title(self) -> str:
        """What names the article, in the language that decides."""
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
            golds={language: tuple(Answer(a, language) for a in q.right_texts) for language, q in rows.items()},
            passages={language: spelled[language, q.passage] for language, q in rows.items()},
        )
    return items


def holds_everywhere(texts: Texts, item: Item) -> bool:
    """Say whether the rules hold in every language; the kind is judged in the one that decides."""
    decides = item.reference
    if not admissible(texts[decides], item.golds[decides]):
        return False
    return all(
        admissible(texts[language], golds, length=ALIGNED, kind=False)
        for language, golds in item.golds.items()
        if language != decides
    )


def share_in_passage(texts: Texts, item: Item) -> float:
    """Return the share (0 to 1) of languages in which a text occurs in the item's passage."""
    return sum(texts[language].key in passage for language, passage in item.passages.items()) / len(texts)


def shared_numbers(item: Item) -> Iterator[tuple[str, dict[str, Answer]]]:
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


@dataclass(frozen=True)
class Aligned:
    """Three distractors in every language, and the hash key of their order."""

    texts: list[tuple[Texts, str]]
    key: tuple[object, ...]

    def options(self, gold: str, language: str) -> Options:
        """Return the options of one language."""
        return arrange(gold, [(texts[language].text, source) for texts, source in self.texts], self.key)
