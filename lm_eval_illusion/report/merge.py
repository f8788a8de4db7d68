"""Several run folders of one model as one run: the pair in one, its probes in others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.records import read_run
from lm_eval_illusion.report.runs import HalfRecord, Run, TaskFacts

__all__ = ["JOINT", "merge_runs", "read_merged", "split_path"]

JOINT = "+"
"""Between the folders of one model on the command line."""

_SAID_WHERE_SO = ("adapter", "quantization")
"""Silence means that there is none, where one backend made both runs: in one run alone, it is another model."""
_MAY_DIFFER = ("device", "torch")
"""Where and with what a run was made, not which model: both are kept, joined, and a note compares them."""


def split_path(path: Path) -> list[Path]:
    """The folders that a path names: itself where it exists as it stands, else the parts between `+`.

    Of a name that holds a `+` itself, the longest beginning that exists is taken.

    Raises:
        IllusionError: There is nothing beside a `+`.
    """
    if path.exists():
        return [path]
    parts = str(path).split(JOINT)
    found: list[Path] = []
    while parts:
        lengths = range(len(parts), 0, -1)
        if not parts[0].strip():
            raise IllusionError(
                f"{path}: a {JOINT} with nothing beside it, expected a run folder on either side: write "
                f"FOLDER{JOINT}FOLDER"
            )
        length = next((n for n in lengths if Path(JOINT.join(parts[:n])).exists()), 1)
        found.append(Path(JOINT.join(parts[:length])))
        parts = parts[length:]
    return found


def read_merged(path: Path) -> Run:
    """Read a run, or several of one model joined with `+`.

    Args:
        path: A run folder, a results file, or several of them with `+` between.

    Raises:
        IllusionError: One of them cannot be read, they are of different models or settings, or an item was asked
            twice under one condition.
    """
    runs = [read_run(part) for part in split_path(path)]
    return runs[0] if len(runs) == 1 else replace(merge_runs(runs), path=path)


def merge_runs(runs: Sequence[Run]) -> Run:
    """One run from several of one model; the first one's facts stand for all.

    Raises:
        IllusionError: They differ in the model, its weights, chat template, shots or settings, or an item occurs
            twice under one condition.
    """
    first = runs[0]
    tasks: dict[str, TaskFacts] = {}
    halves: dict[str, dict[str, HalfRecord]] = {}
    for run in runs:
        _check_same(first, run)
        for name, task in run.tasks.items():
            known = tasks.get(name)
            if known and (known.version, known.generation) != (task.version, task.generation):
                raise IllusionError(
                    f"task {name} of {run.path} has version {task.version} and generates with {task.generation}, but "
                    f"version {known.version} and {known.generation} in a folder before it; expected one version of "
                    "lm-eval-illusion and one --gen_kwargs: run the probes again with those of the first run"
                )
            tasks[name] = replace(task, records=task.records + known.records) if known else task
        for condition, records in run.halves.items():
            table = halves.setdefault(condition, {})
            twice = sorted(table.keys() & records.keys())
            if twice:
                raise IllusionError(
                    f"item {twice[0]} (and {len(twice) - 1} more) was asked under {condition} in {run.path} and in a "
                    f"folder before it of {JOINT.join(str(r.path) for r in runs)}; expected each condition of an item "
                    "once: leave one of these folders out"
                )
            table.update(records)
    names = dict.fromkeys(name for run in runs for name in run.facts.identity)
    identity = {name: _joined([run.facts.identity.get(name) for run in runs]) for name in names}
    documents = {key: document for run in reversed(runs) for key, document in run.documents.items()}
    return replace(
        first,
        path=Path(JOINT.join(str(run.path) for run in runs)),
        facts=replace(first.facts, identity=identity, use_cache=_joined([run.facts.use_cache for run in runs])),
        tasks=tasks,
        halves=halves,
        documents=documents,
    )


def _joined(values: Sequence[str | None]) -> str | None:
    return JOINT.join(dict.fromkeys(value for value in values if value is not None)) or None


def _shots(run: Run) -> list[int]:
    return sorted({task.num_fewshot for task in run.tasks.values()})


def _check_same(first: Run, other: Run) -> None:
    one, two = first.facts, other.facts
    rows: list[tuple[str, object, object]] = [
        (f"the model's {name}", one.identity.get(name), two.identity.get(name))
        for name in one.identity.keys() | two.identity.keys()
        if name not in _MAY_DIFFER
        and (
            (name in _SAID_WHERE_SO and one.model == two.model)
            or None not in (one.identity.get(name), two.identity.get(name))
        )
    ]
    rows.sort(key=lambda row: row[0])
    rows += [
        ("weights_sha256", (one.receipt or {}).get("weights_sha256"), (two.receipt or {}).get("weights_sha256")),
        ("the chat template", one.chat_template, two.chat_template),
        ("the system instruction", one.system_instruction, two.system_instruction),
        ("--gen_kwargs", one.gen_kwargs, two.gen_kwargs),
        ("--num_fewshot", _shots(first), _shots(other)),
        ("enable_thinking", one.enable_thinking, two.enable_thinking),
    ]
    if any(task.num_fewshot for task in first.tasks.values()):
        rows.append(("--fewshot_as_multiturn", bool(one.fewshot_as_multiturn), bool(two.fewshot_as_multiturn)))
    for what, before, after in rows:
        if before != after:
            raise IllusionError(
                f"{first.path} and {other.path} are joined as one model, but {what} differs: {before} and {after}; "
                f"expected the same in all folders joined with {JOINT}: run the probes with the --model_args and "
                "options of the first run, or give the folders as runs of their own"
            )
