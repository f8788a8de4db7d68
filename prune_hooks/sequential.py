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

from functools import partial
from typing import Any

from prune_hooks.collected import Collected
from prune_hooks.counting import Counting, Labels
from prune_hooks.hooks import Prune, hooked
from prune_hooks.lanes import Lane
from prune_hooks.reuse import FirstBlock
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.turns import Meeting, Turns
from prune_hooks.walk import Step
from prune_hooks.weights import HookPoint, Weight


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
    collected = Collected(Counting(step, needs, labels))
    for batch in step.batches:
        with hooked(step, partial(collected.add_all, batch)):
            step.advance(batch)
        collected.end_batch()
    found: list[tuple[tuple[Weight, ...], Statistics]] = []
    collected.prune(step.block, lambda group, statistics: found.append((group, statistics)))
    return found


def _published(step: Step, counting: Counting, prune: Prune, kept: FirstBlock | None) -> None:
    collected = Collected(counting)
    if kept is None or not collected.take(step.block, kept):
        for batch in step.batches:
            with hooked(step, partial(collected.add_all, batch)):
                step.run(batch)
            collected.end_batch()
        if kept is not None:
            collected.leave(kept)
    collected.prune(step.block, prune)
    for batch in step.batches:
        step.advance(batch)


def _in_step(step: Step, counting: Counting, prune: Prune, kept: FirstBlock | None) -> None:
    turns = Turns(step, counting, prune, kept)
    if len(step.batches) == 1:

        def handle(point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if turns.awaits(point, args):
                turns.prune([Meeting(0, point, args, kwargs)])

        with hooked(step, handle):
            step.advance(0)
    else:
        _in_lanes(step, turns)
    for point in step.block.points:
        if point not in turns.pruned:
            for stage in point.stages:
                for group in stage.groups:
                    prune(group, counting.new(group))


def _in_lanes(step: Step, turns: Turns) -> None:
    order = {point: number for number, point in enumerate(step.block.points)}
    lanes: list[Lane[Meeting]] = [Lane(partial(step.advance, batch)) for batch in step.batches]
    running, place = lanes[0], {lane: batch for batch, lane in enumerate(lanes)}

    def halt(point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if turns.awaits(point, args):
            running.halt(Meeting(place[running], point, args, kwargs))

    try:
        with hooked(step, halt):
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
