"""Hands each weight's inputs to a method while a block runs: the two orders of pruning within a block.

"weight": every weight's statistics come from a forward in which all earlier weights of the block are pruned already. If
the calibration rows fit in one batch, that costs one forward a block: the hook on a weight sees all its inputs, prunes
it, and the forward goes on with the pruned weight. With several batches the same statistics are summed over cut-short
forwards, one round a group of weights, and a last full forward.

"block": the published protocol. One forward collects the statistics of the whole dense block, all is pruned, and a
second forward makes the next block's inputs.

Weights that read the same input tensor share one statistic, hence one Hessian and one factorisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn

from prune_hooks.fused import expert_inputs, is_experts
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.targets import HookPoint, Stage, Weight
from prune_hooks.walk import Step

Prune = Callable[[tuple[Weight, ...], Statistics], None]
Handler = Callable[[HookPoint, tuple[Any, ...], dict[str, Any]], None]


class _Stop(Exception):
    """All that this forward was run for has been seen."""


def prune_block(step: Step, needs: Needs, sequential: str, prune: Prune) -> None:
    """Prunes one block in the given order ("weight" or "block") and advances every batch.

    Args:
        step: the block.
        needs: what the statistics must hold.
        sequential: the order.
        prune: called once for each group of weights that share an input.
    """
    if sequential == "block":
        _published(step, needs, prune)
    elif len(step.batches) == 1:
        _in_one_forward(step, needs, prune)
    else:
        _in_rounds(step, needs, prune)


def _published(step: Step, needs: Needs, prune: Prune) -> None:
    collected = _Collected(needs)
    for batch in step.batches:
        with _hooked(step, lambda point, args, kwargs: collected.add_all(point, args, kwargs)):
            step.run(batch)
        collected.end_batch()
    for point in step.block.points:
        for stage in point.stages:
            collected.prune(stage, prune)
    for batch in step.batches:
        step.advance(batch)


def _in_one_forward(step: Step, needs: Needs, prune: Prune) -> None:
    pruned: set[Stage] = set()
    last: list[tuple[torch.Tensor, Statistics]] = []

    def handle(point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for number, stage in enumerate(point.stages):
            if stage in pruned:
                continue
            pruned.add(stage)
            for group, inputs in zip(stage.groups, _inputs(point, number, args, kwargs), strict=True):
                if not (last and last[0][0] is inputs):
                    statistics = _new(group, needs)
                    statistics.update(inputs)
                    last[:] = [(inputs, statistics)]
                prune(group, last[0][1])

    with _hooked(step, handle):
        step.advance(0)
    _prune_unreached(step, pruned, needs, prune)


def _in_rounds(step: Step, needs: Needs, prune: Prune) -> None:
    pruned: set[Stage] = set()
    while True:
        collected = _Collected(needs)
        chosen: list[Stage] = []
        for batch in step.batches:
            met: set[Stage] = set()

            def handle(
                point: HookPoint,
                args: tuple[Any, ...],
                kwargs: dict[str, Any],
                collected: _Collected = collected,
                chosen: list[Stage] = chosen,
                met: set[Stage] = met,
            ) -> None:
                number = next((n for n, stage in enumerate(point.stages) if stage not in pruned), None)
                if number is None:
                    return
                stage = point.stages[number]
                if not chosen or (stage not in chosen and met and collected.shares(point, args)):
                    chosen.append(stage)
                if stage in chosen:
                    collected.add(point, number, args, kwargs)
                    met.add(stage)
                elif met:
                    raise _Stop

            with suppress(_Stop), _hooked(step, handle):
                step.run(batch)
            collected.end_batch()
        if not chosen:
            break
        for stage in chosen:
            collected.prune(stage, prune)
            pruned.add(stage)
        if len(pruned) == sum(len(point.stages) for point in step.block.points):
            break
    _prune_unreached(step, pruned, needs, prune)
    for batch in step.batches:
        step.advance(batch)


class _Collected:
    """Statistics of the stages met in a forward over several batches; equal inputs are counted once."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._statistics: dict[Stage, list[Statistics]] = {}
        self._leader: dict[Stage, Stage] = {}
        self._inputs: list[tuple[Stage, torch.Tensor]] = []

    def shares(self, point: HookPoint, args: tuple[Any, ...]) -> bool:
        """Tells whether a module reads a tensor already counted in this batch."""
        return not is_experts(point.module) and any(args[0] is tensor for _, tensor in self._inputs)

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

    def prune(self, stage: Stage, prune: Prune) -> None:
        """Prunes a stage's groups by what was collected; a stage that was never met counts as starved."""
        leader = self._leader.get(stage, stage)
        found = self._statistics.get(leader) or [_new(group, self._needs) for group in stage.groups]
        for group, statistics in zip(stage.groups, found, strict=True):
            prune(group, statistics)


def _prune_unreached(step: Step, pruned: set[Stage], needs: Needs, prune: Prune) -> None:
    for point in step.block.points:
        for stage in point.stages:
            if stage not in pruned:
                for group in stage.groups:
                    prune(group, _new(group, needs))


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
