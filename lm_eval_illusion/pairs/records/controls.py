"""What would recover by chance: the item's own distractors, counted as targets under the same matcher.

A model that guesses among the candidates, or copies spans of the passage, hits a distractor as often as the gold. What
an output hits beyond that is recovery. Over many items this holds for distractors that the model reads: nobody copies
what is not there. Half of the near distractors of TyDi and XQuAD stand in other passages, and counted as targets they
make a copier of the passage look as if it knew two answers in three.

The verdict on one item asks all of its own distractors, wherever they stand: of one or two, a single hit would decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..answers import match
from ..normalise import plain


@dataclass(frozen=True)
class Targets:
    """The texts that stand in for the gold."""

    texts: list[str]
    """Near distractors and, if one was shown, a demonstration's answers; each text once, in that order."""
    in_prompt: bool
    """Whether they stand in the prompt. If no near distractor does, all of them are targets, and chance is understated
    for a model that copies."""


def control_targets(doc: Mapping[str, Any]) -> Targets:
    """Return the targets of a row: of the texts that could stand in for the gold, those that its prompt holds."""
    language = doc["language"]
    read = plain(doc["prompt"], language)
    near = _near(doc)
    found = [text for text in near if (said := plain(text, language)) and said in read]
    return Targets(_beside_demonstration(found or near, doc), bool(found))


def own_targets(doc: Mapping[str, Any]) -> list[str]:
    """Return every text that could stand in for the gold of a row: near distractors and a demonstration's answers."""
    return _beside_demonstration(_near(doc), doc)


def _near(doc: Mapping[str, Any]) -> list[str]:
    return [text for number, text in enumerate(doc["choices_near"]) if number != doc["gold_near"]]


def _beside_demonstration(texts: Sequence[str], doc: Mapping[str, Any]) -> list[str]:
    """Return texts and, if one was shown, a demonstration's answers; each once, in that order."""
    return list(dict.fromkeys([*texts, *(doc.get("demonstration_answers") or ())]))


def item_control(doc: Mapping[str, Any], answers: Sequence[str]) -> float | None:
    """Return the share of a row's own wrong targets that any of some answers hits."""
    targets = own_targets(doc)
    found = [hits(answer, targets, doc["language"]) for answer in answers]
    return share([any(hit[i] for hit in found) for i in range(len(targets))])


def hits(answer: str, targets: Iterable[str], language: str) -> list[bool]:
    """Say of each target whether the answer would be right if that were the only gold."""
    return [match(answer, [target], language).standard for target in targets]


def share(values: Sequence[bool | float]) -> float | None:
    """Return the mean; None of nothing, since 0/0 is no share."""
    return sum(values) / len(values) if values else None
