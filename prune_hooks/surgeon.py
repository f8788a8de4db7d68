"""Exact optimal brain surgery on many rows at once (Optimal Brain Compression, Frantar and Alistarh 2022). Pure.

Rows of a weight matrix lose their weights one at a time: with Q the inverse Hessian of the weights left, the next to go
is the lowest w_j^2 / Q_jj, the others move by -(w_j / Q_jj) Q_j, and Q becomes Q - Q_j Q_j^T / Q_jj. Each row has a Q
of its own. It is not updated step by step: the vectors Q_j / sqrt(Q_jj) of a window of steps are kept, from which the
diagonal and the one row a step needs are had, and applied in one product when the removed columns are dropped from Q.

The trace is the order of removal and each step's loss. The weights that belong to any point of it need no trace of
their own: they are the least-squares optimum on what is left, found by one solve a row.
"""

from __future__ import annotations

import torch

WINDOW = 128
"""Steps before the update of Q is applied."""


def trace(
    weights: torch.Tensor, inverse: torch.Tensor, kept: tuple[int, int] | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Removes weights one at a time from every row, all of them or as many as an n:m pattern lets go.

    Args:
        weights: (rows, in) float32.
        inverse: (in, in) float32, the inverse Hessian of all rows.
        kept: (n, m), or None.

    Returns:
        (rows, steps): the column removed at each step, int64, and its loss w_j^2 / Q_jj, float32. Of equal losses the
        lower column goes first.
    """
    rows, width = weights.shape
    steps = width if kept is None else width // kept[1] * (kept[1] - kept[0])
    device = weights.device
    order = torch.empty(rows, steps, dtype=torch.int64, device=device)
    losses = torch.empty(rows, steps, device=device)
    each = torch.arange(rows, device=device)
    columns = torch.arange(width, device=device).expand(rows, width)
    closed = torch.zeros(rows, width, dtype=torch.bool, device=device)
    taken = torch.zeros(rows, width // kept[1] if kept else 0, dtype=torch.int64, device=device)
    current, state = weights.clone(), inverse.expand(rows, width, width)
    done = 0
    while done < steps:
        window = min(WINDOW, steps - done)
        moves = torch.empty(rows, window, columns.shape[1], device=device)
        diagonal = state.diagonal(dim1=1, dim2=2).clone()
        for step in range(window):
            score = (current.square() / diagonal).masked_fill_(closed, torch.inf)
            loss, place = score.min(dim=1)
            pivot = state[each, place]
            if step:
                earlier = moves[:, :step]
                pivot = torch.baddbmm(pivot[:, None], earlier[each, :, place][:, None], earlier, alpha=-1).squeeze(1)
            root = diagonal[each, place].sqrt()
            move = torch.div(pivot, root[:, None], out=moves[:, step])
            current -= move * (current[each, place] / root)[:, None]
            # A pivot is at least 1 / H_jj; rounding alone can bring it to 0.
            diagonal.addcmul_(move, move, value=-1).clamp_min_(torch.finfo(torch.float32).tiny)
            closed[each, place] = True
            order[:, done + step], losses[:, done + step] = columns[each, place], loss
            if kept is not None:
                run = columns[each, place] // kept[1]
                taken[each, run] += 1
                full = taken[each, run] == kept[1] - kept[0]
                closed |= full[:, None] & (columns // kept[1] == run[:, None])
        done += window
        if done < steps:
            left = int((~closed).sum(dim=1).max())
            places = closed.sort(dim=1, stable=True).indices[:, :left].sort(dim=1).values
            current, closed, columns = (values.gather(1, places) for values in (current, closed, columns))
            state = _reduced(state, places, moves)
    return order, losses


def _reduced(state: torch.Tensor, places: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
    """Returns Q with a window's update applied, on the columns `places` (rows, left) that are kept of each row.

    Each row's new Q is written over its old one, as fresh memory would cost as much as the product.
    """
    rows, left = places.shape
    shared = state.stride(0) == 0
    room = torch.empty(rows, left * left, device=state.device) if shared else state.flatten(1)[:, : left * left]
    smaller = room.view(rows, left, left)
    lines = torch.empty(left, state.shape[2], device=state.device)
    for old, new, place, moved in zip(state, smaller, places, moves, strict=True):
        torch.index_select(old, 0, place, out=lines)
        torch.index_select(lines, 1, place, out=new)
        small = moved.index_select(1, place)
        new.addmm_(small.T, small, alpha=-1)
    return smaller


def refit(weights: torch.Tensor, inverse: torch.Tensor, order: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Returns the rows with the first of `order` removed and the others at their optimum, solved in float64.

    Args:
        weights: (rows, in) float32, dense.
        inverse: (in, in) float32, the inverse Hessian.
        order: (rows, steps) columns in the order they go.
        counts: (rows,) how many of them go.

    Returns:
        (rows, in) float32: w - Q_P (Q_PP)^-1 w_P, where P is what goes.
    """
    most = int(counts.max()) if counts.numel() else 0
    if most == 0:
        return weights.clone()
    gone = order[:, :most]
    unused = torch.arange(most, device=order.device) >= counts[:, None]
    wide = inverse.double()
    system = wide[gone[:, :, None], gone[:, None, :]]
    system.masked_fill_(unused[:, :, None] | unused[:, None, :], 0)
    system.diagonal(dim1=1, dim2=2).masked_fill_(unused, 1)
    values = weights.double().gather(1, gone).masked_fill_(unused, 0)
    shares = torch.cholesky_solve(values[:, :, None], torch.linalg.cholesky(system)).squeeze(2)
    share = torch.zeros_like(weights, dtype=torch.float64).scatter_add_(1, gone, shares)
    mask = torch.zeros_like(weights, dtype=torch.bool).scatter_(1, gone, ~unused)
    return (weights.double() - share @ wide).masked_fill_(mask, 0).float()
