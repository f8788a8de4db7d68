"""What every record shares: who was asked what, whether it counts, and what the model alone could tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import IllusionError

SCHEMA = 1
"""Version of the `illusion` record."""


def told(response: Any, name: str) -> Any:
    """Return what the model told beside a response; None from a backend that does not tell."""
    beside = getattr(response, "illusion", None)
    return beside.get(name) if isinstance(beside, Mapping) else None


def all_fit(responses: Sequence[Any]) -> bool | None:
    """Say whether every prompt fitted the context; None where the backend does not tell."""
    said = [told(response, "fits") for response in responses]
    if any(fits is False for fits in said):
        return False
    return True if said and all(fits is True for fits in said) else None


def finite(value: Any) -> float | None:
    """Return a number as JSON can hold it; None for NaN, infinities and what was not told."""
    return float(value) if value is not None and math.isfinite(value) else None


def common(doc: Mapping[str, Any], condition: str, fits: bool | None, non_finite: bool) -> dict[str, Any]:
    """Return the fields that open every record; an item whose prompt was cut or whose scores broke is invalid."""
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


def require_told(doc: Mapping[str, Any], response: Any, name: str, what: str) -> Any:
    """Return what only `pruned_hf` tells of an answer, or None for an item that could not be answered.

    Args:
        doc: A row of the task.
        response: What the backend returned.
        name: Under which name the model tells it.
        what: The same in words, for the error.

    Raises:
        IllusionError: another backend answered.
    """
    found = told(response, name)
    if found or told(response, "fits") is False or told(response, "non_finite"):
        return found or None
    condition = doc["condition"]
    task = f"{doc['dataset']}_{condition}_{doc['language']}"
    raise IllusionError(
        f"task {task}: the answer to item {doc['item_id']} came back without its {what}, but condition {condition} "
        f"needs them and only this project's model tells them; run: lm_eval --model pruned_hf --tasks {task}"
    )


def count_valid(records: Sequence[Mapping[str, Any]]) -> int:
    """Aggregate the `illusion` records of a task: the number of valid items."""
    return sum(bool(record["valid"]) for record in records)
