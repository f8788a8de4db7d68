"""Task names: which data set, condition and language stand behind `tydiqa_mc_sw` or a group like `tydiqa_mc`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.catalogue import DATASETS

CONDITIONS = ("mc", "mc_far", "gen")


@dataclass(frozen=True)
class PairedTask:
    """One task of this project."""

    name: str
    """As the harness knows it."""
    dataset: str
    """Data set it asks."""
    condition: str
    """mc, mc_far or gen."""
    language: str
    """ISO 639-1 code."""


def all_tasks() -> dict[str, PairedTask]:
    """Return every task of this project by name."""
    return {
        task.name: task
        for dataset in DATASETS.values()
        for condition in CONDITIONS
        for language in dataset.languages
        for task in (PairedTask(f"{dataset.name}_{condition}_{language}", dataset.name, condition, language),)
    }


def expand(names: Iterable[str]) -> list[PairedTask]:
    """Return our tasks among the names, groups and patterns given to `--tasks`, in a fixed order."""
    tasks = all_tasks()
    groups = {f"{t.dataset}_{t.condition}" for t in tasks.values()}
    found: dict[str, PairedTask] = {}
    for name in names:
        for group in fnmatch.filter(sorted(groups), name):
            found |= {t.name: t for t in tasks.values() if f"{t.dataset}_{t.condition}" == group}
        found |= {match: tasks[match] for match in fnmatch.filter(tasks, name)}
    return list(found.values())


def with_all_halves(names: Iterable[str]) -> list[str]:
    """Turn data set names (`tydiqa`, `tydiqa_sw`) into their three halves; leave task names as they are.

    Raises:
        IllusionError: If a name is neither a data set, one of its languages, nor a task of this project.
    """
    tasks = all_tasks()
    result: list[str] = []
    for name in names:
        dataset, _, language = name.rpartition("_")
        if name in DATASETS:
            halves = [f"{name}_{condition}" for condition in CONDITIONS]
        elif dataset in DATASETS and language in DATASETS[dataset].languages:
            halves = [f"{dataset}_{condition}_{language}" for condition in CONDITIONS]
        elif name in tasks or any(f"{t.dataset}_{t.condition}" == name for t in tasks.values()):
            halves = [name]
        else:
            raise IllusionError(
                f"--tasks: unknown name {name!r}; expected a data set ({', '.join(sorted(DATASETS))}), one of its "
                "languages (tydiqa_sw) or a task (tydiqa_mc_sw); list them with: lm_eval ls tasks"
            )
        result += [half for half in halves if half not in result]
    return result
