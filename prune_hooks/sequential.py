"""Hands each weight's inputs to a method while a block runs: the two orders of pruning within a block.

"weight": every weight's statistics come from a forward in which all earlier weights of the block are pruned already, at
the cost of one forward a block. The hook on a weight sees all its inputs, prunes it, and the forward goes on with the
pruned weight. Several batches go in step: each halts before the weight until all have brought their inputs.

"block": the published protocol. One forward collects the statistics of the whole dense block, all is pruned, and a
second forward makes the next block's inputs.

Weights that read the same input tensor share one statistic, hence one Hessian and one factorisation, and are handed
over as one group.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from prune_hooks.counting import Counting, Labels
from prune_hooks.errors import PruneError
from prune_hooks.fused import is_experts
from prune_hooks.lanes import Lane
from prune_hooks.reuse import FirstBlock
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.targets import Block, HookPoint, Stage, Weight
from prune_hooks.walk import Step

Prune = Callable[[tuple[Weight, ...], Statistics], None]
Handler = Callable[[HookPoint, tuple[Any, ...], dict[str, Any]], None]


@dataclass(frozen=True, eq=False)
class _Meeting:
    """A module about to run on a batch, with what it is called with."""

    batch: int
    point: HookPoint
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def prune_block(
    step: Step,
    needs: Needs,
    sequential: str,
    prune: Prune,
    kept: FirstBlock | None = None,
    labels: Labels | None = None,
) -> None:
    """Prunes one block in the given order ("weight" or "block") and advances every batch.

    Args:
        step: the block.
        needs: what the statistics must hold.
        sequential: the order.
        prune: called once for each group of weights that share an input.
        kept: of a model's first block, what earlier calls have left, or where to leave it.
        labels: languages of the tokens, where statistics are kept apart by them.
    """
    counting = Counting(step, needs, labels)
    if sequential == "block":
        _published(step, counting, prune, kept)
    else:
        _in_step(step, counting, prune, kept)
    if kept is not None:
        kept.close()


def watch_block(step: Step, needs: Needs, labels: Labels | None = None) -> list[tuple[tuple[Weight, ...], Statistics]]:
    """Advances every batch through a block that stays as it is.

    Returns:
        The statistics of each input, with the weights that read it.
    """
    collected = _Collected(Counting(step, needs, labels))
    for batch in step.batches:
        with _hooked(step, partial(collected.add_all, batch)):
            step.advance(batch)
        collected.end_batch()
    found: list[tuple[tuple[Weight, ...], Statistics]] = []
    collected.prune(step.block, lambda group, statistics: found.append((group, statistics)))
    return found


def _published(step: Step, counting: Counting, prune: Prune, kept: FirstBlock | None) -> None:
    collected = _Collected(counting)
    if kept is None or not collected.take(step.block, kept):
        for batch in step.batches:
            with _hooked(step, partial(collected.add_all, batch)):
                step.run(batch)
            collected.end_batch()
        if kept is not None:
            collected.leave(kept)
    collected.prune(step.block, prune)
    for batch in step.batches:
        step.advance(batch)


def _in_step(step: Step, counting: Counting, prune: Prune, kept: FirstBlock | None) -> None:
    turns = _Turns(step, counting, prune, kept)
    if len(step.batches) == 1:

        def handle(point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if turns.awaits(point, args):
                turns.prune([_Meeting(0, point, args, kwargs)])

        with _hooked(step, handle):
            step.advance(0)
    else:
        _in_lanes(step, turns)
    for point in step.block.points:
        if point not in turns.pruned:
            for stage in point.stages:
                for group in stage.groups:
                    prune(group, counting.new(group))


def _in_lanes(step: Step, turns: _Turns) -> None:
    order = {point: number for number, point in enumerate(step.block.points)}
    lanes: list[Lane[_Meeting]] = [Lane(partial(step.advance, batch)) for batch in step.batches]
    running, place = lanes[0], {lane: batch for batch, lane in enumerate(lanes)}

    def halt(point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if turns.awaits(point, args):
            running.halt(_Meeting(place[running], point, args, kwargs))

    try:
        with _hooked(step, halt):
            for running in lanes:
                running.resume()
            while meetings := [lane.meeting for lane in lanes if lane.meeting is not None]:
                # Lanes wait at different modules only where tokens are routed; the earliest goes first.
                point = min((meeting.point for meeting in meetings), key=order.__getitem__)
                turns.prune([meeting for meeting in meetings if meeting.point is point])
                meetings.clear()
                for running in lanes:
                    if running.meeting is not None and running.meeting.point is point:
                        running.resume()
    finally:
        for lane in lanes:
            lane.cancel()


class _Turns:
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

    def prune(self, meetings: list[_Meeting]) -> None:
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

    def _statistics(self, stage: Stage, meetings: list[_Meeting]) -> Statistics:
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

    def _prune_experts(self, meetings: list[_Meeting]) -> None:
        point = meetings[0].point
        for number, stage in enumerate(point.stages):
            found = [self._counting.new(group) for group in stage.groups]
            for meeting in meetings:
                self._counting.add(found, point, number, meeting.args, meeting.kwargs, meeting.batch)
            for group, statistics in zip(stage.groups, found, strict=True):
                self._prune(group, statistics)


class _Collected:
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


@contextmanager
def _hooked(step: Step, handle: Handler) -> Iterator[None]:
    """Calls `handle` before each of the block's modules runs."""

    def hook(point: HookPoint) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not args and not is_experts(module):
                args = tuple(kwargs.values())
            step.heap.give_back()
            handle(point, args, kwargs)

        return before

    handles = [point.module.register_forward_pre_hook(hook(point), with_kwargs=True) for point in step.block.points]
    try:
        yield
    finally:
        for handle_ in handles:
            handle_.remove()
