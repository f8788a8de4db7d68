"""Scores to masks: which entries go, by rank. Pure; counts are exact and ties fall to the lower index.

A mask is a bool tensor, True where a weight is removed. Scores are float32, lower goes first, never NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

_DIGITS = (11, 11, 10)
"""Bits of a float32 read in each pass of the radix selection."""


def removed(total: int, sparsity: float) -> int:
    """Returns how many of `total` entries go: int(total * sparsity), the published rounding."""
    return int(total * sparsity)


def row_mask(score: torch.Tensor, sparsity: float) -> torch.Tensor:
    """Removes the int(in * sparsity) lowest entries of every row of `score` (out, in)."""
    return lowest(score, removed(score.shape[1], sparsity))


def matrix_mask(score: torch.Tensor, sparsity: float) -> torch.Tensor:
    """Removes the int(numel * sparsity) lowest entries of `score` (out, in), ties in row-major order."""
    count = removed(score.numel(), sparsity)
    if 0 < count < score.numel():
        # A rank does not depend on the order of what is ranked: read as it lies in memory.
        mask = score <= of_rank((score if score.stride(1) == 1 else score.T).reshape(1, -1), count)
        if int(mask.count_nonzero()) == count:
            return mask
    return lowest(score.reshape(1, -1), count).reshape(score.shape)


def run_mask(score: torch.Tensor, keep: int, run: int) -> torch.Tensor:
    """Keeps `keep` entries in every `run` consecutive columns of `score` (out, in); in must be a multiple of `run`."""
    groups = score.reshape(score.shape[0], -1, run)
    rank = torch.zeros(groups.shape, dtype=torch.int16, device=score.device)
    position = torch.arange(run, device=score.device)
    for other in range(run):
        rival = groups[..., other : other + 1]
        # An equal rival goes first if it stands earlier.
        rank += torch.where(position > other, rival <= groups, rival < groups)
    return (rank < run - keep).reshape(score.shape)


def lowest(score: torch.Tensor, count: int) -> torch.Tensor:
    """Marks the `count` lowest entries of every row of `score` (rows, n), as a stable ascending sort would."""
    if count <= 0:
        return torch.zeros_like(score, dtype=torch.bool)
    if count >= score.shape[1]:
        return torch.ones_like(score, dtype=torch.bool)
    limit = of_rank(score, count)
    mask = score <= limit
    surplus = mask.view(torch.uint8).sum(dim=1, dtype=torch.int32) > count
    if surplus.any():
        rows, limit = score[surplus], limit[surplus]
        below, tied = rows < limit, rows == limit
        wanted = count - below.count_nonzero(dim=1)[:, None]
        mask[surplus] = below | (tied & (tied.cumsum(dim=1) <= wanted))
    return mask


def of_rank(score: torch.Tensor, count: int) -> torch.Tensor:
    """Returns the `count`-th lowest value of every row of `score` (rows, n) as (rows, 1).

    On the CPU by NumPy's selection, which is vectorised: ten times as fast as kthvalue there.
    """
    if score.device.type != "cpu":
        return score.kthvalue(count, dim=1, keepdim=True).values
    ranked = np.partition(score.float().numpy(), count - 1, axis=1)[:, count - 1 : count]
    return torch.from_numpy(ranked.copy())


def global_limit(scores: Sequence[Callable[[], torch.Tensor]], count: int) -> tuple[float, int]:
    """Finds the `count`-th lowest of many tensors without ever holding more than one of them.

    Radix selection: non-negative float32 values order as their bit patterns do, so three histogram passes fix all 32
    bits.

    Args:
        scores: functions that each return one non-negative float32 tensor, in index order.
        count: at least 1, at most the number of all entries.

    Returns:
        The value of that rank, and how many entries equal to it are to go, counted from the first.
    """
    prefix, left, shift = 0, count, 32
    for bits in _DIGITS:
        shift -= bits
        histogram: torch.Tensor | None = None
        for score in scores:
            pattern = score().reshape(-1).view(torch.int32)
            digit = (pattern >> shift) & ((1 << bits) - 1)
            if shift + bits < 32:
                digit = digit[(pattern >> (shift + bits)) == prefix]
            counts = torch.bincount(digit, minlength=1 << bits).cpu()
            histogram = counts if histogram is None else histogram + counts
        assert histogram is not None
        cumulative = histogram.cumsum(0)
        found = int(torch.searchsorted(cumulative, left))
        left -= int(cumulative[found] - histogram[found])
        prefix = (prefix << bits) | found
    value = torch.tensor(prefix, dtype=torch.int64).to(torch.int32).view(torch.float32)
    return float(value), left


def up_to_limit(score: torch.Tensor, limit: float, ties: int) -> tuple[torch.Tensor, int]:
    """Marks what lies below `limit` and the first `ties` entries equal to it.

    Returns:
        The mask, and how many ties are left for the tensors that follow.
    """
    tied = score == limit
    used = min(ties, int(tied.sum()))
    if used < int(tied.sum()):
        flat = tied.reshape(-1)
        tied = (flat & (flat.cumsum(0) <= used)).reshape(score.shape)
    return (score < limit) | tied, ties - used
