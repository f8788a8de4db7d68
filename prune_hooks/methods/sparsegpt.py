"""Method "sparsegpt": prune 128 columns at a time, let the later ones make up for it (Frantar and Alistarh 2023).

With U the upper Cholesky factor of the inverse Hessian, removing w_j costs w_j^2 / U_jj^2 and moves the later weights
of the row by -(w_j / U_jj) U_j,later.
"""

from __future__ import annotations

import torch

from prune_hooks import masks
from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.scores import sparsegpt_score
from prune_hooks.statistics import Needs

BLOCK = 128
"""Columns whose mask is fixed at once."""
DAMPING = 0.01
"""Share of the mean Hessian diagonal added before factorising."""
DAMPING_LIMIT = 1.0
"""Largest share tried, tenfold by tenfold, where the factorisation fails."""
_LAZY = 16
"""Columns updated one by one before the rest of the block is updated by a matrix product."""


@register_method("sparsegpt", needs=Needs.HESSIAN)
def sparsegpt(group: Group) -> list[Outcome]:
    """Removes int(numel * sparsity) weights of every 128 columns x all rows, and updates the rest; all in float32."""
    assert group.statistics is not None
    if group.kept is None and group.sparsity == 0:
        return [Outcome(masked=0) for _ in group.weights]
    factor, dead, damping = group.statistics.inverse_factor(DAMPING, DAMPING_LIMIT)
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        pruned, masked = solve(matrix, factor, dead, group.sparsity, group.kept)
        matrix.copy_(pruned)
        outcomes.append(Outcome(masked=masked, damping=damping))
    return outcomes


def solve(
    weight: torch.Tensor, factor: torch.Tensor, dead: torch.Tensor, sparsity: float, kept: tuple[int, int] | None
) -> tuple[torch.Tensor, int]:
    """Prunes and updates one matrix. Pure.

    Args:
        weight: (out, in), any floating dtype.
        factor: U, (in, in) float32 upper triangular.
        dead: (in,) bool, columns whose input is always zero: they are cleared.
        sparsity: share to remove, without a pattern.
        kept: (n, m), or None.

    Returns:
        The new matrix (out, in) float32, and the number of entries in the mask.
    """
    # Columns become rows, so that each step touches contiguous memory.
    columns = weight.detach().float().T.contiguous()
    columns[dead] = 0
    width = columns.shape[0]
    step = BLOCK if kept is None else max(kept[1], BLOCK // kept[1] * kept[1])
    masked = 0
    for start in range(0, width, step):
        stop = min(start + step, width)
        masked += _solve_block(columns, factor, start, stop, sparsity, kept)
    return columns.T, masked


def _solve_block(
    columns: torch.Tensor, factor: torch.Tensor, start: int, stop: int, sparsity: float, kept: tuple[int, int] | None
) -> int:
    block = columns[start:stop]
    inner = factor[start:stop, start:stop]
    diagonal = inner.diagonal()
    errors = torch.empty_like(block)
    count = stop - start
    masked = 0
    mask = torch.zeros_like(block, dtype=torch.bool)
    if kept is None:
        mask = masks.matrix_mask(sparsegpt_score(block.T, diagonal), sparsity).T.contiguous()
        masked = int(mask.sum())
    run = _LAZY if kept is None else kept[1]
    scale = diagonal.reciprocal().tolist()
    for low in range(0, count, run):
        high = min(low + run, count)
        if kept is not None:
            # The scores of a run see all updates from the columns before it, as published.
            mask[low:high] = masks.run_mask(sparsegpt_score(block[low:high].T, diagonal[low:high]), *kept).T
            masked += int(mask[low:high].sum())
        for column in range(low, high):
            error = torch.mul(block[column] * mask[column], scale[column], out=errors[column])
            block[column + 1 : high].addr_(inner[column, column + 1 : high], error, alpha=-1)
        block[low:high].masked_fill_(mask[low:high], 0)
        block[high:].addmm_(inner[low:high, high:].T, errors[low:high], alpha=-1)
    columns[stop:].addmm_(factor[start:stop, stop:].T, errors, alpha=-1)
    return masked
