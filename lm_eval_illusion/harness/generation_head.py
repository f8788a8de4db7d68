"""The output head for a few rows at a time, on a CPU.

Most of a decoding step is the head's product: the vocabulary is large, the rows are few. MKL's float32 product of 2 to
10 rows with a tall weight takes 1.1 to 3.7 times as long as the same product turned round (seen with torch 2.13 on a
Xeon with AVX-512; one row and bfloat16 are not slow). The numbers differ in rounding alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

from lm_eval_illusion.harness.head import forwarding, plain_head

FEWEST_ROWS, MOST_ROWS = 2, 10
"""Rows for which the product is turned round."""


@contextmanager
def turned_head(model: Any) -> Iterator[None]:
    """Let a model's head take a few float32 rows the quicker way; a head of another kind is left alone.

    Args:
        model: A transformers model.
    """
    head = plain_head(model)
    if head is None or {"forward", "_old_forward"} & vars(head).keys() or not _is_slow(head.weight):
        yield  # not plain, or accelerate brings its weight in
        return
    weight, bias = head.weight, head.bias

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        rows = hidden.numel() // hidden.shape[-1]
        if not FEWEST_ROWS <= rows <= MOST_ROWS or torch.is_autocast_enabled("cpu"):
            return functional.linear(hidden, weight, bias)
        return turned_linear(hidden, weight, bias)

    with forwarding(head, forward):
        yield


def turned_linear(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return `linear(hidden, weight, bias)`, computed as the weight times the rows.

    Args:
        hidden: (..., size).
        weight: (vocabulary, size).
        bias: (vocabulary,) or None.

    Returns:
        (..., vocabulary).
    """
    flat = hidden.reshape(-1, hidden.shape[-1])
    logits = torch.mm(weight, flat.t()).t()
    if bias is not None:
        logits = logits + bias
    return logits.reshape(*hidden.shape[:-1], weight.shape[0])


def _is_slow(weight: torch.Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and torch._C.has_mkl
