"""What a question is, and how SQuAD-format files become questions."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import IllusionError
from .articles import article_of
from .normalise import fold_whitespace

_BRACKETS = ("()", "[]", "{}", "（）", "【】")


@dataclass(frozen=True)
class Question:
    """One question about one passage, with every right answer."""

    dataset: str
    """Name of the data set, as in `item_id`."""
    language: str
    """ISO 639-1 code."""
    source_id: str
    """Id in the source; parallel data sets use one id in every language."""
    passage: str
    """Whitespace folded, no byte-order mark."""
    question: str
    """Whitespace folded."""
    answers: tuple[str, ...]
    """At least one, whitespace folded, no duplicates; the first is the gold of multiple choice."""
    cluster: str
    """Stable id of the passage; in parallel data sets the same in every language."""
    title: str
    """What names the article (see `articles.article_of`): compared, never shown."""
    kind: str | None = None
    """Answer type given by the source (name, date, number, phrase), if any."""
    distractors: tuple[str, ...] = ()
    """Wrong options from the passage that the source's author wrote, if any."""

    @property
    def item_id(self) -> str:
        """The key on which runs are joined: dataset/language/source id."""
        return f"{self.dataset}/{self.language}/{self.source_id}"

    @property
    def gold(self) -> str:
        """The answer that multiple choice shows and demonstrations give: the first one, tidied."""
        return tidy(self.answers[0])

    @property
    def right_texts(self) -> tuple[str, ...]:
        """The shown gold, then every other answer as given."""
        return (self.gold, *self.answers[1:])


def tidy(text: str) -> str:
    """Strip outer punctuation that would mark one option among others: quotes, full stops, a lone bracket.

    Percent signs, minus signs before a digit and brackets whose partner is inside stay; what is left compares equal.
    """
    while len(text) > 1:
        first, last = text[0], text[-1]
        if _outer(first) and not (first in "-−–" and text[1].isdecimal()) and not _partnered(text, first):
            text = text[1:].lstrip()
        elif _outer(last) and not _partnered(text, last):
            text = text[:-1].rstrip()
        else:
            break
    return text


def _outer(char: str) -> bool:
    return unicodedata.category(char).startswith("P") and char not in "%‰٪"


def _partnered(text: str, char: str) -> bool:
    pair = next((pair for pair in _BRACKETS if char in pair), None)
    wraps = pair is not None and text[0] == pair[0] and text[-1] == pair[1]
    return pair is not None and not wraps and text.count(pair[0]) == text.count(pair[1])


def passage_digest(passage: str) -> str:
    """Return the SHA-256 (hex) of a passage after whitespace folding, for overlap checks."""
    return hashlib.sha256(fold_whitespace(passage).encode("utf-8")).hexdigest()


def read_squad(path: Path) -> dict[str, Any]:
    """Read a SQuAD-format JSON file; a missing, broken or differently shaped file is an error that names it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise IllusionError(f"cannot read questions from {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise IllusionError(f"{path} is not JSON ({error}); a SQuAD-format file was expected") from None
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise IllusionError(f'{path} is not in SQuAD format: expected {{"data": [{{"paragraphs": [...]}}]}}')
    return content


def _unique(texts: Sequence[str]) -> tuple[str, ...]:
    folded = [fold_whitespace(text) for text in texts]
    return tuple(dict.fromkeys(text for text in folded if text))


def _rows(content: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                yield article.get("title", ""), paragraph, qa


def parse_squad(content: dict[str, Any], dataset: str, language: str, *, parallel: bool, where: str) -> list[Question]:
    """Turn SQuAD-format content into questions, in the file's order.

    Args:
        content: Parsed JSON with a `data` list.
        dataset: Name for `item_id`.
        language: ISO 639-1 code of the whole file.
        parallel: The same ids exist in other languages: the cluster is then named by ids, not by the passage's text.
        where: The file or address, for error texts.

    Raises:
        IllusionError: a field is missing, an answer or passage is empty, an id occurs twice, or nothing is there.
    """
    questions: list[Question] = []
    seen: set[str] = set()
    try:
        for title, paragraph, qa in _rows(content):
            passage, source_id = fold_whitespace(paragraph["context"]), str(qa["id"])
            key = (
                str(paragraph.get("id") or min(str(q["id"]) for q in paragraph["qas"]))
                if parallel
                else f"{language}/{passage_digest(passage)[:16]}"
            )
            cluster = f"{dataset}/{key}"
            item = Question(
                dataset=dataset,
                language=language,
                source_id=source_id,
                passage=passage,
                question=fold_whitespace(qa["question"]),
                answers=_unique([a["text"] for a in qa["answers"]]),
                cluster=cluster,
                title=article_of(dataset, source_id, fold_whitespace(title), cluster),
                kind=qa.get("type"),
                distractors=tuple(fold_whitespace(d) for d in qa.get("distractors", ())),
            )
            if not (item.passage and item.question and item.answers):
                raise IllusionError(f"{where}: item {source_id!r} has an empty passage, question or answer")
            if source_id in seen:
                raise IllusionError(f"{where}: item id {source_id!r} occurs twice; ids must be unique in a file")
            seen.add(source_id)
            questions.append(item)
    except (KeyError, TypeError, AttributeError) as error:
        raise IllusionError(f"{where} is not in SQuAD format: {type(error).__name__} {error}") from None
    if not questions:
        raise IllusionError(f"{where} holds no questions")
    return questions


def load_squad(path: Path | str, *, dataset: str, language: str, parallel: bool = False) -> list[Question]:
    """Load one's own questions from a SQuAD-format file.

    Args:
        path: JSON file as SQuAD v1.1 has it.
        dataset: A name of your choice; it begins every `item_id`.
        language: ISO 639-1 code.
        parallel: The same ids are used in other languages' files.
    """
    path = Path(path)
    return parse_squad(read_squad(path), dataset, language, parallel=parallel, where=str(path))
