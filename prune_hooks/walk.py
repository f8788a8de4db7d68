"""Runs a model block by block on calibration batches, holding one block's activations at a time.

Each block gets exactly what its parent passes it (masks by layer kind, rotary tables, position bias, encoder states),
so a walk that changes nothing reproduces the model's own hidden states. Encoder stacks come before decoder stacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import nn

from prune_hooks.capture import Batch, Call, Pool, Wiring, capture_calls, hidden_of, learn_wiring, with_hidden
from prune_hooks.heap import Heap
from prune_hooks.offload import first_device
from prune_hooks.precision import Precision
from prune_hooks.sharing import Together, watch_inputs
from prune_hooks.targets import Targets
from prune_hooks.weights import Block

_PROBE_ROWS, _PROBE_TOKENS = 1, 4
"""Size of the short real call that shows how blocks are wired."""


class Step:
    """One block of the walk with the inputs of every batch."""

    def __init__(
        self,
        index: int,
        block: Block,
        hidden: list[torch.Tensor],
        extras: list[tuple[Any, ...]],
        calls: list[Call],
        wiring: Wiring,
        together: Together,
        precision: Precision,
        heap: Heap,
    ) -> None:
        self.index = index
        """Position among all blocks of the model."""
        self.together = together
        """Which of the block's modules read the same input."""
        self.heap = heap
        """To be looked at whenever memory may have been freed."""
        self.block = block
        self._hidden = hidden
        self._extras = extras
        self._calls = calls
        self._wiring = wiring
        self._precision = precision
        self._given: dict[int, list[torch.Tensor]] = {}

    @property
    def batches(self) -> range:
        """Numbers of the batches."""
        return range(len(self._hidden))

    def run(self, batch: int) -> None:
        """Runs the block on one batch for its hooks' sake; the output is dropped."""
        self._forward(batch)

    def advance(self, batch: int) -> None:
        """Runs the block on one batch and keeps the output as the next block's input. Once a batch."""
        output = self._forward(batch)
        self._hidden[batch] = hidden_of(output)
        self._extras[batch] = output[1:] if isinstance(output, tuple) else ()

    def hidden(self, batch: int) -> torch.Tensor:
        """Returns a batch's current hidden states (rows, tokens, width): inputs, or outputs once advanced."""
        return self._hidden[batch]

    def put(self, batch: int, hidden: torch.Tensor) -> None:
        """Gives a batch other hidden states (rows, tokens, width) to go on with."""
        self._hidden[batch] = hidden

    def given(self, batch: int, tensor: torch.Tensor) -> bool:
        """Returns whether a running block was given this very tensor beside its hidden states (an encoder's output)."""
        return any(tensor is one for one in self._given.get(batch, ()))

    def _forward(self, batch: int) -> Any:
        call = self._precision.call(with_hidden(self._calls[batch], self._hidden[batch]))
        args, kwargs = list(call.args), dict(call.kwargs)
        for slot, position in self._wiring.threaded.items():
            value = self._extras[batch][position - 1]
            if isinstance(slot, int):
                args[slot] = value
            else:
                kwargs[slot] = value
        self._given[batch] = [value for value in (*args[1:], *kwargs.values()) if isinstance(value, torch.Tensor)]
        try:
            with self._precision.forward():
                return self.block.module(*args, **kwargs)
        finally:
            del self._given[batch]


def walk(
    model: nn.Module, targets: Targets, batches: Sequence[Batch], precision: Precision | None = None
) -> Iterator[Step]:
    """Yields every block in order; whoever takes a step must `advance` each batch before the next.

    Args:
        model: in evaluation mode.
        targets: its blocks.
        batches: the model's inputs, moved to its first device here.
        precision: of the blocks' forwards; None: as the model is.
    """
    device = first_device(model)
    heap = Heap(device)
    precision = precision or Precision("model", targets.weights()[0].parameter.dtype, device)
    batches = [{key: value.to(device) for key, value in batch.items()} for batch in batches]
    stacks = [list(blocks) for _, blocks in groupby(targets.blocks, key=lambda block: block.stack)]
    modules = [[block.module for block in stack] for stack in stacks]
    probe = {key: value[:_PROBE_ROWS, :_PROBE_TOKENS] for key, value in batches[0].items()}
    with watch_inputs(targets.blocks) as together:
        wirings = learn_wiring(model, modules, probe)
    outputs: list[list[torch.Tensor]] = []
    index = 0
    for number, stack in enumerate(stacks):
        ended = [
            (modules[earlier], wirings[earlier], [precision.handed_on(hidden) for hidden in outputs[earlier]])
            for earlier in range(number)
        ]
        hidden, calls = _enter(model, modules[number], wirings[number], ended, batches)
        extras: list[tuple[Any, ...]] = [()] * len(batches)
        for position, block in enumerate(stack):
            here = [taken[position] for taken in calls]
            yield Step(index, block, hidden, extras, here, wirings[number][position], together, precision, heap)
            index += 1
        outputs.append(hidden)


def _enter(
    model: nn.Module,
    stack: Sequence[nn.Module],
    wiring: Sequence[Wiring],
    ended: Sequence[tuple[Sequence[nn.Module], Sequence[Wiring], Sequence[torch.Tensor]]],
    batches: Sequence[Batch],
) -> tuple[list[torch.Tensor], list[list[Call]]]:
    """Returns what enters a stack and its blocks' other arguments, batch by batch.

    In a function of its own, so that no name is left that keeps what entered after the first block is done with it.
    """
    hidden: list[torch.Tensor] = []
    calls: list[list[Call]] = []
    pool = Pool()
    for number, batch in enumerate(batches):
        finished = [
            (module, wired, outputs[number])
            for modules, wirings, outputs in ended
            for module, wired in zip(modules, wirings, strict=True)
        ]
        entered, taken = capture_calls(model, stack, wiring, finished, batch, pool)
        hidden.append(entered)
        calls.append(taken)
    return hidden, calls
