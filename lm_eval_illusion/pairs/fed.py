"""What an earlier run hands to the next one: which items to ask, and what the model answered before.

The file is JSON: {"schema": 1, "from": [{"results": file name, "sha256": hex}], "items": [item ids] or null, "answers":
{item id: {condition: answer}} or null}. It is read strictly: what is not understood is an error, never passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import IllusionError

SCHEMA = 1
"""Version of the file."""
_KEYS = ("schema", "from", "items", "answers")
_MEND = "write it anew with: lm-eval-illusion run --answers RUN ..."


@dataclass(frozen=True)
class Fed:
    """A file of earlier results, as read."""

    where: str
    """Its path, for error texts."""
    items: frozenset[str] | None
    """Item ids to ask; None asks all."""
    answers: Mapping[str, Mapping[str, str]] | None
    """Item id -> condition -> what the model answered; None where the file holds no answers."""

    def answer(self, item_id: str, condition: str) -> str | None:
        """Return the earlier answer ("" if the model said nothing), or None where none is known."""
        return (self.answers or {}).get(item_id, {}).get(condition)


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise IllusionError(f"cannot read {path}: {error.strerror or error}; {_MEND}") from None
    except ValueError as error:
        raise IllusionError(f"{path} is not JSON ({error}); a file of fed items was expected; {_MEND}") from None


def _problem(content: Any) -> str | None:
    """Say what is wrong with the content, or None."""
    if not isinstance(content, dict):
        return f"it holds a {type(content).__name__}; an object was expected"
    if set(content) != set(_KEYS):
        return f"its keys are {', '.join(sorted(map(str, content))) or 'none'}; {', '.join(_KEYS)} were expected"
    if content["schema"] != SCHEMA or isinstance(content["schema"], bool):
        return f"its schema is {content['schema']!r}; {SCHEMA} was expected"
    origins = content["from"]
    if not isinstance(origins, list) or not all(
        isinstance(o, dict) and set(o) == {"results", "sha256"} and all(isinstance(v, str) for v in o.values())
        for o in origins
    ):
        return '"from" is not a list of {"results": file name, "sha256": hex}'
    items, answers = content["items"], content["answers"]
    if items is not None and not (isinstance(items, list) and all(isinstance(i, str) for i in items)):
        return '"items" is neither null nor a list of item ids'
    if answers is not None and not (
        isinstance(answers, dict)
        and all(isinstance(a, dict) and all(isinstance(text, str) for text in a.values()) for a in answers.values())
    ):
        return '"answers" is neither null nor {item id: {condition: text}}'
    return None


@lru_cache(maxsize=4)
def _read(path: Path, _written: tuple[int, int]) -> Fed:
    content = _content(path)
    problem = _problem(content)
    if problem is not None:
        raise IllusionError(f"{path}: {problem}; {_MEND}")
    items = content["items"]
    return Fed(str(path), None if items is None else frozenset(items), content["answers"])


def read_fed(path: str) -> Fed:
    """Read a fed file; kept in memory for the other tasks of the run.

    Args:
        path: As given by `illusion_items` or `illusion_answers`.

    Raises:
        IllusionError: the file is missing or anything in it is not as expected; the text names file and place.
    """
    file = Path(path).expanduser()
    try:
        told = file.stat()
    except OSError as error:
        raise IllusionError(f"cannot read {file}: {error.strerror or error}; {_MEND}") from None
    return _read(file, (told.st_mtime_ns, told.st_size))
