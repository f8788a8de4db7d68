"""RMS norms without a gain of their own: the gain goes into the matrices that read the norm's output."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from prune_hooks.errors import PruneError


class PlainRMSNorm(nn.Module):
    """x / sqrt(sum x_j^2 / width + eps) in float32, no gain; `width` stays the dense model's when x is narrower."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.width = width
        self.eps = eps

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Normalises (..., kept) over the last dimension."""
        x = hidden.float()
        scale = torch.rsqrt(x.square().sum(-1, keepdim=True) / self.width + self.eps)
        return (x * scale).to(hidden.dtype)


def gain_of(name: str, norm: Any) -> torch.Tensor:
    """Returns an RMS norm's gain (width,) float64: its weight, or 1 + weight in Gemma's manner.

    Which of the two is seen from what the norm does to a vector of ones.

    Raises:
        PruneError: for a norm that does neither: one with a bias, or that subtracts the mean.
    """
    weight: torch.Tensor = norm.weight.detach()
    stored = weight.double()
    made = norm(torch.ones_like(weight)).double()
    gains: tuple[torch.Tensor, ...] = (stored, 1 + stored)
    for gain in gains:
        if torch.allclose(made * (1 + eps_of(norm)) ** 0.5, gain, rtol=1e-2, atol=1e-3):
            return gain
    raise PruneError(
        f"{name} ({type(norm).__name__}) multiplies by neither its weight nor 1 + weight: expected an RMS norm without "
        "mean or bias; use method=heads"
    )


def eps_of(norm: Any) -> float:
    """Returns the number an RMS norm adds to the mean square."""
    return float(norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps)


def plain(norm: Any) -> PlainRMSNorm:
    """Returns the norm without its gain."""
    made = PlainRMSNorm(norm.weight.shape[0], eps_of(norm))
    made.training = norm.training
    return made
