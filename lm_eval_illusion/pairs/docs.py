"""From the questions of a data set to the rows of a task, and to the options of any one question when asked for."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Protocol

from ..errors import IllusionError
from .aligned import Aligned, Item, Texts, join_languages
from .authored import Authored
from .catalogue import dataset_named
from .eligible import MAX_GOLD_CHARACTERS, reason_against, too_long
from .graded import Distant, Graded, grade
from .options import Options
from .parallel import Parallel
from .questions import Question
from .rows import Built, assemble
from .rules import Answer
from .single import Single
from .sources import data_folder, load_questions

logger = logging.getLogger("lm_eval.illusion")  # below the harness's own logger: the only one it shows


class LanguageSet(Protocol):
    """One language of a data set, whose questions get their options when asked for."""

    def build(self, count: int | None = None) -> Built:
        """Build the rows of `count` questions, or of all."""

    def near(self, source_id: str) -> Options | None:
        """Return the near options of any question that may be asked, in the sample or not; None where it has none."""

    def graded(self, source_id: str) -> Graded:
        """Return a question's options by distance."""


def _right(question: Question) -> tuple[Answer, ...]:
    return tuple(Answer(text, question.language) for text in question.right_texts)


@dataclass(frozen=True)
class SingleSet:
    """Questions in one language."""

    single: Single
    """Finds their options."""

    def build(self, count: int | None = None) -> Built:
        """Build the rows of `count` questions, or of all."""
        left_out = Counter(reason for q in self.single.questions if (reason := reason_against(q)))
        asked = [q for q in self.single.questions if not reason_against(q)]
        built = assemble(asked, lambda q: (self.single.near(q), self.single.far(q)), count)
        return replace(built, excluded={**left_out, **built.excluded})

    def near(self, source_id: str) -> Options | None:
        """Return the near options of a question."""
        return self.single.near(self.single.by_id[source_id])

    def graded(self, source_id: str) -> Graded:
        """Return a question's options by distance."""
        question = self.single.by_id[source_id]
        key = (question.dataset, source_id, self.single.seed)
        return grade(_right(question), question.passage, self.single.graded(question), key, key)


def build_single(questions: Sequence[Question], seed: int = 0, count: int | None = None) -> Built:
    """Build the rows of questions in one language, such as one's own from `load_squad`."""
    return SingleSet(Single(questions, seed)).build(count)


@dataclass(frozen=True)
class ParallelSet:
    """A parallel data set: one choice of options for all languages, made item by item as rows are asked for."""

    by_language: Mapping[str, Sequence[Question]]
    """Language -> questions."""
    seed: int
    """`illusion_seed`."""

    @cached_property
    def _items(self) -> dict[str, Item]:
        return join_languages(self.by_language)

    @cached_property
    def _chooser(self) -> Parallel | Authored:
        authored = any(q.distractors for questions in self.by_language.values() for q in questions)
        parallel = Parallel(self._items, self.seed)
        return Authored(parallel) if authored else parallel

    @cached_property
    def _eligible(self) -> frozenset[str]:
        return frozenset(i for i, item in self._items.items() if not any(map(too_long, item.questions.values())))

    @cached_property
    def _chosen(self) -> dict[str, tuple[Aligned | None, Aligned | None]]:
        return {}

    @cached_property
    def _by_id(self) -> dict[tuple[str, str], Question]:
        return {(code, q.source_id): q for code, questions in self.by_language.items() for q in questions}

    @cached_property
    def _graded(self) -> dict[str, list[tuple[str, Texts, str]]]:
        return {}

    def question(self, language: str, source_id: str) -> Question:
        """Return one question."""
        return self._by_id[language, source_id]

    def distances(self, source_id: str) -> list[tuple[str, Texts, str]]:
        """Return one wrong option at each distance: (distance, language -> text, source)."""
        if source_id not in self._graded:
            self._graded[source_id] = self._chooser.graded(self._items[source_id])
        return self._graded[source_id]

    def options(self, question: Question) -> tuple[Options | None, Options | None]:
        """Return the near and far options of a question; None where there are no three distractors."""
        source_id = question.source_id
        if source_id not in self._chosen:
            item = self._items[source_id]
            self._chosen[source_id] = (self._chooser.near(item), self._chooser.far(item))
        near, far = (a.options(question.gold, question.language) if a else None for a in self._chosen[source_id])
        return near, far

    def build(self, language: str, count: int | None = None) -> Built:
        """Build the rows of one language; the same ids in every language."""
        asked = [q for q in self.by_language[language] if q.source_id in self._eligible]
        built = assemble(asked, self.options, count)
        long = len(self.by_language[language]) - len(asked)
        reason = {f"answer longer than {MAX_GOLD_CHARACTERS} characters in some language": long} if long else {}
        return replace(built, excluded={**reason, **built.excluded})


@dataclass(frozen=True)
class ParallelLanguage:
    """One language of a parallel data set."""

    parallel: ParallelSet
    """All its languages."""
    language: str
    """ISO 639-1 code."""

    def build(self, count: int | None = None) -> Built:
        """Build the rows of `count` questions, or of all; the same ids in every language."""
        return self.parallel.build(self.language, count)

    def near(self, source_id: str) -> Options | None:
        """Return the near options of a question."""
        return self.parallel.options(self.parallel.question(self.language, source_id))[0]

    def graded(self, source_id: str) -> Graded:
        """Return a question's options by distance; but for the noise, the same in every language."""
        question = self.parallel.question(self.language, source_id)
        found = [
            Distant(distance, texts[self.language].text, source)
            for distance, texts, source in self.parallel.distances(source_id)
        ]
        order = (question.dataset, source_id, self.parallel.seed)
        return grade(_right(question), question.passage, found, order, (*order, self.language))


@lru_cache(maxsize=8)
def _parallel_set(dataset: str, folder: str | None, seed: int) -> ParallelSet:
    languages = dataset_named(dataset).languages
    return ParallelSet({code: load_questions(dataset, code, folder) for code in languages}, seed)


@lru_cache(maxsize=32)
def _language_set(dataset: str, language: str, folder: str | None, seed: int) -> LanguageSet:
    if dataset_named(dataset).parallel:
        return ParallelLanguage(_parallel_set(dataset, folder, seed), language)
    return SingleSet(Single(load_questions(dataset, language, folder), seed))


def language_set(dataset: str, language: str, *, folder: str | None = None, seed: int = 0) -> LanguageSet:
    """Return one language of a known data set; kept in memory.

    Args:
        dataset: tydiqa, xquad or illusion_mini.
        language: ISO 639-1 code.
        folder: Local data folder; None looks at the environment, then at the hub.
        seed: Seed of options and order.
    """
    load_questions(dataset, language, folder)
    local = data_folder(folder)
    return _language_set(dataset, language, str(local[0]) if local else None, seed)


@lru_cache(maxsize=64)
def _build(dataset: str, language: str, folder: str | None, seed: int, count: int | None) -> Built:
    return _language_set(dataset, language, folder, seed).build(count)


@lru_cache(maxsize=4096)
def _near(dataset: str, language: str, folder: str | None, seed: int, source_id: str) -> Options | None:
    return _language_set(dataset, language, folder, seed).near(source_id)


def near_options(
    dataset: str, language: str, source_id: str, *, folder: str | None = None, seed: int = 0
) -> Options | None:
    """Return the near options of any question that may be asked; kept in memory, since demonstrations recur."""
    local = data_folder(folder)
    return _near(dataset, language, str(local[0]) if local else None, seed, source_id)


def _left_out(excluded: Mapping[str, int]) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in excluded.items())
    return f"{sum(excluded.values())} questions left out of every half ({reasons})"


@cache
def _say_once(line: str) -> None:
    """Log a line the first time it is said: the halves of a pair and their demonstrations share their exclusions."""
    logger.info(line)


def build(dataset: str, language: str, *, folder: str | None = None, seed: int = 0, count: int | None = None) -> Built:
    """Build the rows of one language of a known data set; kept in memory for the other halves of the pair.

    Args:
        dataset: tydiqa, xquad or illusion_mini.
        language: ISO 639-1 code.
        folder: Local data folder; None looks at the environment, then at the hub.
        seed: Seed of options and order.
        count: How many items to ask; None asks all.

    Raises:
        IllusionError: the data cannot be had, or fewer usable questions are left than asked for.
    """
    load_questions(dataset, language, folder)
    local = data_folder(folder)
    built = _build(dataset, language, str(local[0]) if local else None, seed, count)
    if len(built.rows) < (count or 1):
        raise IllusionError(
            f"illusion_items_per_language is {count}, but {dataset} has {len(built.rows)} usable questions in "
            f"{language!r} (left out: {built.excluded}); ask for at most that many, or leave it out to take all"
        )
    if built.excluded:
        _say_once(f"{dataset} {language}: {_left_out(built.excluded)}")
    return built
