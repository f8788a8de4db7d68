"""Method "sparsegpt": prune 128 columns at a time, let the later ones make up for it (Frantar and Alistarh 2023).

With U the upper Cholesky factor of the inverse Hessian, removing w_j costs w_j^2 / U_jj^2 and moves the later weights
of the row by -(w_j / U_jj) U_j,later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch

from prune_hooks import masks
from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.scores import sparsegpt_score
from prune_hooks.statistics import Needs
from prune_hooks.zeros import erase

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
    """Removes int(numel * sparsity) weights of every 128 columns x all rows, and updates the rest; all in float32.

    Matrices that read the same input are solved side by side, each with a threshold of its own.
    """
    assert group.statistics is not None
    if group.kept is None and group.sparsity == 0:
        return [Outcome(masked=0) for _ in group.weights]
    factor, dead, damping = group.statistics.inverse_factor(DAMPING, DAMPING_LIMIT)
    matrices = [weight.matrix() for weight in group.weights]
    outcomes = []
    for matrix, (pruned, masked) in zip(
        matrices, solve(matrices, factor, dead, group.sparsity, group.kept), strict=True
    ):
        matrix.copy_(pruned)
        outcomes.append(Outcome(masked=masked, damping=damping))
    return outcomes


def solve(
    weights: Sequence[torch.Tensor],
    factor: torch.Tensor,
    dead: torch.Tensor,
    sparsity: float,
    kept: tuple[int, int] | None,
) -> list[tuple[torch.Tensor, int]]:
    """Prunes and updates matrices that read the same input. Pure.

    Args:
        weights: (out, in) each, any floating dtype.
        factor: U, (in, in) float32 upper triangular.
        dead: (in,) bool, columns whose input is always zero: they are cleared.
        sparsity: share to remove, without a pattern.
        kept: (n, m), or None.

    Returns:
        For each matrix the new one (out, in) float32, and the number of entries in its mask.
    """
    # Columns become rows, so that each step touches contiguous memory.
    columns = torch.cat([weight.detach().T.float() for weight in weights], dim=1)
    columns[dead] = 0
    width = columns.shape[0]
    ends = list(accumulate(weight.shape[0] for weight in weights))
    parts = [slice(*ends) for ends in pairwise([0, *ends])]
    masked = [0] * len(parts)
    step = BLOCK if kept is None else max(kept[1], BLOCK // kept[1] * kept[1])
    for start in range(0, width, step):
        mask = _solve_block(columns, factor, start, min(start + step, width), parts, sparsity, kept)
        masked = [count + int(mask[:, part].count_nonzero()) for count, part in zip(masked, parts, strict=True)]
    return [(columns[:, part].T, count) for part, count in zip(parts, masked, strict=True)]


def _solve_block(
    columns: torch.Tensor,
    factor: torch.Tensor,
    start: int,
    stop: int,
    parts: Sequence[slice],
    sparsity: float,
    kept: tuple[int, int] | None,
) -> torch.Tensor:
    """Prunes columns `start` to `stop` and updates the later ones; returns the mask, laid out like `columns`."""
    block = columns[start:stop]
    inner = factor[start:stop, start:stop]
    diagonal = inner.diagonal()
    errors = torch.empty_like(block)
    count = stop - start
    mask = torch.empty_like(block, dtype=torch.bool)
    if kept is None:
        score = sparsegpt_score(block.T, diagonal)
        for part in parts:
            mask[:, part] = masks.matrix_mask(score[part], sparsity).T
    run = _LAZY if kept is None else kept[1]
    values, moved = block.unbind(), errors.unbind()
    for low in range(0, count, run):
        high = min(low + run, count)
        if kept is not None:
            # The scores of a run see all updates from the columns before it, as published.
            mask[low:high] = masks.run_mask(sparsegpt_score(block[low:high].T, diagonal[low:high]), *kept).T
        shares = (mask[low:high] / diagonal[low:high, None]).unbind()
        for column in range(low, high):
            value = values[column]
            if column > low:
                value.addmv_(errors[low:column].T, inner[low:column, column], alpha=-1)
            torch.mul(value, shares[column - low], out=moved[column])
        erase(block[low:high], mask[low:high])
        block[high:].addmm_(inner[low:high, high:].T, errors[low:high], alpha=-1)
    columns[stop:].addmm_(factor[start:stop, stop:].T, errors, alpha=-1)
    return mask
