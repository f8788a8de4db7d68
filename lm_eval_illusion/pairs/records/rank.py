"""Where the gold stands: its tokens' ranks under teacher forcing, and its whole answer among the passage's spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from ..reading import read_answer
from .choice import number
from .common import all_fit, common, finite, require_told, told

_NUMBERS = ("margin", "agreement", "gold_logprob", "greedy_logprob")
_NONE: dict[str, Any] = {
    "ranks": [],
    "logprobs": [],
    "leave": None,
    "margin": None,
    "agreement": None,
    "gold_logprob": None,
    "greedy_logprob": None,
    "gold_tokens": None,
    "greedy_tokens": None,
}


def process_rank(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Note the rank of each gold token under teacher forcing, and where the model leaves the gold.

    Returns:
        `gold_first` (1 where the gold's first token is the likeliest) and the record `illusion`; of an invalid item
        the record alone.
    """
    response = responses[0] if responses else ""
    found = {**_NONE, **(require_told(doc, response, "ranks", "ranks") or {})}
    ranks, logprobs = list(found["ranks"] or []), list(found["logprobs"] or [])
    numbers = [*logprobs, *(found[name] for name in _NUMBERS)]
    broken = any(value is not None and not isfinite(value) for value in numbers)
    fits = all_fit([response])
    unknown = fits is not False and (not ranks or None in ranks or found["agreement"] is None)
    non_finite = broken or unknown or bool(told(response, "non_finite"))
    record = common(doc, doc["condition"], fits, non_finite)
    record |= {
        "answers": list(doc["answers"]),
        "gold_text": doc["gold_text"],
        "answer": read_answer(str(response), doc["language"]).answer,
        **{name: found[name] for name in _NONE},
        **{name: finite(found[name]) for name in _NUMBERS},
        "ranks": ranks,
        "logprobs": [finite(value) for value in logprobs],
        "flags": {"non_finite": non_finite},
    }
    if not record["valid"]:
        return {"illusion": record}
    return {"gold_first": float(record["ranks"][:1] == [1]), "illusion": record}


def process_rank_spans(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Note how many of the passage's spans of the gold's length the model finds likelier than the gold.

    Returns:
        `gold_best` (1 where none is) and the record `illusion`; of an invalid item the record alone.
    """
    spans, gold = list(doc["choices_spans"]), int(doc["gold_spans"])
    scores = [number(response) for response in responses[: len(spans)]]
    non_finite = not all(map(isfinite, scores))
    record = common(doc, doc["condition"], all_fit(responses), non_finite)
    valid = record["valid"]
    top = max(range(len(spans)), key=scores.__getitem__) if valid else None
    rank = 1 + sum(score > scores[gold] for score in scores) if valid else None
    record |= {
        "gold_text": doc["gold_text"],
        "spans": len(spans),
        "gold_rank": rank,
        "gold_logprob": finite(scores[gold]),
        "best": None if top is None else spans[top],
        "best_logprob": None if top is None else scores[top],
        "flags": {"non_finite": non_finite},
    }
    return {"gold_best": float(rank == 1), "illusion": record} if valid else {"illusion": record}
