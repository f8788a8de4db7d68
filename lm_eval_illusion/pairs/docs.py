"""From questions to the rows of a task: prompt, options near and far, and where each option came from.

Questions are walked in sampling order (one a passage first, by hash of the id), so that a sample of n, and `--limit n`,
are the first n rows; demonstrations can come from every question, sampled or not.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any

from ..errors import IllusionError
from .aligned import Aligned, Item, join_languages
from .authored import Authored
from .catalogue import dataset_named
from .draw import spread
from .eligible import MAX_GOLD_CHARACTERS, reason_against, too_long
from .options import Options
from .parallel import Parallel
from .prompts import build_prompt
from .questions import Question, passage_digest
from .single import Single
from .sources import data_folder, load_questions

logger = logging.getLogger("lm_eval.illusion")  # below the harness's own logger: the only one it shows

MAX_NEW_TOKENS = 48
"""Generation budget of an item, in tokens; the task files say the same."""
Row = dict[str, Any]
Chooser = Callable[[Question], tuple[Options | None, Options | None]]
"""Question -> its near and far options; None where no three distractors could be found."""


@dataclass(frozen=True)
class Built:
    """The rows of one language, and what had to be left out on the way."""

    rows: tuple[Row, ...]
    """Items to ask, in sampling order."""
    others: tuple[Row, ...]
    """The remaining questions, without options: they may serve as demonstrations."""
    excluded: dict[str, int]
    """Reason -> how many questions were left out of every half."""


def _base(question: Question) -> Row:
    return {
        "item_id": question.item_id,
        "dataset": question.dataset,
        "language": question.language,
        "cluster": question.cluster,
        "source_id": question.source_id,
        "passage": question.passage,
        "question": question.question,
        "answers": list(question.answers),
        "gold_text": question.gold,
        "prompt": build_prompt(question.passage, question.question, question.language),
        "max_gen_toks": MAX_NEW_TOKENS,
        "passage_sha256": passage_digest(question.passage),
    }


def _with(options: Options | None, distance: str) -> Row:
    return {
        f"choices_{distance}": list(options.choices) if options else None,
        f"gold_{distance}": options.gold if options else None,
        f"sources_{distance}": list(options.sources) if options else None,
    }


def _row(question: Question, near: Options | None, far: Options | None) -> Row:
    return {**_base(question), **_with(near, "near"), **_with(far, "far")}


def assemble(questions: Sequence[Question], choose: Chooser, count: int | None = None) -> Built:
    """Walk the questions in sampling order and build rows until `count` of them have their options.

    Args:
        questions: All that may be asked, before any sampling; their order plays no role.
        choose: Gives a question its options.
        count: How many rows to build; None builds all.
    """
    order = spread([q.cluster for q in questions], [q.source_id for q in questions])
    rows: list[Row] = []
    others: list[Row] = []
    excluded: Counter[str] = Counter()
    for question in (questions[i] for i in order):
        near, far = choose(question) if count is None or len(rows) < count else (None, None)
        if near is not None and far is not None:
            rows.append(_row(question, near, far))
            continue
        if count is None or len(rows) < count:
            excluded[f"no three {'near' if near is None else 'far'} distractors"] += 1
        others.append(_row(question, None, None))
    return Built(tuple(rows), tuple(others), dict(excluded))


def build_single(questions: Sequence[Question], seed: int = 0, count: int | None = None) -> Built:
    """Build the rows of questions in one language, such as one's own from `load_squad`."""
    return _build_from(Single(questions, seed), count)


def _build_from(single: Single, count: int | None) -> Built:
    left_out = Counter(reason for q in single.questions if (reason := reason_against(q)))
    asked = [q for q in single.questions if not reason_against(q)]
    built = assemble(asked, lambda q: (single.near(q), single.far(q)), count)
    return replace(built, excluded={**left_out, **built.excluded})


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

    def _choose(self, question: Question) -> tuple[Options | None, Options | None]:
        source_id = question.source_id
        if source_id not in self._chosen:
            item = self._items[source_id]
            self._chosen[source_id] = (self._chooser.near(item), self._chooser.far(item))
        near, far = (a.options(question.gold, question.language) if a else None for a in self._chosen[source_id])
        return near, far

    def build(self, language: str, count: int | None = None) -> Built:
        """Build the rows of one language; the same ids in every language."""
        asked = [q for q in self.by_language[language] if q.source_id in self._eligible]
        built = assemble(asked, self._choose, count)
        long = len(self.by_language[language]) - len(asked)
        reason = {f"answer longer than {MAX_GOLD_CHARACTERS} characters in some language": long} if long else {}
        return replace(built, excluded={**reason, **built.excluded})


@lru_cache(maxsize=8)
def _parallel_set(dataset: str, folder: str | None, seed: int) -> ParallelSet:
    languages = dataset_named(dataset).languages
    return ParallelSet({code: load_questions(dataset, code, folder) for code in languages}, seed)


@lru_cache(maxsize=32)
def _single(dataset: str, language: str, folder: str | None, seed: int) -> Single:
    return Single(load_questions(dataset, language, folder), seed)


@lru_cache(maxsize=64)
def _build(dataset: str, language: str, folder: str | None, seed: int, count: int | None) -> Built:
    if dataset_named(dataset).parallel:
        return _parallel_set(dataset, folder, seed).build(language, count)
    return _build_from(_single(dataset, language, folder, seed), count)


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
