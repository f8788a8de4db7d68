"""Order "block": the statistics of a whole dense block are collected first, then all of it is pruned."""

from __future__ import annotations

from typing import Any

import torch

from prune_hooks.counting import Counting
from prune_hooks.fused import is_experts
from prune_hooks.hooks import Prune
from prune_hooks.reuse import FirstBlock
from prune_hooks.statistics import Statistics
from prune_hooks.weights import Block, HookPoint, Stage


class Collected:
    """Statistics of the stages met in a forward over several batches; equal inputs are counted once."""

    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        self._statistics: dict[Stage, list[Statistics]] = {}
        self._leader: dict[Stage, Stage] = {}
        self._inputs: list[tuple[Stage, torch.Tensor]] = []

    def add_all(self, batch: int, point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Counts a batch's inputs of all the module's stages."""
        for number in range(len(point.stages)):
            self.add(batch, point, number, args, kwargs)

    def add(self, batch: int, point: HookPoint, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Counts the inputs of one stage, unless the stage shares a statistic that has counted them."""
        stage = point.stages[number]
        routed = is_experts(point.module)
        if stage not in self._leader:
            same = next((lead for lead, tensor in self._inputs if not routed and tensor is args[0]), None)
            # A statistic that began in an earlier batch has seen tokens that this stage has not.
            fresh = same is not None and self._statistics[same][0].tokens == args[0].numel() // args[0].shape[-1]
            self._leader[stage] = same if same is not None and fresh else stage
        if self._leader[stage] is not stage:
            return
        if stage not in self._statistics:
            self._statistics[stage] = [self._counting.new(group) for group in stage.groups]
        self._counting.add(self._statistics[stage], point, number, args, kwargs, batch)
        if not routed:
            self._inputs.append((stage, args[0]))

    def end_batch(self) -> None:
        """Lets go of the batch's tensors."""
        self._inputs.clear()

    def leave(self, kept: FirstBlock) -> None:
        """Leaves everything collected to later calls."""
        for leader, statistics in self._statistics.items():
            kept.keep([stage.name for stage, lead in self._leader.items() if lead is leader], statistics)

    def take(self, block: Block, kept: FirstBlock) -> bool:
        """Takes what an earlier call has collected of the same block; returns whether there was anything."""
        stages = {stage.name: stage for point in block.points for stage in point.stages}
        device = block.weights()[0].device
        for shared in kept.shared:
            leader = stages[shared.stages[0]]
            self._statistics[leader] = kept.lend(shared, device)
            self._leader |= {stages[name]: leader for name in shared.stages}
        return bool(kept.shared)

    def prune(self, block: Block, prune: Prune) -> None:
        """Prunes a block by what was collected, letting go of it; a stage that was never met counts as starved."""
        served: dict[Stage, list[Stage]] = {}
        for stage in (stage for point in block.points for stage in point.stages):
            served.setdefault(self._leader.get(stage, stage), []).append(stage)
        for leader, stages in served.items():
            found = self._statistics.pop(leader, None) or [self._counting.new(group) for group in leader.groups]
            for number, statistics in enumerate(found):
                prune(tuple(weight for stage in stages for weight in stage.groups[number]), statistics)
