"""Which paired tasks stand behind the words of `--tasks`, shipped ones and those of a user's own folders alike."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lm_eval_illusion.harness import names
from lm_eval_illusion.harness.names import PairedTask
from lm_eval_illusion.pairs.conditions import CONDITIONS


def resolve(asked: Iterable[str], include_path: str | None) -> dict[str, list[PairedTask]]:
    """Say which paired tasks each name stands for.

    Args:
        asked: Names, groups and patterns as given to `--tasks`.
        include_path: `--include_path`; what lies there goes before the shipped tasks, as in the harness.

    Returns:
        Name -> its paired tasks, in a fixed order; none for names of other tasks.
    """
    own = _index(include_path) if include_path else {}
    return {name: list(dict.fromkeys(_expanded(name, own))) for name in asked}


def _index(include_path: str) -> Mapping[str, Any]:
    from lm_eval.tasks._index import TaskIndex

    index: Mapping[str, Any] = TaskIndex.build([Path(include_path)])
    return index


def _expanded(name: str, own: Mapping[str, Any]) -> Iterator[PairedTask]:
    found = fnmatch.filter(sorted(own), name)
    for entry in (own[match] for match in found):
        told = entry.cfg or {}
        members = told.get("task") if "group" in told else None
        for member in members if isinstance(members, list) else ():
            yield from _expanded(member if isinstance(member, str) else str(member.get("task")), own)
        paired = _paired(entry.name, told.get("dataset_kwargs")) if members is None else None
        if paired is not None:
            yield paired
    yield from (task for task in names.expand([name]) if task.name not in own)


def _paired(name: str, told: Any) -> PairedTask | None:
    """Return what a task file says it asks; None for a task of another project."""
    if not isinstance(told, Mapping) or not {"pairs_dataset", "pairs_language"} <= told.keys():
        return None
    condition = told.get("pairs_condition") or name.removeprefix(f"{told['pairs_dataset']}_").removesuffix(
        f"_{told['pairs_language']}"
    )
    if condition not in CONDITIONS:
        return None
    return PairedTask(name, str(told["pairs_dataset"]), str(condition), str(told["pairs_language"]))
