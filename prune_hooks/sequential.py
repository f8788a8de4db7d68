"""Hands each weight's inputs to a method while a block runs: the two orders of pruning within a block.

"weight": every weight's statistics come from a forward in which all earlier weights of the block are pruned already, at
the cost of one forward a block. The hook on a weight sees all its inputs, prunes it, and the forward goes on with the
pruned weight. Several batches go in step: each halts before the weight until all have brought their inputs.

"block": the published protocol. One forward collects the statistics of the whole dense block, all is pruned, and a
second forward makes the next block's inputs.

Weights that read the same input tensor share one statistic, hence one Hessian and one factorisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from prune_hooks.fused import expert_inputs, is_experts
from prune_hooks.lanes import Lane
from prune_hooks.reuse import FirstBlock
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.targets import Block, HookPoint, Stage, Weight
from prune_hooks.walk import Step

Prune = Callable[[tuple[Weight, ...], Statistics], None]
Handler = Callable[[HookPoint, tuple[Any, ...], dict[str, Any]], None]


@dataclass(frozen=True, eq=False)
class _Meeting:
    """A module about to run, with what it is called with."""

    point: HookPoint
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def prune_block(step: Step, needs: Needs, sequential: str, prune: Prune, kept: FirstBlock | None = None) -> None:
    """Prunes one block in the given order ("weight" or "block") and advances every batch.

    Args:
        step: the block.
        needs: what the statistics must hold.
        sequential: the order.
        prune: called once for each group of weights that share an input.
        kept: of a model's first block, what earlier calls have left, or where to leave it.
    """
    if sequential == "block":
        _published(step, needs, prune, kept)
    else:
        _in_step(step, needs, prune, kept)
    if kept is not None:
        kept.close()


def _published(step: Step, needs: Needs, prune: Prune, kept: FirstBlock | None) -> None:
    collected = _Collected(needs)
    if kept is None or not collected.take(step.block, kept):
        for batch in step.batches:
            with _hooked(step, lambda point, args, kwargs: collected.add_all(point, args, kwargs)):
                step.run(batch)
            collected.end_batch()
        if kept is not None:
            collected.leave(kept)
    for point in step.block.points:
        for stage in point.stages:
            collected.prune(stage, prune)
    for batch in step.batches:
        step.advance(batch)


def _in_step(step: Step, needs: Needs, prune: Prune, kept: FirstBlock | None) -> None:
    pruned: set[HookPoint] = set()
    last = _Shared(kept)
    if len(step.batches) == 1:

        def handle(point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if point not in pruned:
                pruned.add(point)
                _prune_point([_Meeting(point, args, kwargs)], needs, prune, last)

        with _hooked(step, handle):
            step.advance(0)
    else:
        _in_lanes(step, needs, prune, pruned, last)
    for point in step.block.points:
        if point not in pruned:
            for stage in point.stages:
                for group in stage.groups:
                    prune(group, _new(group, needs))


def _in_lanes(step: Step, needs: Needs, prune: Prune, pruned: set[HookPoint], last: _Shared) -> None:
    order = {point: number for number, point in enumerate(step.block.points)}
    lanes: list[Lane[_Meeting]] = [Lane(partial(step.advance, batch)) for batch in step.batches]
    running = lanes[0]

    def halt(point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if point not in pruned:
            running.halt(_Meeting(point, args, kwargs))

    try:
        with _hooked(step, halt):
            for running in lanes:
                running.resume()
            while meetings := [lane.meeting for lane in lanes if lane.meeting is not None]:
                # Lanes wait at different modules only where tokens are routed; the earliest goes first.
                point = min((meeting.point for meeting in meetings), key=order.__getitem__)
                _prune_point([meeting for meeting in meetings if meeting.point is point], needs, prune, last)
                pruned.add(point)
                meetings.clear()
                for running in lanes:
                    if running.meeting is not None and running.meeting.point is point:
                        running.resume()
    finally:
        for lane in lanes:
            lane.cancel()


class _Shared:
    """The last statistic taken and the tensors it was taken of, for the weights that read the same."""

    def __init__(self, kept: FirstBlock | None) -> None:
        self._inputs: list[torch.Tensor] = []
        self._statistics: Statistics | None = None
        self._kept = kept

    def find(self, inputs: list[torch.Tensor]) -> Statistics | None:
        """Returns the statistic if it was taken of exactly these tensors."""
        same = len(inputs) == len(self._inputs) and all(a is b for a, b in zip(inputs, self._inputs, strict=True))
        return self._statistics if same else None

    def keep(self, inputs: list[torch.Tensor], statistics: Statistics) -> None:
        """Remembers a statistic instead of the one before."""
        self._inputs, self._statistics = inputs, statistics

    def past_first(self) -> None:
        """Forgets what is kept: a weight is about to be pruned."""
        self._kept = None

    def make(self, stage: Stage, needs: Needs, inputs: list[torch.Tensor]) -> Statistics:
        """Returns the statistic of a stage's inputs and remembers it; that of a first block's first stage is kept."""
        kept, self._kept = self._kept, None  # no weight has been pruned before the first stage, and only before that
        if kept is not None and kept.shared:
            (statistics,) = kept.lend(kept.shared[0], inputs[0].device)
        else:
            statistics = _new(stage.groups[0], needs)
            for tensor in inputs:
                statistics.update(tensor)
            if kept is not None:
                kept.keep([stage.name], [statistics])
        self.keep(inputs, statistics)
        return statistics


def _prune_point(meetings: list[_Meeting], needs: Needs, prune: Prune, last: _Shared) -> None:
    """Prunes a module that every batch is about to run, with the inputs of all."""
    point = meetings[0].point
    if not is_experts(point.module):
        inputs = [meeting.args[0] for meeting in meetings]
        group = point.stages[0].groups[0]
        statistics = last.find(inputs) or last.make(point.stages[0], needs, inputs)
        prune(group, statistics)
        return
    last.past_first()
    for number, stage in enumerate(point.stages):
        found = [_new(group, needs) for group in stage.groups]
        for meeting in meetings:
            routed = _inputs(point, number, meeting.args, meeting.kwargs)
            for statistics, tensor in zip(found, routed, strict=True):
                statistics.update(tensor)
        for group, statistics in zip(stage.groups, found, strict=True):
            prune(group, statistics)


class _Collected:
    """Statistics of the stages met in a forward over several batches; equal inputs are counted once."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._statistics: dict[Stage, list[Statistics]] = {}
        self._leader: dict[Stage, Stage] = {}
        self._inputs: list[tuple[Stage, torch.Tensor]] = []

    def add_all(self, point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Counts the inputs of all the module's stages."""
        for number in range(len(point.stages)):
            self.add(point, number, args, kwargs)

    def add(self, point: HookPoint, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
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
            self._statistics[stage] = [_new(group, self._needs) for group in stage.groups]
        for statistics, inputs in zip(self._statistics[stage], _inputs(point, number, args, kwargs), strict=True):
            statistics.update(inputs)
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
        device = block.weights()[0].parameter.device
        for shared in kept.shared:
            leader = stages[shared.stages[0]]
            self._statistics[leader] = kept.lend(shared, device)
            self._leader |= {stages[name]: leader for name in shared.stages}
        return bool(kept.shared)

    def prune(self, stage: Stage, prune: Prune) -> None:
        """Prunes a stage's groups by what was collected; a stage that was never met counts as starved."""
        leader = self._leader.get(stage, stage)
        found = self._statistics.get(leader) or [_new(group, self._needs) for group in stage.groups]
        for group, statistics in zip(stage.groups, found, strict=True):
            prune(group, statistics)


def _new(group: tuple[Weight, ...], needs: Needs) -> Statistics:
    matrix = group[0].matrix()
    return Statistics(group[0].name, matrix.shape[1], needs, matrix.device)


def _inputs(point: HookPoint, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    if is_experts(point.module):
        return expert_inputs(point.name, point.module, args, kwargs, number)
    return iter((args[0],))


@contextmanager
def _hooked(step: Step, handle: Handler) -> Iterator[None]:
    """Calls `handle` before each of the block's modules runs."""

    def hook(point: HookPoint) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not args and not is_experts(module):
                args = tuple(kwargs.values())
            handle(point, args, kwargs)

        return before

    handles = [point.module.register_forward_pre_hook(hook(point), with_kwargs=True) for point in step.block.points]
    try:
        yield
    finally:
        for handle_ in handles:
            handle_.remove()
