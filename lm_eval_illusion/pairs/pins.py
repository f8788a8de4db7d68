"""Content pins: the questions that were measured are the questions that are meant, wherever they came from.

A pin is the SHA-256 over the sorted (id, question, answers) of one language. It does not depend on the file format, so
a local folder and the hub are held to the same value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

from ..errors import IllusionError
from .questions import Question


def content_digest(questions: Sequence[Question]) -> str:
    """Return the SHA-256 (hex) over sorted (source id, question, sorted answers), whitespace folded."""
    rows = sorted([q.source_id, q.question, sorted(q.answers)] for q in questions)
    return hashlib.sha256(json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode("utf-8")).hexdigest()


@lru_cache(maxsize=1)
def pins() -> dict[str, dict[str, str]]:
    """Return the shipped pins: data set -> language -> digest."""
    text = files(__package__).joinpath("pins.json").read_text(encoding="utf-8")
    content: dict[str, dict[str, str]] = json.loads(text)
    return content


def verify(questions: Sequence[Question], dataset: str, language: str, where: str) -> None:
    """Raise unless the questions have the pinned content; data sets without a pin (one's own) pass.

    Raises:
        IllusionError: the digest differs.
    """
    wanted = pins().get(dataset, {}).get(language)
    found = content_digest(questions)
    if wanted is not None and found != wanted:
        raise IllusionError(
            f"{where}: the {dataset} questions for {language!r} are not the pinned ones "
            f"(SHA-256 {found[:12]}..., expected {wanted[:12]}...); use the official validation file, unchanged"
        )
