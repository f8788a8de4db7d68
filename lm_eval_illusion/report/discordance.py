"""Discordant counts of a condition, dense against pruned: which way single items went, where two shares may hide it."""

from __future__ import annotations

from collections.abc import Mapping

from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.ladder import further_rights, graded_rights, ladder_rights
from lm_eval_illusion.report.probe_measures import Discordance
from lm_eval_illusion.report.stats import mcnemar

__all__ = ["discordances"]

Rights = Mapping[str, Mapping[int, float]]
"""Name -> item -> 1 where it is right."""


def discordances(dense: Asked, pruned: Asked) -> dict[str, dict[str, Discordance]]:
    """Every rung, distance and further condition that both models have, over the items that both have there.

    Returns:
        `ladder`, `graded` and `accuracies`, each name -> counts; names that one model lacks are left out.
    """
    pairs = {
        "ladder": (ladder_rights(dense), ladder_rights(pruned)),
        "graded": (graded_rights(dense), graded_rights(pruned)),
        "accuracies": (further_rights(dense), further_rights(pruned)),
    }
    return {table: _counted(before, after) for table, (before, after) in pairs.items()}


def _counted(before: Rights, after: Rights) -> dict[str, Discordance]:
    found = {}
    for name in before:
        items = before[name].keys() & after.get(name, {}).keys()
        if not items:
            continue
        lost = sum(bool(before[name][i]) and not after[name][i] for i in items)
        won = sum(bool(after[name][i]) and not before[name][i] for i in items)
        found[name] = Discordance(items=len(items), lost=lost, won=won, p=mcnemar(lost, won))
    return found
