"""One command for one checkpoint: dense, pruned, and the probes of both where they are asked for.

Each run is an ordinary `lm_eval` run in its own folder; a finished one is not run again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lm_eval_illusion.harness import demo_model
from lm_eval_illusion.harness.planned import PlannedRun
from lm_eval_illusion.harness.probe_runs import Probes, run_probes
from lm_eval_illusion.harness.run_folder import is_finished, run_once


@dataclass(frozen=True)
class CheckPlan:
    """What `check` compares."""

    run: PlannedRun
    """What both runs ask; its model arguments are those that hold for both (dtype, revision, ...)."""
    pruning: dict[str, Any] = field(default_factory=dict)
    """Options of the pruned run (method, sparsity, ...)."""
    probes: Probes | None = None
    """Which items are probed afterwards; None probes none."""


def run_check(plan: CheckPlan, out: Path, tell: Callable[[str], object]) -> tuple[Path, Path]:
    """Run dense and pruned in turn, and their probes.

    Args:
        plan: What to run.
        out: Folder for the run folders: `dense`, `pruned`, and those of the probes.
        tell: Takes a line about what is run next.

    Returns:
        The folders of the dense and of the pruned model, as the report takes them (several joined with +).

    Raises:
        IllusionError: If a folder holds another run, data is missing or a run left no files.
    """
    both = plan.run.model_args
    pruned = replace(plan.run, model_args={**both, **plan.pruning})
    pruned.validate()
    pruned = pruned.with_prompting()
    dense = replace(pruned, model_args={**both, "method": "none"})
    both_runs = {out / "pruned": pruned, out / "dense": dense}
    kept = {folder for folder, planned in both_runs.items() if is_finished(folder, planned.made_from())}
    with ExitStack() as stack:
        if plan.probes is not None and int(os.environ.get("WORLD_SIZE", "1")) == 1:
            _keep_loaded(stack)
        # The pruned run goes first: what cannot be pruned or calibrated should show before the dense run is paid for.
        for number, (folder, planned) in enumerate(both_runs.items(), 1):
            done = "kept, it is finished" if folder in kept else "running"
            tell(f"{number} of {len(both_runs)}: the {folder.name} model, {folder}: {done}")
            run_once(planned, folder)
        pruned_folder, dense_folder = both_runs
        if plan.probes is None:
            return dense_folder, pruned_folder
        tell("then the probes of both: " + ("all items" if plan.probes is Probes.ALL else "what either failed"))
        of_dense, of_pruned = run_probes(plan.probes, {dense_folder: dense, pruned_folder: pruned})
        return of_dense, of_pruned


def _keep_loaded(stack: ExitStack) -> None:
    """Let the runs share one loaded model, as the points of a sweep do: with probes there are eight of them."""
    from lm_eval_illusion.harness.sweep.once import found_out_once
    from lm_eval_illusion.harness.sweep.resident import Resident, lending

    stack.enter_context(found_out_once())
    stack.enter_context(lending(Resident()))


def demo_plan(items: int, probes: Probes | None = None) -> CheckPlan:
    """Return the demo: Gemma 3 270M, Wanda at 0.5, the shipped questions in all languages."""
    asked = PlannedRun(pretrained=str(demo_model.checkpoint()), items=items)
    return CheckPlan(asked, {"method": "wanda", "sparsity": 0.5}, probes)
