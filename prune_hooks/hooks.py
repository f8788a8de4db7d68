"""Calls back before each module of a block that applies prunable weights, with what it is called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from prune_hooks.fused import is_experts
from prune_hooks.statistics import Statistics
from prune_hooks.walk import Step
from prune_hooks.weights import HookPoint, Weight

Prune = Callable[[tuple[Weight, ...], Statistics], None]
Handler = Callable[[HookPoint, tuple[Any, ...], dict[str, Any]], None]


@contextmanager
def hooked(step: Step, handle: Handler) -> Iterator[None]:
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
