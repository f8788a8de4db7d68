"""A user's own questions: SQuAD-format JSON or one JSON object a line, every row checked before anything is made of it.

A row of JSONL has `id`, `question`, `passage` (or `context`) and `answers` (texts, or objects with `text`) or `answer`;
it may have `language`, `title`, `type` and three `distractors`; other fields are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import IllusionError
from .authored import problems_of
from .normalise import base_language, fold_whitespace, normalise
from .prompts import LABELS
from .questions import Question, passage_digest, read_squad, tidy
from .rules import Answer

Row = Mapping[str, Any]

_SHAPE = 'expected {"id": ..., "question": ..., "passage": ..., "answers": [...]} on each line, or SQuAD-format JSON'


class BadRowsError(IllusionError):
    """Some rows cannot be used; nothing was made of the others either."""

    def __init__(self, path: Path, rows: Sequence[str], total: int) -> None:
        self.rows = tuple(rows)
        """What is wrong, row by row: "line 3: no question"."""
        super().__init__(
            f"{path}: {len(rows)} of {total} rows cannot be used, the first: {rows[0]}; nothing was written: mend the "
            "rows and run the same command again"
        )


@dataclass(frozen=True)
class _Found:
    """One row of the file, not yet looked at."""

    where: str
    """Line, or place in the JSON document."""
    row: Row | str
    """The row; as text, what is wrong with it."""


def read_own(path: Path, name: str, language: str | None = None) -> dict[str, list[Question]]:
    """Read questions of one's own.

    Args:
        path: SQuAD-format JSON or JSONL, UTF-8.
        name: Name of the set; it begins every `item_id`.
        language: ISO 639-1 code of rows that name none.

    Returns:
        Language -> questions, in the file's order.

    Raises:
        BadRowsError: Any row is incomplete, damaged or occurs twice; it lists all such rows.
        IllusionError: The file cannot be read or holds no rows, or the language has no prompt labels.
    """
    if language is not None and base_language(language) not in LABELS:
        raise IllusionError(f"--language {_unknown(language)}")
    found = list(_rows(path))
    if not found:
        raise IllusionError(f"{path} holds no questions; {_SHAPE}")
    seen: dict[tuple[str, str], str] = {}
    questions: dict[str, list[Question]] = {}
    bad: list[str] = []
    for item in found:
        try:
            question = _question(item.row, name, language)
            place = seen.setdefault((question.language, question.source_id), item.where)
            if place != item.where:
                raise _BadRowError(f"id {question.source_id!r} occurs twice (before: {place})")
            questions.setdefault(question.language, []).append(question)
        except _BadRowError as error:
            bad.append(f"{item.where}: {error}")
    if bad:
        raise BadRowsError(path, bad, len(found))
    return questions


class _BadRowError(Exception):
    """What is wrong with one row."""


def _unknown(language: str) -> str:
    return f"{language!r}: no prompt labels for this language; known: {', '.join(sorted(LABELS))}"


def _rows(path: Path) -> Iterator[_Found]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise IllusionError(f"cannot read questions from {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise IllusionError(f"{path} is not UTF-8 ({error}); save it as UTF-8") from None
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, list) or (isinstance(whole, dict) and "data" in whole):
        yield from _squad_rows(whole, path)
        return
    for number, line in enumerate(text.split("\n"), 1):  # U+2028 and its like stand inside texts
        if line.strip():
            yield _Found(f"line {number}", _line(line))


def _line(line: str) -> Row | str:
    try:
        row = json.loads(line)
    except ValueError as error:
        return f"not JSON ({error})"
    return row if isinstance(row, dict) else f"a JSON {type(row).__name__}, not an object"


def _squad_rows(whole: Any, path: Path) -> Iterator[_Found]:
    if isinstance(whole, list):
        raise IllusionError(f"{path} holds one JSON list; {_SHAPE}")
    read_squad(path)  # its own words for a document of another shape
    for a, article in enumerate(whole["data"]):
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list):
            yield _Found(f"data[{a}]", "no list of paragraphs")
            continue
        for p, paragraph in enumerate(paragraphs):
            where = f"data[{a}].paragraphs[{p}]"
            asked = paragraph.get("qas") if isinstance(paragraph, dict) else None
            if not isinstance(asked, list):
                yield _Found(where, "no list of qas")
                continue
            shared = {"passage": paragraph.get("context"), "title": article.get("title")}
            for q, row in enumerate(asked):
                yield _Found(f"{where}.qas[{q}]", {**shared, **row} if isinstance(row, dict) else "not an object")


def _question(row: Row | str, name: str, language: str | None) -> Question:
    if isinstance(row, str):
        raise _BadRowError(row)
    code = _text(row, "language", language)
    if code is None:
        raise _BadRowError("no language; name it in the row, or for all rows with --language xx")
    if base_language(code) not in LABELS:
        raise _BadRowError(_unknown(code))
    code = base_language(code)
    source_id = row.get("id")
    if isinstance(source_id, bool) or not isinstance(source_id, str | int) or not str(source_id).strip():
        raise _BadRowError("no id (a text or a whole number)")
    passage, asked = _text(row, "passage") or _text(row, "context"), _text(row, "question")
    for part, found in (("passage (or context)", passage), ("question", asked)):
        if found is None:
            raise _BadRowError(f"no {part}")
    assert passage is not None
    assert asked is not None
    cluster = f"{name}/{code}/{passage_digest(passage)[:16]}"
    question = Question(
        dataset=name,
        language=code,
        source_id=str(source_id).strip(),
        passage=passage,
        question=asked,
        answers=_answers(row),
        cluster=cluster,
        title=_text(row, "title") or cluster,
        kind=_text(row, "type"),
        distractors=_texts(row, "distractors"),
    )
    _check(question)
    return question


def _check(question: Question) -> None:
    language = question.language
    gold, passage = question.gold, question.passage
    if gold not in passage and normalise(gold, language) not in normalise(passage, language):
        raise _BadRowError(f"the answer {gold!r} does not occur in the passage; the first answer must be a part of it")
    if question.distractors:
        golds = tuple(Answer(text, language) for text in question.right_texts)
        problems = problems_of([Answer(text, language) for text in question.distractors], golds)
        if problems:
            raise _BadRowError(problems[0])


def _text(row: Row, field: str, default: str | None = None) -> str | None:
    """Return a text, whitespace folded; the default where it is missing, null or empty."""
    value = row.get(field)
    if value is not None and not isinstance(value, str):
        raise _BadRowError(f"{field} is a JSON {type(value).__name__}, not a text")
    return fold_whitespace(value or "") or default


def _texts(row: Row, field: str) -> tuple[str, ...]:
    value = row.get(field)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise _BadRowError(f"{field} is not a list of texts")
    return tuple(fold_whitespace(text) for text in value)


def _answers(row: Row) -> tuple[str, ...]:
    value = row.get("answers", row.get("answer"))
    if isinstance(value, dict):  # as the hub writes SQuAD: {"text": [...], "answer_start": [...]}
        value = value.get("text")
    given = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = [one.get("text") if isinstance(one, dict) else one for one in given]
    folded = tuple(dict.fromkeys(fold_whitespace(text) if isinstance(text, str) else "" for text in texts))
    if not folded or not all(folded):
        raise _BadRowError("no answers (a text, or a list of texts, none of them empty)")
    if not any(c.isalnum() for c in tidy(folded[0])):
        raise _BadRowError(f"the answer {folded[0]!r} has no letter or digit")
    return folded
