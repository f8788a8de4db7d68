"""One command for one checkpoint: dense, pruned, report.

Each of the two runs is an ordinary `lm_eval` run in its own folder; a finished one is not run again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lm_eval_illusion.harness import demo_model
from lm_eval_illusion.harness.planned import PlannedRun
from lm_eval_illusion.harness.run_folder import is_finished, run_once


@dataclass(frozen=True)
class CheckPlan:
    """What `check` compares."""

    run: PlannedRun
    """What both runs ask; its model arguments are those that hold for both (dtype, revision, ...)."""
    pruning: dict[str, Any] = field(default_factory=dict)
    """Options of the pruned run (method, sparsity, ...)."""


def run_check(plan: CheckPlan, out: Path) -> tuple[Path, Path]:
    """Run dense and pruned in turn.

    Args:
        plan: What to run.
        out: Folder for the two run folders, `dense` and `pruned`.

    Returns:
        The two run folders, dense first.

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
    # The pruned run goes first: whatever cannot be pruned or calibrated should show before the dense run is paid for.
    pruned_folder = run_once(pruned, out / "pruned")
    return run_once(dense, out / "dense"), pruned_folder


def demo_plan(items: int) -> CheckPlan:
    """Return the demo: Gemma 3 270M, Wanda at 0.5, the shipped questions in all languages."""
    return CheckPlan(
        PlannedRun(pretrained=str(demo_model.checkpoint()), items=items), {"method": "wanda", "sparsity": 0.5}
    )
