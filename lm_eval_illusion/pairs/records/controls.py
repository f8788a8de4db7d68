"""What would recover by chance: the item's own distractors, counted as targets under the same matcher.

A model that guesses among the candidates, or copies spans of the passage, hits a distractor as often as the gold. What
an output hits beyond that is recovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..answers import match


def control_targets(doc: Mapping[str, Any]) -> list[str]:
    """Return the texts that stand in for the gold: near distractors and, if one was shown, a demonstration's answers.

    Each text once, in that order.
    """
    near = [text for number, text in enumerate(doc["choices_near"]) if number != doc["gold_near"]]
    return list(dict.fromkeys([*near, *(doc.get("demonstration_answers") or ())]))


def hits(answer: str, targets: Iterable[str], language: str) -> list[bool]:
    """Say of each target whether the answer would be right if that were the only gold."""
    return [match(answer, [target], language).standard for target in targets]


def share(values: Sequence[bool | float]) -> float | None:
    """Return the mean; None of nothing, since 0/0 is no share."""
    return sum(values) / len(values) if values else None
