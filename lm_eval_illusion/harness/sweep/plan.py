"""From SWEEP.yaml to its points: each an ordinary planned run with a name and a folder of its own."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.planned import PlannedRun
from lm_eval_illusion.harness.sweep.file import OptionValue, SweepFile, SweptModel, read_file
from prune_hooks.errors import PruneError
from prune_hooks.registry import get_allocation, get_method
from prune_hooks.spec import rests_on_mask
from prune_hooks.spec_values import UNSTRUCTURED
from prune_hooks.statistics import Needs

DENSE = "dense"


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    model: str
    """Name of its model's folder."""
    name: str
    """Name of its own folder in there; `dense`, or method, amount, and what departs from the defaults."""
    method: str
    """Pruning method, none for the dense model."""
    run: PlannedRun
    """What is asked."""

    def folder(self, out: Path) -> Path:
        """Return the run folder."""
        return out / self.model / self.name


@dataclass(frozen=True)
class Sweep:
    """All points, model by model, each model's dense one first."""

    points: tuple[Point, ...]
    restore: str
    """memory or shards."""

    @property
    def models(self) -> list[str]:
        """Names of the models, in order."""
        return list(dict.fromkeys(point.model for point in self.points))

    def of(self, model: str) -> list[Point]:
        """Return the points of one model, the dense one first."""
        return [point for point in self.points if point.model == model]


def plan_sweep(path: Path, data: str | None = None) -> Sweep:
    """Read SWEEP.yaml and lay out its points; nothing is loaded but tokenizers, to see whether they have a template.

    Args:
        path: The file.
        data: Folder with tydiqa/ and xquad/, over the file's own.

    Raises:
        IllusionError: For anything that is wrong with the file or its options, or missing data.
    """
    file = read_file(path)
    models = [model.model_copy(update={"name": model.name or Path(model.pretrained).name}) for model in file.models]
    _require_apart(path, "models", [_word(model.name) for model in models], "give one of them a name")
    points: list[Point] = []
    try:
        for model in models:
            asked = _asked(file, model, data)
            made = [Point(_word(model.name), name, method, run) for name, method, run in _runs(file, asked)]
            _require_apart(path, "methods", [point.name for point in made], "rename one")
            for point in made:
                point.run.validate()
            prompted = asked.with_prompting()
            chat, shots = prompted.chat_template, prompted.num_fewshot
            points += [replace(p, run=replace(p.run, chat_template=chat, num_fewshot=shots)) for p in made]
    except (PruneError, IllusionError) as error:
        raise IllusionError(f"{path}: {error}") from error
    return Sweep(tuple(points), file.restore)


def _asked(file: SweepFile, model: SweptModel, data: str | None) -> PlannedRun:
    """Return what all points of a model ask, dense."""
    return PlannedRun(
        pretrained=model.pretrained,
        model_args={**file.model_args, **model.model_args, "method": "none"},
        tasks=tuple(file.tasks),
        items=file.items,
        num_fewshot=file.num_fewshot,
        chat_template=file.chat_template,
        data=data if data is not None else file.data,
        batch_size=str(file.batch_size),
        device=file.device,
    )


def _runs(file: SweepFile, asked: PlannedRun) -> Iterator[tuple[str, str, PlannedRun]]:
    """Yield name, method and run of each point of a model."""
    yield DENSE, "none", asked
    for name, allocation in itertools.product(file.methods, file.allocations):
        method = get_method(name)
        options: dict[str, Any] = {"method": name}
        rule = get_allocation(allocation)
        if allocation != "uniform":
            options["allocation"] = allocation
        masked = rests_on_mask(name, file.method_options.get(name, {}))
        options |= {"mask": file.mask} if masked else {}
        options |= _given("method_options", file.method_options.get(name))
        options |= _given("allocation_options", file.allocation_options.get(allocation))
        needs = method.needs_with(method.resolve(file.method_options.get(name, {}))) | rule.needs
        if needs is not Needs.NOTHING:
            options |= _calibration(file)
        seeded = method.seeded or rule.needs is not Needs.NOTHING
        amounts = _amounts(file, allocation) if not masked else [{}] if allocation == "uniform" else []
        for amount, seed in itertools.product(amounts, file.seeds if seeded else [0]):
            pruning = {**options, **amount, **({"prune_seed": seed} if seed else {})}
            parts = [name, *(str(value).replace(":", "of") for value in amount.values())]
            parts += [allocation] if allocation != "uniform" else []
            parts += [f"seed{seed}"] if seed else []
            run = replace(asked, model_args={**asked.model_args, **pruning})
            yield "-".join(_word(part) for part in parts), name, run


def _given(name: str, options: Mapping[str, OptionValue] | None) -> dict[str, str]:
    """Return options as `--model_args` writes them; nothing for none."""
    return {name: "+".join(f"{key}:{value}" for key, value in options.items())} if options else {}


def _amounts(file: SweepFile, allocation: str) -> list[dict[str, Any]]:
    """Return how much is pruned: a sparsity each where nothing fixes it, else the pattern that does.

    An n:m pattern keeps n in every block alike: with an allocation other than uniform it is no point.
    """
    amounts: list[dict[str, Any]] = []
    for pattern in file.patterns:
        if pattern == UNSTRUCTURED:
            amounts += [{"sparsity": sparsity} for sparsity in file.sparsities or [0.5]]
        elif allocation == "uniform":
            amounts.append({"pattern": pattern})
    return amounts


def _calibration(file: SweepFile) -> dict[str, Any]:
    given = {
        "calibration": file.calibration,
        "calibration_languages": "+".join(file.calibration_languages) or None,
        "calibration_samples": file.calibration_samples,
        "calibration_length": file.calibration_length,
        "calibration_dtype": file.calibration_dtype,
        "sequential": file.sequential,
    }
    return {key: value for key, value in given.items() if value is not None}


def _word(text: str) -> str:
    """Return a text that any file system takes as the name of a folder."""
    return re.sub(r"[^\w.]+", "_", text).strip("._") or "model"


def _require_apart(path: Path, key: str, folders: list[str], mend: str) -> None:
    twice = [folder for folder, count in Counter(folders).items() if count > 1]
    if twice:
        raise IllusionError(f"{path}: {key}: two of them would share the folder {twice[0]}: {mend}")
