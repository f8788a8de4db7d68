"""Which modules of a block read the very same tensor: seen in one short call, so that they can be pruned as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from prune_hooks.fused import is_experts
from prune_hooks.weights import Block, HookPoint

Together = dict[HookPoint, tuple[HookPoint, ...]]
"""Module -> all modules of its block that read the same input, itself included, in the order they are called."""


@contextmanager
def watch_inputs(blocks: Sequence[Block]) -> Iterator[Together]:
    """Notes what the blocks' modules read while the model is called inside; the answer is there on leaving.

    A module that is called more than once, or not at all, is in company with no other; experts route their tokens and
    are left out.
    """
    together: Together = {}
    met: list[tuple[Block, HookPoint, torch.Tensor]] = []

    def note(block: Block, point: HookPoint) -> Any:
        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            met.append((block, point, args[0] if args else next(iter(kwargs.values()))))

        return before

    points = [(block, point) for block in blocks for point in block.points if not is_experts(point.module)]
    handles = [point.module.register_forward_pre_hook(note(block, point), with_kwargs=True) for block, point in points]
    try:
        yield together
    finally:
        for handle in handles:
            handle.remove()
    called = [point for _, point, _ in met]
    readers: dict[tuple[int, int], list[HookPoint]] = {}
    for block, point, tensor in met:
        if called.count(point) == 1:
            readers.setdefault((id(block), id(tensor)), []).append(point)
    together |= {point: tuple(company) for company in readers.values() for point in company}
