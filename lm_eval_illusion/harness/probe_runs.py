"""The second runs of a comparison: recovery probes and two rounds of self-correction, of each of its models."""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import names
from lm_eval_illusion.harness.feed import Feeding, NothingToProbeError, gather
from lm_eval_illusion.harness.planned import PlannedRun
from lm_eval_illusion.harness.run_folder import run_once
from lm_eval_illusion.harness.task_files import task_name
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.conditions import GROUPS, PROBE_GROUPS, PROBES

log = logging.getLogger("lm_eval.illusion")

ROUNDS = ("revise1", "revise2")
"""Groups of self-correction; each round is fed with the answers of the run before it."""


class Probes(enum.Enum):
    """Which items are probed."""

    FAILURES = "failures"
    """Those that any of the models failed to answer."""
    ALL = "all"
    """Every item."""


def run_probes(probes: Probes, models: Mapping[Path, PlannedRun]) -> tuple[Path, ...]:
    """Probe models whose runs are finished, on the same items.

    Args:
        probes: Which items.
        models: Run folder -> what was run there; the probes' folders lie beside it: `pruned-probes`, ...

    Returns:
        The folders of each model joined with +, in the order given; the run folder alone where no item was failed.

    Raises:
        IllusionError: The runs hold no open answers, or a folder holds another run.
    """
    failures = tuple(str(folder) for folder in models) if probes is Probes.FAILURES else ()
    if failures:
        try:
            gather(Feeding(failures=failures))
        except NothingToProbeError as nothing:
            log.warning("no probes: %s", nothing)
            return tuple(models)
    return tuple(_of_one_model(folder, run, failures) for folder, run in models.items())


def _of_one_model(folder: Path, run: PlannedRun, failures: tuple[str, ...]) -> Path:
    asked = replace(run, tasks=tuple(tasks_of(run.tasks, PROBES)))
    probed = replace(asked, feeding=Feeding(failures=failures) if failures else None)
    folders = [folder, run_once(probed, folder.with_name(f"{folder.name}-{PROBES}"))]
    answered = folder
    for group in ROUNDS:
        fed = replace(run, tasks=tuple(tasks_of(run.tasks, group)), feeding=Feeding(str(answered), failures))
        answered = run_once(fed, folder.with_name(f"{folder.name}-{group}"))
        folders.append(answered)
    return Path("+".join(str(one) for one in folders))


def tasks_of(asked: Iterable[str], group: str) -> list[str]:
    """Return the tasks of a group in the languages in which open answers were asked.

    Args:
        asked: Data sets, languages of them, or tasks.
        group: `probes`, revise1, revise2 or another group.

    Raises:
        IllusionError: Open answers are asked in no language.
    """
    answered = [task for task in names.expand(names.with_all_halves(asked)) if task.condition == "gen"]
    if not answered:
        raise IllusionError(
            f"--probes: failures are those of open generation, which --tasks {','.join(asked)} does not ask; add its "
            "_gen tasks, or name data sets (tydiqa)"
        )
    by_set: dict[str, list[str]] = {}
    for task in answered:
        by_set.setdefault(task.dataset, []).append(task.language)
    found: list[str] = []
    for dataset, languages in by_set.items():
        if set(languages) == set(DATASETS[dataset].languages):
            found.append(f"{dataset}_{group}")
            continue
        groups = PROBE_GROUPS if group == PROBES else (group,)
        conditions = [name for one in groups for name in GROUPS[one]]
        found += [task_name(dataset, name, code) for name in conditions for code in languages]
    return found
