"""Weights and statistics to scores. Pure; every score is float32 (out, in), and the lowest goes first."""

from __future__ import annotations

import hashlib

import torch


def magnitude_score(weight: torch.Tensor) -> torch.Tensor:
    """Returns abs(W_ij) (Han et al. 2015)."""
    return weight.float().abs()


def wanda_score(weight: torch.Tensor, mean_square: torch.Tensor) -> torch.Tensor:
    """Returns abs(W_ij) * sqrt(mean over tokens of x_j^2) (Sun et al. 2023).

    Args:
        weight: (out, in).
        mean_square: (in,) float32.
    """
    return weight.float().abs() * mean_square.sqrt()


def mwanda_score(
    weight: torch.Tensor, mean_square: torch.Tensor, spread: torch.Tensor, activity: torch.Tensor, lam: float, g: float
) -> torch.Tensor:
    """Returns abs(W_ij) * (sqrt(mean_l n_jl^2) + lambda * std_l n_jl) * p_j^g, our reading of M-Wanda.

    Args:
        weight: (out, in).
        mean_square: (in,) float32, mean of x_j^2 over all tokens: that of n_jl^2, each language weighing its tokens.
        spread: (in,) standard deviation of n_jl over languages.
        activity: (in,) share of tokens that activate a channel.
        lam: lambda.
        g: power of the activity.
    """
    return weight.float().abs() * ((mean_square.sqrt() + lam * spread) * activity**g)


def ria_score(weight: torch.Tensor, mean_square: torch.Tensor, power: float) -> torch.Tensor:
    """Returns (abs(W_ij)/sum_i abs(W_ij) + abs(W_ij)/sum_j abs(W_ij)) * norm_j^power (Zhang et al., ICLR 2024).

    Args:
        weight: (out, in).
        mean_square: (in,) float32, the squared norms.
        power: 0.5 as published.
    """
    size = weight.float().abs()
    columns, rows = size.sum(dim=0), size.sum(dim=1, keepdim=True)
    # A row or column of zeros has zero scores, whatever they are divided by.
    shares = size / torch.where(columns > 0, columns, 1) + size / torch.where(rows > 0, rows, 1)
    return shares * mean_square.sqrt() ** power


def sparsegpt_score(weight: torch.Tensor, diagonal: torch.Tensor) -> torch.Tensor:
    """Returns W_ij^2 / U_jj^2 (Frantar and Alistarh 2023).

    Args:
        weight: (out, columns) float32.
        diagonal: (columns,) the diagonal of U, the upper Cholesky factor of the inverse Hessian.
    """
    return weight.square() / diagonal.square()


def random_score(name: str, seed: int, shape: torch.Size, device: torch.device) -> torch.Tensor:
    """Returns uniform random scores that depend on the weight's name and the seed alone, the same on every device."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return torch.rand(shape, generator=generator).to(device)
