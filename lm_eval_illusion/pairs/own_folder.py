"""The folder of a user's own questions, as its task files read it: nothing in it depends on where it lies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import IllusionError
from . import tables
from .catalogue import Dataset, register_own
from .demonstrations import Shot, choose_shots, dressed, short_half
from .docs import language_set, near_options
from .options import Options
from .questions import Question
from .rows import Built

if TYPE_CHECKING:
    import datasets

_FILE = "questions.{language}.json"


def questions_file(language: str) -> str:
    """Return the name of one language's file."""
    return _FILE.format(language=language)


def squad_text(questions: Sequence[Question], language: str) -> str:
    """Return questions of one language as SQuAD-format JSON, articles and passages in the order they are first met."""
    articles: dict[str, dict[str, list[Question]]] = {}
    for question in questions:
        articles.setdefault(question.title, {}).setdefault(question.passage, []).append(question)
    data = [
        {
            "title": "" if title in {q.cluster for asked in passages.values() for q in asked} else title,
            "paragraphs": [
                {"context": passage, "qas": [_asked(q) for q in asked]} for passage, asked in passages.items()
            ],
        }
        for title, passages in articles.items()
    ]
    return json.dumps({"version": "1.1", "language": language, "data": data}, ensure_ascii=False, indent=1) + "\n"


def _asked(question: Question) -> dict[str, Any]:
    answers = [{"text": text, "answer_start": question.passage.find(text)} for text in question.answers]
    row: dict[str, Any] = {"id": question.source_id, "question": question.question, "answers": answers}
    if question.kind:
        row["type"] = question.kind
    if question.distractors:
        row["distractors"] = list(question.distractors)
    return row


def know(folder: Path, name: str, language: str) -> None:
    """Make a folder's set known by its name.

    Raises:
        IllusionError: The folder lacks the file of that language.
    """
    if not (folder / questions_file(language)).is_file():
        raise IllusionError(
            f"{folder} has no {questions_file(language)}, which the tasks of {name!r} read; write the folder anew "
            f"with: lm-eval-illusion pair QUESTIONS.jsonl --name {name}"
        )
    before, after = _FILE.split("{language}")
    codes = [path.name[len(before) : -len(after)] for path in folder.glob(_FILE.format(language="*"))]
    files = {code: questions_file(code) for code in sorted(codes)}
    register_own(Dataset(name=name, files=files, licence="the user's own", parallel=False, own=True))


def load(
    folder: Path, *, pairs_dataset: str, pairs_language: str, pairs_seed: int = 0, **told: Any
) -> dict[str, datasets.Dataset]:
    """Build the table of one task of the folder; its `utils.py` names this as `custom_dataset`.

    Args:
        folder: Where the questions lie.
        pairs_dataset: Name of the set, from the task file.
        pairs_language: Language, from the task file.
        pairs_seed: Seed of options and order, from the task file; `illusion_seed` in `--metadata` goes before it.
        **told: What else the task file and the harness hand over.
    """
    know(folder, pairs_dataset, pairs_language)
    told = {"illusion_seed": pairs_seed, **told, "illusion_data": str(folder)}
    return tables.load(pairs_dataset=pairs_dataset, pairs_language=pairs_language, **told)


def built(folder: Path, name: str, language: str, seed: int = 0) -> Built:
    """Build the rows of one language of a folder.

    Raises:
        IllusionError: No question can be asked.
    """
    know(folder, name, language)
    made = language_set(name, language, folder=str(folder), seed=seed).build()
    if not made.rows:
        why = ", ".join(f"{count} {reason}" for reason, count in made.excluded.items())
        raise IllusionError(
            f"{name}: no question in {language!r} can be asked ({why}); far distractors are answers of the same kind "
            "to questions about other passages: give more questions, about several passages"
        )
    return made


_FEW = 100
"""Sets of more passages than this find demonstrations for every question."""
_FEWSHOT_SEED = 1234
"""The harness's own, where none is named."""


def demonstrations(folder: Path, name: str, language: str, built: Built, seed: int = 0) -> int:
    """Return 1 if every question finds a demonstration, with options listed as well as without; 0 if some does not."""
    pool = [*built.rows, *built.others]
    if len({row["cluster"] for row in pool}) > _FEW:
        return 1
    candidates = short_half(pool)

    def near(shot: Shot) -> Options | None:
        return near_options(name, language, shot["source_id"], folder=str(folder), seed=seed)

    def found(item: Shot) -> bool:
        return bool(choose_shots(item, candidates, 1, _FEWSHOT_SEED, lambda shot: dressed(shot, item, near)))

    return int(all(found(row) and found({**row, "condition": "shown"}) for row in built.rows))
