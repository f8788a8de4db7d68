"""One question that is asked of many large tensors, in one pass and without a copy."""

from __future__ import annotations

import math

import torch


def all_finite(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor of any floating dtype holds neither NaN nor infinities: its extremes say so."""
    return not tensor.numel() or all(math.isfinite(float(extreme)) for extreme in torch.aminmax(tensor))
