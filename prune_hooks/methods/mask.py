"""Method "mask": removes what a saved mask removes; no weight is updated, and no calibration is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prune_hooks.errors import PruneError
from prune_hooks.mask_files import MaskFile
from prune_hooks.registry import Group, Method, Outcome, Plan, register_method
from prune_hooks.spec import MASK, PruneSpec
from prune_hooks.zeros import erase


def _bound(spec: PruneSpec) -> Method:
    """Returns the method with the spec's file at hand."""
    file = MaskFile(spec.mask)

    def check(plan: Plan, options: Mapping[str, Any]) -> None:
        file.require_fits(weight for weight, _ in plan)

    def prune(group: Group) -> list[Outcome]:
        outcomes = []
        for weight in group.weights:
            removed = file.of(weight)
            erase(weight.matrix(), removed)
            outcomes.append(Outcome(masked=int(removed.count_nonzero())))
        return outcomes

    return replace(mask, prune=prune, check=check, bind=None)


@register_method(MASK, seeded=False, bind=_bound)
def mask(group: Group) -> list[Outcome]:
    """Stands for a method that only a spec can complete."""
    raise PruneError(f"method 'mask' was asked to prune {group.weights[0].name} without a file: expected mask=PATH")
