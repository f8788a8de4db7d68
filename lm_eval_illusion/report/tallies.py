"""Do the records of a task add up to the score that the harness wrote for it? Else they are another run's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.halves import HALVES, MATCHERS, NORMALISERS, Half
from lm_eval_illusion.report.pair_halves import ChoiceHalf, GenerationHalf
from lm_eval_illusion.report.run_facts import RUN_AGAIN

__all__ = ["check_tally"]

_CLOSE = 1e-6


def check_tally(results: Mapping[str, Any], samples: Path, task: str, halves: Iterable[Half]) -> None:
    """Compare R or G over a task's valid records with the mean in the results file, where it holds one.

    So a samples file of another run beside this results file, or one that was edited, is found.

    Raises:
        IllusionError: They differ.
    """
    table = results.get("results")
    scores = table.get(task) if isinstance(table, dict) else None
    if not isinstance(scores, dict):
        return
    right: dict[str, list[float]] = {"acc_norm,none": [], "correct,none": []}
    valid = [half for half in halves if half.valid and half.condition in HALVES]
    for half in valid:
        if isinstance(half, ChoiceHalf):
            right["acc_norm,none"].append(float(bool(half.right[NORMALISERS[0]])))
        elif isinstance(half, GenerationHalf):
            right["correct,none"].append(float(bool(half.right[MATCHERS[0]])))
    for metric, values in right.items():
        said = scores.get(metric)
        if not valid or not isinstance(said, (int, float)) or not math.isfinite(said):
            continue
        mean = sum(values) / len(values) if values else math.nan
        if not abs(mean - said) <= _CLOSE:
            raise IllusionError(
                f"{samples}: the records of {task} are right in {mean:.4f}, but the results file beside it says "
                f"{metric} {said:.4f}: a samples file of another task or run, or edited; {RUN_AGAIN}"
            )
