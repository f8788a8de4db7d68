"""One command for one checkpoint: dense, pruned, and the probes of both where they are asked for.

Each run is an ordinary `lm_eval` run in its own folder; a finished one is not run again.
"""

from __future__ import annotations

import os
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


def run_check(plan: CheckPlan, out: Path) -> tuple[Path, Path]:
    """Run dense and pruned in turn, and their probes.

    Args:
        plan: What to run.
        out: Folder for the run folders: `dense`, `pruned`, and those of the probes.

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
    for folder, planned in ((out / "dense", dense), (out / "pruned", pruned)):
        is_finished(folder, planned.made_from())
    with ExitStack() as kept:
        if plan.probes is not None and int(os.environ.get("WORLD_SIZE", "1")) == 1:
            _keep_loaded(kept)
        # The pruned run goes first: what cannot be pruned or calibrated should show before the dense run is paid for.
        pruned_folder = run_once(pruned, out / "pruned")
        dense_folder = run_once(dense, out / "dense")
        if plan.probes is None:
            return dense_folder, pruned_folder
        of_dense, of_pruned = run_probes(plan.probes, {dense_folder: dense, pruned_folder: pruned})
        return of_dense, of_pruned


def _keep_loaded(kept: ExitStack) -> None:
    """Let the runs share one loaded model, as the points of a sweep do: with probes there are eight of them."""
    from lm_eval_illusion.harness.sweep.once import found_out_once
    from lm_eval_illusion.harness.sweep.resident import Resident, lending

    kept.enter_context(found_out_once())
    kept.enter_context(lending(Resident()))


def demo_plan(items: int, probes: Probes | None = None) -> CheckPlan:
    """Return the demo: Gemma 3 270M, Wanda at 0.5, the shipped questions in all languages."""
    asked = PlannedRun(pretrained=str(demo_model.checkpoint()), items=items)
    return CheckPlan(asked, {"method": "wanda", "sparsity": 0.5}, probes)
