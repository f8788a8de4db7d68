"""Hard-concrete gates (Louizos et al. 2018): random numbers in [0, 1] that are exactly 0 or 1 with some probability."""

from __future__ import annotations

import math

import torch

BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1
"""Temperature, and the ends of the stretched interval."""


def sample(log_alpha: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Returns gates z = clamp(s * (zeta - gamma) + gamma, 0, 1), s = sigmoid((logit(u) + log_alpha) / beta).

    Args:
        log_alpha: (n,) location of each gate.
        uniform: (n,) numbers u strictly between 0 and 1.
    """
    s = torch.sigmoid((torch.logit(uniform) + log_alpha) / BETA)
    return (s * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def open_probability(log_alpha: torch.Tensor) -> torch.Tensor:
    """Returns the probability that each gate is not 0: sigmoid(log_alpha - beta * log(-gamma / zeta))."""
    return torch.sigmoid(log_alpha - BETA * math.log(-GAMMA / ZETA))
