"""Method "wanda_variant": Wanda with rows that lose different numbers of weights (Sun et al. 2023, `--use_variant`).

Every row loses its lowest scores until their sum exceeds the share alpha of the row's scores. The published code finds
alpha by bisection until the matrix has the asked sparsity within 0.001. The limit of that bisection is had directly: an
entry goes when the sum up to it, as a share of its row's, is among the int(numel * sparsity) lowest of the matrix.
"""

from __future__ import annotations

import torch

from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.scores import wanda_score
from prune_hooks.statistics import Needs
from prune_hooks.zeros import erase


@register_method("wanda_variant", needs=Needs.NORMS)
def wanda_variant(group: Group) -> list[Outcome]:
    """Removes int(numel * sparsity) weights of every matrix; with an n:m pattern it is Wanda, as published."""
    assert group.statistics is not None
    mean_square = group.statistics.mean_square()
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        score = wanda_score(matrix, mean_square)
        mask = group.choose(score if group.kept is not None else cumulative_share(score), within="matrix")
        erase(matrix, mask)
        outcomes.append(Outcome(masked=int(mask.count_nonzero())))
    return outcomes


def cumulative_share(score: torch.Tensor) -> torch.Tensor:
    """Returns for every entry the sum of its row's scores up to it, lowest first, as a share of all the row's.

    Args:
        score: (out, in) float32, not negative.

    Returns:
        (out, in) float32 from 0 to 1; 0 throughout a row of zeros.
    """
    ranked, order = score.sort(dim=1, stable=True)
    sums = ranked.double().cumsum(dim=1)
    shares = sums / sums[:, -1:].clamp_min(torch.finfo(torch.float64).tiny)
    return torch.empty_like(score).scatter_(1, order, shares.float())
