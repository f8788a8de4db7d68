"""The output head, run in float32 and only at the positions that are scored.

A model in bfloat16 rounds its logits to steps of up to 0.25: two options tie, log-probabilities are off by 0.4 nats.
Here the head's product is taken in float32 from the last hidden states, whatever follows it in the model's forward
(soft capping, scaling, a bias) then works on float32 too, and rows that nobody scores (padding, the prompt) never meet
the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

SLICE_BYTES = 1 << 26
"""Largest float32 copy of a part of the head's weight held at once (64 MiB)."""


def plain_head(model: Any) -> nn.Linear | None:
    """Return a model's output layer; None where it is no plain linear layer (quantised, wrapped, none at all)."""
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    return head if type(head) is nn.Linear else None


@contextmanager
def forwarding(head: nn.Linear, forward: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Give a layer another forward for a while; accelerate goes on bringing the weights in around it."""
    own = vars(head)
    slot = "_old_forward" if "_old_forward" in own else "forward"  # where accelerate keeps a module's own forward
    before = own.get(slot)
    own[slot] = forward
    try:
        yield
    finally:
        if before is None:
            del own[slot]
        else:
            own[slot] = before


class ScoredHead:
    """Stands in for a model's head while it scores.

    Args:
        model: A transformers model; its head is left alone where it is no plain linear layer.
    """

    def __init__(self, model: Any) -> None:
        self._head = plain_head(model)

    @contextmanager
    def at(self, positions: torch.Tensor | None = None) -> Iterator[None]:
        """Give the model a head that returns float32 logits at some positions alone.

        Args:
            positions: Numbers (n,) of the positions wanted, counted over the flattened (rows x length); None for all.
                The model's logits are then (1, n, vocabulary); see `select` for heads that are left alone.
        """
        head = self._head
        if head is None:
            yield
            return

        def forward(hidden: torch.Tensor) -> torch.Tensor:
            if positions is not None:
                hidden = hidden.reshape(-1, hidden.shape[-1])[positions.to(hidden.device)][None]
            return linear_float32(hidden, head.weight, head.bias)

        with forwarding(head, forward):
            yield

    def select(self, logits: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return logits (n, vocabulary) in float32 at the positions, whether or not the head has chosen them."""
        flat = logits.reshape(-1, logits.shape[-1])
        return flat if self._head is not None else flat[positions.to(flat.device)].float()


def linear_float32(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return hidden (..., in) @ weight (out, in).T + bias in float32, without a float32 copy of the whole weight."""
    with torch.autocast(device_type=hidden.device.type, enabled=False):
        hidden = hidden.float()
        if weight.dtype == torch.float32:
            return nn.functional.linear(hidden, weight, bias)
        out = torch.empty((*hidden.shape[:-1], weight.shape[0]), dtype=torch.float32, device=hidden.device)
        step = max(1, SLICE_BYTES // (4 * weight.shape[1]))
        for start in range(0, weight.shape[0], step):
            part = slice(start, start + step)
            out[..., part] = nn.functional.linear(hidden, weight[part].float())
        return out if bias is None else out.add_(bias.float())
