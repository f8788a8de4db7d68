"""Swaps of pruned and kept weights, row by row, that bring a row's expected error towards 0 (DSnoT). Pure.

A mask is bool (out, in), True where a weight is removed; `change` (out, in) is what a weight's removal adds to its
row's error. All rows go through a cycle together.
"""

from __future__ import annotations

import torch


class _Regrown:
    """Which pruned weight comes back next, for rows whose error is above or below 0."""

    def __init__(self, mask: torch.Tensor, change: torch.Tensor, variance: torch.Tensor) -> None:
        value = torch.where(mask, change / variance, 0)
        self._order = value.sort(dim=1, stable=True).indices
        self._last = mask.shape[1] - 1
        self._above, self._below = _Counter((value > 0).sum(dim=1)), _Counter((value < 0).sum(dim=1))

    def next(self, above: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns a column for every row, and whether it is one."""
        position = torch.where(above, self._last - self._above.used, self._below.used)
        found = torch.where(above, self._above.left(), self._below.left())
        self._above.used += above
        self._below.used += ~above
        return self._order.gather(1, position.clamp(0, self._last)[:, None]).squeeze(1), found


class _Pruned:
    """Which kept weight goes next: of the lowest score among those that move the error the right way."""

    def __init__(self, mask: torch.Tensor, change: torch.Tensor, score: torch.Tensor) -> None:
        falling, rising = ~mask & (change < 0), ~mask & (change > 0)
        self._falling, self._rising = (
            score.masked_fill(~allowed, torch.inf).sort(dim=1, stable=True).indices for allowed in (falling, rising)
        )
        self._last = mask.shape[1] - 1
        self._above, self._below = _Counter(falling.sum(dim=1)), _Counter(rising.sum(dim=1))

    def next(self, above: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns a column for every row, and whether it is one."""
        first, second = (counter.used.clamp_max(self._last)[:, None] for counter in (self._above, self._below))
        column = torch.where(above[:, None], self._falling.gather(1, first), self._rising.gather(1, second))
        found = torch.where(above, self._above.left(), self._below.left())
        self._above.used += above
        self._below.used += ~above
        return column.squeeze(1), found


class _Counter:
    """How many candidates of each row have been used."""

    def __init__(self, total: torch.Tensor) -> None:
        self.total = total
        self.used = torch.zeros_like(total)

    def left(self) -> torch.Tensor:
        """Returns the rows that have one left."""
        return self.used < self.total


def swap(
    mask: torch.Tensor, change: torch.Tensor, variance: torch.Tensor, score: torch.Tensor, cycles: int, threshold: float
) -> torch.Tensor:
    """Returns the mask after at most `cycles` swaps a row.

    Args:
        mask: the start mask.
        change: W_ij * mean(x_j), float32.
        variance: (in,) of the inputs, above 0.
        score: by which kept weights go, lowest first.
        cycles: swaps a row at most.
        threshold: abs(e_r) at which a row stops.
    """
    mask = mask.clone()
    error = expected_error(mask, change)
    regrown, pruned = _Regrown(mask, change, variance), _Pruned(mask, change, score)
    going = torch.ones_like(error, dtype=torch.bool)
    for _ in range(cycles):
        back, found = regrown.next(error > 0)
        gone, lost = pruned.next(error > 0)
        going &= found & lost & (error.abs() > threshold)
        if not going.any():
            break
        after = error + _at(change, gone) - _at(change, back)
        error = torch.where(going, after, error)
        _exchange(mask, going, back, gone)
    return mask


def swap_within_runs(
    mask: torch.Tensor,
    change: torch.Tensor,
    variance: torch.Tensor,
    score: torch.Tensor,
    run: int,
    cycles: int,
    threshold: float,
) -> torch.Tensor:
    """Returns the mask after at most `cycles` swaps a row, each within one run of consecutive columns.

    Args:
        mask: the start mask.
        change: W_ij * mean(x_j), float32.
        variance: (in,) of the inputs, above 0.
        score: by which kept weights go, lowest first; whatever its sign of change.
        run: columns of a run.
        cycles: swaps a row at most.
        threshold: abs(e_r) at which a row stops.
    """
    mask = mask.clone()
    error = expected_error(mask, change)
    sign = error.sign()
    regrown = _Regrown(mask, change, variance)
    left = score.masked_fill(mask, torch.inf)
    going = torch.ones_like(error, dtype=torch.bool)
    for _ in range(cycles):
        back, found = regrown.next(error > 0)
        columns = (back - back % run)[:, None] + torch.arange(run, device=back.device)
        lowest, place = left.gather(1, columns).min(dim=1)
        gone = back - back % run + place
        after = error + _at(change, gone) - _at(change, back)
        going &= found & lowest.isfinite() & (after.sign() == sign) & (error.abs() > threshold)
        if not going.any():
            break
        left.scatter_(1, gone[:, None], torch.inf)
        error = torch.where(going, after, error)
        _exchange(mask, going, back, gone)
    return mask


def expected_error(mask: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    """Returns e_r, the sum of W_rj * mean(x_j) over the pruned j of each row: (out,) float32."""
    return torch.where(mask, change, 0).sum(dim=1)


def _at(change: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    return change.gather(1, column[:, None]).squeeze(1)


def _exchange(mask: torch.Tensor, rows: torch.Tensor, back: torch.Tensor, gone: torch.Tensor) -> None:
    chosen = rows.nonzero().squeeze(1)
    mask[chosen, gone[chosen]] = True
    mask[chosen, back[chosen]] = False
