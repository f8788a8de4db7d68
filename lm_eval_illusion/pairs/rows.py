"""The rows of one language: questions in sampling order, each with its options and where these came from.

Questions are walked in sampling order (one a passage first, by hash of the id), so that a sample of n, and `--limit n`,
are the first n rows; demonstrations can come from every question, sampled or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .draw import spread
from .options import Options
from .prompts import build_prompt
from .questions import Question, passage_digest

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
