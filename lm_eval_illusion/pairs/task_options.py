"""The `illusion_*` keys of `--metadata`, checked; everything else that the harness passes is not ours and ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import IllusionError

PREFIX = "illusion_"
"""Our keys in `--metadata` begin with this."""


@dataclass(frozen=True)
class TaskOptions:
    """What a user may set about the questions."""

    data: str | None = None
    """`illusion_data`: folder with `tydiqa/` and `xquad/`."""
    items_per_language: int | None = None
    """`illusion_items_per_language`: take so many, one question a passage first; None takes all."""
    seed: int = 0
    """`illusion_seed`: of options and their order."""
    items: str | None = None
    """`illusion_items`: path of a fed file (`fed.read_fed`); only its items are asked."""
    answers: str | None = None
    """`illusion_answers`: path of a fed file; its answers are what the revise conditions show."""
    samples: int = 8
    """`illusion_samples`: how many answers the condition `sample` draws."""
    temperature: float = 0.8
    """`illusion_temperature`: of `sample`, above 0."""
    top_p: float = 0.95
    """`illusion_top_p`: share of the probability that `sample` draws from, above 0 and at most 1."""
    sample_seed: int = 0
    """`illusion_sample_seed`: of the draws of `sample`."""


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise IllusionError(f"{name} is {value!r}; a whole number of at least {least} was expected, as in {name}=200")
    return value


def _number(name: str, value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most or value == float("inf"):
        limit = "" if most == float("inf") else f" and at most {most:g}"
        raise IllusionError(f"{name} is {value!r}; a number above 0{limit} was expected, as in {name}=0.8")
    return float(value)


def _path(name: str, value: Any, what: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise IllusionError(f"{name} is {value!r}; the path of a {what} was expected")
    return value


def read_options(metadata: Mapping[str, Any]) -> TaskOptions:
    """Read the task options out of what the harness hands over (metadata and model arguments together).

    Raises:
        IllusionError: an unknown `illusion_*` key, or a value of the wrong kind.
    """
    ours = {key: value for key, value in metadata.items() if key.startswith(PREFIX) and value is not None}
    known = [PREFIX + name for name in TaskOptions.__dataclass_fields__]
    for key in ours:
        if key not in known:
            raise IllusionError(f"unknown key {key!r} in --metadata; known: {', '.join(sorted(known))}")
    count = ours.get("illusion_items_per_language")
    return TaskOptions(
        data=_path("illusion_data", ours.get("illusion_data"), "folder"),
        items_per_language=None if count is None else _whole("illusion_items_per_language", count, 1),
        seed=_whole("illusion_seed", ours.get("illusion_seed", 0), 0),
        items=_path("illusion_items", ours.get("illusion_items"), "file"),
        answers=_path("illusion_answers", ours.get("illusion_answers"), "file"),
        samples=_whole("illusion_samples", ours.get("illusion_samples", 8), 1),
        temperature=_number("illusion_temperature", ours.get("illusion_temperature", 0.8), float("inf")),
        top_p=_number("illusion_top_p", ours.get("illusion_top_p", 0.95), 1.0),
        sample_seed=_whole("illusion_sample_seed", ours.get("illusion_sample_seed", 0), 0),
    )
