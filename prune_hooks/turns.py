"""Order "weight": each module is pruned as it is met, with the inputs that all earlier pruned ones have made."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

from prune_hooks.counting import Counting
from prune_hooks.errors import PruneError
from prune_hooks.fused import is_experts
from prune_hooks.hooks import Prune
from prune_hooks.reuse import FirstBlock
from prune_hooks.statistics import Statistics
from prune_hooks.walk import Step
from prune_hooks.weights import HookPoint, Stage


@dataclass(frozen=True, eq=False)
class Meeting:
    """A module about to run on a batch, with what it is called with."""

    batch: int
    point: HookPoint
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Turns:
    """Prunes a block's modules as they are met, together with those that read the same input."""

    def __init__(self, step: Step, counting: Counting, prune: Prune, kept: FirstBlock | None) -> None:
        self.pruned: set[HookPoint] = set()
        self._together = step.together
        self._counting = counting
        self._prune = prune
        self._kept = kept
        self._ahead: dict[HookPoint, tuple[HookPoint, list[weakref.ref[torch.Tensor]]]] = {}

    def awaits(self, point: HookPoint, args: tuple[Any, ...]) -> bool:
        """Returns whether a module about to run is still dense.

        Raises:
            PruneError: if it was pruned along with a module whose input it does not read after all.
        """
        if point not in self.pruned:
            return True
        if point in self._ahead:
            first, inputs = self._ahead[point]
            if all(reference() is not args[0] for reference in inputs):
                raise PruneError(
                    f"{point.name} reads another input than {first.name}, with which it shared one in a call of a few "
                    "tokens: expected the same modules to share on every text; use sequential=block"
                )
        return False

    def prune(self, meetings: list[Meeting]) -> None:
        """Prunes a module that every batch is about to run, with the inputs of all."""
        point = meetings[0].point
        self.pruned.add(point)
        if is_experts(point.module):
            self._kept = None
            self._prune_experts(meetings)
            return
        inputs = [meeting.args[0] for meeting in meetings]
        company = [other for other in self._together.get(point, ()) if other not in self.pruned]
        for other in company:
            self._ahead[other] = point, [weakref.ref(tensor) for tensor in inputs]
        self.pruned.update(company)
        statistics = self._statistics(point.stages[0], meetings)
        self._prune(tuple(w for member in (point, *company) for w in member.stages[0].groups[0]), statistics)

    def _statistics(self, stage: Stage, meetings: list[Meeting]) -> Statistics:
        kept, self._kept = self._kept, None  # no weight has been pruned before the first stage, and only before that
        if kept is not None and kept.shared:
            (statistics,) = kept.lend(kept.shared[0], meetings[0].args[0].device)
            return statistics
        statistics = self._counting.new(stage.groups[0])
        for meeting in meetings:
            self._counting.add([statistics], meeting.point, 0, meeting.args, meeting.kwargs, meeting.batch)
        if kept is not None:
            kept.keep([stage.name], [statistics])
        return statistics

    def _prune_experts(self, meetings: list[Meeting]) -> None:
        point = meetings[0].point
        for number, stage in enumerate(point.stages):
            found = [self._counting.new(group) for group in stage.groups]
            for meeting in meetings:
                self._counting.add(found, point, number, meeting.args, meeting.kwargs, meeting.batch)
            for group, statistics in zip(stage.groups, found, strict=True):
                self._prune(group, statistics)
