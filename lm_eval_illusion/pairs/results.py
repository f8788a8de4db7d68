"""From a model's responses to the numbers and the one record `illusion` of an item.

The harness calls these as `process_results(doc, responses)`. A response may be the plain tuple or string of any
backend, or carry an attribute `illusion` with what only the model knows (did the prompt fit, the gold's first-token
rank, why generation ended). Nothing here raises on NaN, infinities or empty text: such an item is invalid, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .answers import match
from .reading import read_answer

SCHEMA = 1
"""Version of the `illusion` record."""


def _told(response: Any, name: str) -> Any:
    told = getattr(response, "illusion", None)
    return told.get(name) if isinstance(told, Mapping) else None


def _all_fit(responses: Sequence[Any]) -> bool | None:
    told = [_told(response, "fits") for response in responses]
    if any(fits is False for fits in told):
        return False
    return True if told and all(fits is True for fits in told) else None


def _common(doc: Mapping[str, Any], condition: str, fits: bool | None, non_finite: bool) -> dict[str, Any]:
    reason = "does_not_fit" if fits is False else "non_finite" if non_finite else None
    return {
        "schema": SCHEMA,
        "item_id": doc["item_id"],
        "dataset": doc["dataset"],
        "language": doc["language"],
        "condition": condition,
        "cluster": doc["cluster"],
        "passage_sha256": doc["passage_sha256"],
        "valid": reason is None,
        "invalid_reason": reason,
        "fits": fits,
    }


def best(scores: Sequence[float]) -> int | None:
    """Return the index of the highest score; None where two share it or any is not finite."""
    if not scores or not all(math.isfinite(score) for score in scores):
        return None
    top = max(scores)
    return scores.index(top) if list(scores).count(top) == 1 else None


def _number(response: Any) -> float:
    return float(response[0] if isinstance(response, tuple | list) else response)


def _or_null(scores: Sequence[float]) -> list[float | None]:
    return [score if math.isfinite(score) else None for score in scores]


def _parting(responses: Sequence[Any], by_chars: Sequence[float], gold: int) -> dict[str, Any] | None:
    """Return how the gold fares against its strongest rival (log-probability per character) where their tokens part."""
    rivals = [number for number in range(len(by_chars)) if number != gold]
    if not rivals or not all(math.isfinite(score) for score in by_chars):
        return None
    rival = max(rivals, key=lambda number: by_chars[number])
    told = _told(responses[rival], "parting")
    return {"rival": rival, **told} if isinstance(told, Mapping) else None


def _choice_result(doc: Mapping[str, Any], responses: Sequence[Any], condition: str, distance: str) -> dict[str, Any]:
    choices: list[str] = list(doc[f"choices_{distance}"])
    gold, n = int(doc[f"gold_{distance}"]), len(choices)
    scores = [_number(response) for response in responses[:n]]
    apart = [_number(response) for response in responses[n : 2 * n]]
    non_finite = not all(math.isfinite(score) for score in scores)
    by_chars = [score / max(len(c), 1) for score, c in zip(scores, choices, strict=True)]
    by_bytes = [score / max(len(c.encode()), 1) for score, c in zip(scores, choices, strict=True)]
    by_gain = [score - alone for score, alone in zip(scores, apart, strict=False)]
    picked = best(by_chars)
    right: dict[str, bool | None] = {
        "chars": picked == gold,
        "sum": best(scores) == gold,
        "bytes": best(by_bytes) == gold,
        "pmi": best(by_gain) == gold if len(apart) == n and all(map(math.isfinite, apart)) else None,
    }
    record = _common(doc, condition, _all_fit(responses), non_finite)
    if not record["valid"]:
        right, picked = {name: None if value is None else False for name, value in right.items()}, None
    record |= {
        "choices": choices,
        "gold": gold,
        "sources": list(doc[f"sources_{distance}"]),
        "logprobs": _or_null(scores),
        "logprobs_unconditional": _or_null(apart) if len(apart) == n else None,
        "right": right,
        "picked": picked,
        "first_token_rank": _told(responses[gold], "first_token_rank"),
        "parting": _parting(responses, by_chars, gold) if record["valid"] else None,
        "flags": {"non_finite": non_finite},
    }
    if not record["valid"]:
        return {"illusion": record}
    numbers = {"acc": float(bool(right["sum"])), "acc_norm": float(bool(right["chars"]))}
    if right["pmi"] is not None:
        numbers["acc_mutual_info"] = float(right["pmi"])
    return {**numbers, "illusion": record}


def process_near(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score the four near options.

    Args:
        doc: A row of the task.
        responses: (log-probability, is greedy) of each option after the prompt, then, if the harness asked for them, of
            each option alone.

    Returns:
        `acc` (sum of log-probabilities), `acc_norm` (per character: R), `acc_mutual_info` where known, and the record
        `illusion`; of an invalid item the record alone.
    """
    return _choice_result(doc, responses, "mc", "near")


def process_far(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score the four far options; see `process_near`."""
    return _choice_result(doc, responses, "mc_far", "far")


def process_generation(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Judge an open answer.

    Args:
        doc: A row of the task.
        responses: One string, the whole generated text.

    Returns:
        `exact_match`, `f1`, `correct` (G, the standard fixed in advance) and the record `illusion`; of an invalid item
        the record alone.
    """
    response = responses[0] if responses else ""
    told_non_finite, finish = _told(response, "non_finite"), _told(response, "finish")
    reading = read_answer(str(response), doc["language"])
    found = match(reading.answer, doc["answers"], doc["language"])
    record = _common(doc, "gen", _all_fit([response]), bool(told_non_finite))
    valid = record["valid"]
    record |= {
        "answers": list(doc["answers"]),
        "gold_text": doc["gold_text"],
        "answer": reading.answer,
        "right": {
            "standard": valid and found.standard,
            "exact": valid and found.exact,
            "f1": valid and found.near,
            "contained": valid and found.contained,
        },
        "f1": found.f1 if valid else 0.0,
        "char_f1": found.char_f1 if valid else 0.0,
        "flags": {
            "empty": reading.empty,
            "cut": None if finish is None else finish == "length",
            "repeated": reading.repeated,
            "unclosed_thought": reading.unclosed_thought,
            "non_finite": told_non_finite,
        },
        "tied_steps": _told(response, "tied_steps"),
    }
    if not valid:
        return {"illusion": record}
    numbers = {"exact_match": float(found.exact), "f1": found.f1, "correct": float(found.standard)}
    return {**numbers, "illusion": record}


def count_valid(records: Sequence[Mapping[str, Any]]) -> int:
    """Aggregate the `illusion` records of a task: the number of valid items."""
    return sum(bool(record["valid"]) for record in records)
