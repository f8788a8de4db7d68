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


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise IllusionError(f"{name} is {value!r}; a whole number of at least {least} was expected, as in {name}=200")
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
    data, items = ours.get("illusion_data"), ours.get("illusion_items_per_language")
    if data is not None and not isinstance(data, str):
        raise IllusionError(f"illusion_data is {data!r}; the path of a folder was expected")
    return TaskOptions(
        data=data,
        items_per_language=None if items is None else _whole("illusion_items_per_language", items, 1),
        seed=_whole("illusion_seed", ours.get("illusion_seed", 0), 0),
    )
