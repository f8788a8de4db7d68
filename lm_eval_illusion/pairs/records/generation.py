"""One open answer: the line that counts, whether it is right, what went wrong with its form, what chance would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..answers import Match, match
from ..reading import Reading, read_answer
from .common import all_fit, common, told
from .controls import control_targets, hits, item_control, share

MATCHERS = ("standard", "exact", "f1", "contained", "anywhere")
"""The ways to be right; the first is G, the last no part of it."""


@dataclass(frozen=True)
class Judged:
    """One output, read and compared with the golds."""

    reading: Reading
    found: Match
    finish: str | None
    """Why generation ended; None where the backend does not tell."""

    def right(self, valid: bool) -> dict[str, bool]:
        """Say under each matcher whether the answer is right; an invalid item's never is."""
        found = self.found
        values = (found.standard, found.exact, found.near, found.contained, found.anywhere)
        return {name: valid and value for name, value in zip(MATCHERS, values, strict=True)}

    @property
    def flags(self) -> dict[str, bool | None]:
        """What went wrong with the form; None where the backend does not tell."""
        return {
            "empty": self.reading.empty,
            "cut": None if self.finish is None else self.finish == "length",
            "repeated": self.reading.repeated,
            "unclosed_thought": self.reading.unclosed_thought,
            "gold_inside": self.found.anywhere and not self.found.standard,
        }


def judge(doc: Mapping[str, Any], text: str, finish: str | None) -> Judged:
    """Read one output of an item and compare it with the item's golds."""
    reading = read_answer(text, doc["language"])
    return Judged(reading, match(reading.answer, doc["answers"], doc["language"]), finish)


def _generation_result(doc: Mapping[str, Any], responses: Sequence[Any], condition: str) -> dict[str, Any]:
    response = responses[0] if responses else ""
    non_finite = told(response, "non_finite")
    judged = judge(doc, str(response), told(response, "finish"))
    record = common(doc, condition, all_fit([response]), bool(non_finite))
    valid, found = record["valid"], judged.found
    record |= {
        "answers": list(doc["answers"]),
        "gold_text": doc["gold_text"],
        "answer": judged.reading.answer,
        "right": judged.right(valid),
        "f1": found.f1 if valid else 0.0,
        "char_f1": found.char_f1 if valid else 0.0,
        "flags": {**judged.flags, "non_finite": non_finite},
        "tied_steps": told(response, "tied_steps"),
    }
    if not valid:
        return {"illusion": record}
    numbers = {"exact_match": float(found.exact), "f1": found.f1, "correct": float(found.standard)}
    return {**numbers, "illusion": record}


def _probe_result(doc: Mapping[str, Any], responses: Sequence[Any], **extra: Any) -> dict[str, Any]:
    """Judge an open answer under a probe, with what chance would give beside it."""
    result = _generation_result(doc, responses, doc["condition"])
    record, targets = result["illusion"], control_targets(doc)
    found = [record["valid"] and hit for hit in hits(record["answer"], targets.texts, doc["language"])]
    record |= {
        "control_targets": targets.texts,
        "control_in_prompt": targets.in_prompt,
        "control_hits": found,
        "control": share(found),
        "item_control": item_control(doc, [record["answer"]] if record["valid"] else []),
        **extra,
    }
    return result


def process_generation(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Judge an open answer.

    Args:
        doc: A row of the task.
        responses: One string, the whole generated text.

    Returns:
        `exact_match`, `f1`, `correct` (G, the standard fixed in advance) and the record `illusion`; of an invalid item
        the record alone.
    """
    return _generation_result(doc, responses, "gen")


def process_shown(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Judge an open answer given with the candidates in view; `control` is the share of distractors it hits instead."""
    return _probe_result(doc, responses)


def process_shown_nogold(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Judge an open answer given with the candidates but the gold in view."""
    return _probe_result(doc, responses)


def process_oneshot(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Judge an open answer given after one more demonstration, whose answers are control targets too."""
    return _probe_result(doc, responses)


def process_closed_gen(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Judge an open answer given without the passage."""
    return _probe_result(doc, responses)


def process_revise_gen(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Judge an open answer given after the model was shown its `earlier` one."""
    return _probe_result(doc, responses, earlier=doc["earlier"])
