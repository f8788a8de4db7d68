"""From questions to the rows of a task: prompt, options near and far, and where each option came from.

Rows are built for all questions of a language and put in sampling order (one question a passage first, by hash of the
id), so that a sample of n, and `--limit n`, are the first n rows, and demonstrations can come from all of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import IllusionError
from .authored import Authored
from .catalogue import dataset_named
from .draw import spread
from .options import Options
from .parallel import Parallel, join_languages
from .prompts import build_prompt
from .questions import Question, passage_digest
from .single import Single
from .sources import data_folder, load_questions

logger = logging.getLogger(__name__)

MAX_NEW_TOKENS = 48
"""Generation budget of an item, in tokens; the task files say the same."""
MAX_GOLD_CHARACTERS = 60
"""Questions whose shown answer is longer ask for a sentence, which the budget and the matchers are not made for."""

Chosen = Iterator[tuple[Question, Options | None, Options | None]]


@dataclass(frozen=True)
class Built:
    """All rows of one language, and what had to be left out."""

    rows: tuple[dict[str, Any], ...]
    """Rows in sampling order."""
    excluded: dict[str, int]
    """Reason -> how many questions were left out of every half."""


def _row(question: Question, near: Options, far: Options) -> dict[str, Any]:
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
        "choices_near": list(near.choices),
        "gold_near": near.gold,
        "sources_near": list(near.sources),
        "choices_far": list(far.choices),
        "gold_far": far.gold,
        "sources_far": list(far.sources),
        "max_gen_toks": MAX_NEW_TOKENS,
        "passage_sha256": passage_digest(question.passage),
    }


def _assemble(chosen: Chosen) -> Built:
    rows: list[dict[str, Any]] = []
    excluded: Counter[str] = Counter()
    for question, near, far in chosen:
        if len(question.gold) > MAX_GOLD_CHARACTERS:
            excluded[f"answer longer than {MAX_GOLD_CHARACTERS} characters"] += 1
        elif near is None:
            excluded["no three near distractors"] += 1
        elif far is None:
            excluded["no three far distractors"] += 1
        else:
            rows.append(_row(question, near, far))
    order = spread([row["cluster"] for row in rows], [row["source_id"] for row in rows])
    return Built(tuple(rows[i] for i in order), dict(excluded))


def _choose_single(questions: Sequence[Question], seed: int) -> Chosen:
    single = Single(questions, seed)
    for question in questions:
        short = len(question.gold) <= MAX_GOLD_CHARACTERS
        near = single.near(question) if short else None
        yield question, near, single.far(question) if near else None


def build_single(questions: Sequence[Question], seed: int = 0) -> Built:
    """Build the rows of questions in one language, such as one's own from `load_squad`."""
    return _assemble(_choose_single(questions, seed))


def build_parallel(by_language: dict[str, Sequence[Question]], seed: int = 0) -> dict[str, Built]:
    """Build the rows of parallel questions: one choice for all languages, the same ids in every one.

    Where the source gives authored distractors, those are the near ones.
    """
    items = join_languages(by_language)
    long = {
        source_id
        for source_id, item in items.items()
        if any(len(q.gold) > MAX_GOLD_CHARACTERS for q in item.questions.values())
    }
    authored = any(q.distractors for questions in by_language.values() for q in questions)
    chooser = Authored(items, seed) if authored else Parallel(items, seed)
    plan = chooser.plan(skip=long)
    built = {}
    for language, questions in by_language.items():
        shared = [q for q in questions if q.source_id in items and q.source_id not in long]
        result = _assemble(
            (
                q,
                plan[q.source_id][0].options(q.gold, language) if plan[q.source_id][0] else None,
                plan[q.source_id][1].options(q.gold, language) if plan[q.source_id][1] else None,
            )
            for q in shared
        )
        left = {f"answer longer than {MAX_GOLD_CHARACTERS} characters in some language": len(long)} if long else {}
        built[language] = Built(result.rows, {**left, **result.excluded})
    return built


@lru_cache(maxsize=8)
def _parallel_set(dataset: str, folder: str | None, seed: int) -> dict[str, Built]:
    languages = dataset_named(dataset).languages
    return build_parallel({code: load_questions(dataset, code, folder) for code in languages}, seed)


@lru_cache(maxsize=64)
def _single_set(dataset: str, language: str, folder: str | None, seed: int) -> Built:
    return build_single(load_questions(dataset, language, folder), seed)


def build(dataset: str, language: str, *, folder: str | None = None, seed: int = 0) -> Built:
    """Build every row of one language of a known data set; kept in memory for the other halves of the pair.

    Args:
        dataset: tydiqa, xquad or illusion_mini.
        language: ISO 639-1 code.
        folder: Local data folder; None looks at the environment, then at the hub.
        seed: Seed of options and order.

    Raises:
        IllusionError: the data cannot be had, or no question is left.
    """
    load_questions(dataset, language, folder)
    local = data_folder(folder)
    where = str(local[0]) if local else None
    entry = dataset_named(dataset)
    built = _parallel_set(dataset, where, seed)[language] if entry.parallel else _single_set(dataset, language, where, seed)
    if not built.rows:
        raise IllusionError(f"{dataset} {language}: no question is left of those loaded ({built.excluded})")
    for reason, count in built.excluded.items():
        logger.info("%s %s: %d questions left out of both halves: %s", dataset, language, count, reason)
    return built
