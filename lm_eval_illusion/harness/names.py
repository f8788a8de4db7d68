"""Task names: which data set, condition and language stand behind `tydiqa_mc_sw` or a group like `tydiqa_mc`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from lm_eval_illusion.errors import IllusionError, did_you_mean
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.conditions import CONDITIONS, GROUPS, HALVES, PROBE_GROUPS, PROBES


@dataclass(frozen=True)
class PairedTask:
    """One task of this project."""

    name: str
    """As the harness knows it."""
    dataset: str
    """Data set it asks."""
    condition: str
    """A name in `CONDITIONS`: mc, mc_far, gen or a probe."""
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


def all_groups() -> dict[str, tuple[str, ...]]:
    """Return every group of this project: its name and its tasks' names."""
    groups: dict[str, tuple[str, ...]] = {}
    for dataset in DATASETS.values():
        for group, conditions in GROUPS.items():
            groups[f"{dataset.name}_{group}"] = tuple(
                f"{dataset.name}_{condition}_{language}" for condition in conditions for language in dataset.languages
            )
        groups[f"{dataset.name}_{PROBES}"] = tuple(
            name for group in PROBE_GROUPS for name in groups[f"{dataset.name}_{group}"]
        )
    return groups


def expand(names: Iterable[str]) -> list[PairedTask]:
    """Return our tasks among the names, groups and patterns given to `--tasks`, in a fixed order."""
    tasks, groups = all_tasks(), all_groups()
    found: dict[str, PairedTask] = {}
    for name in names:
        for group in fnmatch.filter(sorted(groups), name):
            found |= {task: tasks[task] for task in groups[group]}
        found |= {match: tasks[match] for match in fnmatch.filter(tasks, name)}
    return list(found.values())


def with_all_halves(names: Iterable[str]) -> list[str]:
    """Turn data set names (`tydiqa`, `tydiqa_sw`) into their three halves; leave task and group names as they are.

    Raises:
        IllusionError: If a name is neither a data set, one of its languages, nor a task or group of this project.
    """
    known = all_tasks().keys() | all_groups().keys()
    result: list[str] = []
    for name in names:
        dataset, _, language = name.rpartition("_")
        if name in DATASETS:
            halves = [f"{name}_{condition}" for condition in HALVES]
        elif dataset in DATASETS and language in DATASETS[dataset].languages:
            halves = [f"{dataset}_{condition}_{language}" for condition in HALVES]
        elif name in known:
            halves = [name]
        else:
            hint = did_you_mean(name, [*DATASETS, *known])
            raise IllusionError(
                f"--tasks: unknown name {name!r}.{hint} Expected a data set ({', '.join(sorted(DATASETS))}), one of "
                "its languages (tydiqa_sw) or a task (tydiqa_mc_sw); list them with: lm_eval ls tasks"
            )
        result += [half for half in halves if half not in result]
    return result
