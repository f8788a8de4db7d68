"""The dtype of the calibration forward, where it is not to be the model's own. Statistics are float32 in any case.

"bfloat16": each block runs under autocast. Its products are bfloat16, the stream between blocks stays as it is, and the
weights stay what they are: what is pruned is the stored weight, and later weights of the block see it pruned.
"float32" for a model in half precision: each block's weights are widened while it is at hand; what is pruned is rounded
to the stored dtype at once, so that later weights see what the model will hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from prune_hooks.capture import Call
from prune_hooks.weights import Block, Weight


class Precision:
    """Runs blocks in the asked dtype."""

    def __init__(self, asked: str, stored: torch.dtype, device: torch.device) -> None:
        """Decides what has to be done.

        Args:
            asked: `PruneSpec.calibration_dtype`.
            stored: dtype of the prunable weights.
            device: where the blocks run.
        """
        self.dtype = stored if asked == "model" else getattr(torch, asked)
        """Of the products of a forward."""
        self._stored = stored
        self._device = device.type
        self._widens = self.dtype is torch.float32 and stored is not torch.float32
        self._narrows = self.dtype is not stored and not self._widens

    def forward(self) -> Any:
        """Returns the context in which a block is called."""
        # Without the cache of cast weights: pruning changes them in place, which the cache would not see.
        return torch.autocast(self._device, self.dtype, cache_enabled=False) if self._narrows else nullcontext()

    def call(self, call: Call) -> Call:
        """Returns a block's arguments as it needs them."""
        return Call(_wide(call.args), _wide(call.kwargs)) if self._widens else call

    def handed_on(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns a finished stack's hidden states as the model itself goes on with them."""
        return hidden.to(self._stored)

    @contextmanager
    def at_hand(self, block: Block) -> Iterator[None]:
        """Holds a block's weights as its forward needs them, and puts them back into their own memory."""
        tensors = [*block.module.parameters(), *block.module.buffers()] if self._widens else []
        held = [(t, t.data) for t in tensors if t.is_floating_point() and t.dtype is not torch.float32]
        try:
            for tensor, own in held:
                tensor.data = own.float()
            yield
        finally:
            for tensor, own in held:
                own.copy_(tensor.data)
                tensor.data = own

    def settle(self, weights: Iterable[Weight]) -> None:
        """Rounds weights that were just pruned to the dtype they are stored in."""
        if self._widens:
            for weight in weights:
                matrix = weight.matrix()
                matrix.copy_(matrix.to(self._stored))


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float() if value.is_floating_point() else value
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_wide(item) for item in value)
    if isinstance(value, dict):
        return {key: _wide(item) for key, item in value.items()}
    return value
