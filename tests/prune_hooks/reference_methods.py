"""The further methods written down a second time, slowly and plainly, to be compared with.

Beside reference.py, whose walk, selection and statistics they use; nothing of the package under test. Each is a
function (weight, inputs, sparsity, pattern) -> pruned weight, as there.
"""

from unittest import mock

import numpy as np
import torch

from tests.prune_hooks import reference


def ria(weight, inputs, sparsity, pattern, power=0.5):
    size = weight.abs()
    by_column = size / size.sum(dim=0, keepdim=True)
    by_row = size / size.sum(dim=1, keepdim=True)
    score = (by_column + by_row) * reference.mean_square(inputs).sqrt() ** power
    return weight.masked_fill(whole_or_runs(score, sparsity, pattern), 0.0)


def whole_or_runs(score, sparsity, pattern):
    if pattern:
        return reference.mask_runs(score, *pattern)
    number = reference.count(score.numel(), sparsity)
    return torch.from_numpy(reference.lowest(score.numpy().reshape(-1), number)).reshape(score.shape)


def wanda_variant(weight, inputs, sparsity, pattern):
    """Per row the lowest scores go while their sum is at most alpha times the row's; alpha by bisection."""
    score = reference.wanda_score(weight, reference.mean_square(inputs))
    if pattern:
        return weight.masked_fill(reference.mask_runs(score, *pattern), 0.0)
    number, low, high = reference.count(score.numel(), sparsity), 0.0, 1.0
    mask = variant_mask(score, 0.0)
    while mask.sum() != number and high - low > 1e-15:
        alpha = (low + high) / 2
        mask = variant_mask(score, alpha)
        low, high = (alpha, high) if mask.sum() < number else (low, alpha)
    return weight.masked_fill(torch.from_numpy(mask), 0.0)


def variant_mask(score, alpha):
    mask = np.zeros(tuple(score.shape), dtype=bool)
    for i, row in enumerate(score.double().numpy()):
        order = np.argsort(row, kind="stable")
        sums = np.cumsum(row[order])
        mask[i, order[sums <= alpha * sums[-1]]] = True
    return mask


def start_score(start, weight, inputs):
    squares = reference.mean_square(inputs)
    if start == "magnitude":
        return weight.abs()
    if start == "ria":
        size = weight.abs()
        return (size / size.sum(dim=0) + size / size.sum(dim=1, keepdim=True)) * squares.sqrt() ** 0.5
    if start == "sparsegpt":
        factor = reference.inverse_factor(reference.hessian(inputs), 0.01)
        return weight**2 / factor.diagonal() ** 2
    return reference.wanda_score(weight, squares)


def dsnot(weight, inputs, sparsity, pattern, start="wanda", cycles=50, threshold=0.1):
    """Row by row, one swap at a time."""
    x = torch.cat(inputs)
    means = x.sum(dim=0) / len(x)
    variances = (reference.mean_square(inputs) - means**2).clamp(min=1e-30)
    score = start_score(start, weight, inputs)
    mask = reference.mask_runs(score, *pattern) if pattern else reference.mask_rows(score, sparsity)
    going = score if pattern else reference.wanda_score(weight, reference.mean_square(inputs))
    refine = refine_in_runs if pattern else refine_row
    for i in range(len(weight)):
        change = (weight[i] * means).numpy()
        keys = (change / variances.numpy(), going[i].numpy())
        mask[i] = torch.from_numpy(refine(mask[i].numpy(), change, *keys, cycles, threshold, pattern))
    return weight.masked_fill(mask, 0.0)


def refine_row(start, change, regrow, score, cycles, threshold, _pattern):
    mask, error = start.copy(), change[start].sum()
    came, went = set(), set()
    for _ in range(cycles):
        if abs(error) <= threshold:
            break
        sign = 1 if error > 0 else -1
        back = [j for j in np.flatnonzero(start) if j not in came and change[j] * sign > 0]
        gone = [j for j in np.flatnonzero(~start) if j not in went and change[j] * sign < 0]
        if not back or not gone:
            break
        # The published order is ascending, read from its end for positive errors: of equals the last.
        b = max(back, key=lambda j: (regrow[j], j)) if sign > 0 else min(back, key=lambda j: (regrow[j], j))
        g = min(gone, key=lambda j: (score[j], j))
        mask[b], mask[g] = False, True
        error += change[g] - change[b]
        came.add(b)
        went.add(g)
    return mask


def refine_in_runs(start, change, regrow, score, cycles, threshold, pattern):
    mask, error = start.copy(), change[start].sum()
    first = np.sign(error)
    came, went = set(), set()
    for _ in range(cycles):
        if abs(error) <= threshold:
            break
        sign = 1 if error > 0 else -1
        back = [j for j in np.flatnonzero(start) if j not in came and change[j] * sign > 0]
        if not back:
            break
        b = max(back, key=lambda j: (regrow[j], j)) if sign > 0 else min(back, key=lambda j: (regrow[j], j))
        run = range(b // pattern[1] * pattern[1], (b // pattern[1] + 1) * pattern[1])
        gone = [j for j in run if not start[j] and j not in went]
        if not gone:
            break
        g = min(gone, key=lambda j: (score[j], j))
        if np.sign(error + change[g] - change[b]) != first:
            break
        mask[b], mask[g] = False, True
        error += change[g] - change[b]
        came.add(b)
        went.add(g)
    return mask


def obs(weight, inputs, sparsity, pattern):
    """Weights go one by one in every row, with the inverse Hessian updated each time; all in float64."""
    w, h = weight.double().numpy().copy(), reference.hessian(inputs).double()
    dead = (h.diagonal() == 0).numpy()
    w[:, dead] = 0
    h[dead, dead] = 1
    h += 0.01 * h.diagonal().mean() * torch.eye(len(h))
    inverse = torch.linalg.inv(h).numpy()
    rows, columns = w.shape
    losses, states = np.full((rows, columns), np.inf), np.zeros((rows, columns + 1, columns))
    for i in range(rows):
        row, q, left = w[i].copy(), inverse.copy(), np.ones(columns, dtype=bool)
        states[i, 0] = row
        for step in range(columns):
            allowed = left.copy()
            if pattern:
                for j in range(0, columns, pattern[1]):
                    if (~left[j : j + pattern[1]]).sum() >= pattern[1] - pattern[0]:
                        allowed[j : j + pattern[1]] = False
            if not allowed.any():
                break
            score = np.where(allowed, row**2 / np.where(allowed, np.diag(q), 1), np.inf)
            j = int(np.argmin(score))
            losses[i, step] = score[j]
            row = row - row[j] / q[j, j] * q[j]
            q = q - np.outer(q[j], q[j]) / q[j, j]
            left[j] = False
            row[~left] = 0
            states[i, step + 1] = row
    if pattern:
        steps = np.full(rows, columns // pattern[1] * (pattern[1] - pattern[0]))
    else:
        number = reference.count(rows * columns, sparsity)
        steps = reference.lowest(losses.reshape(-1), number).reshape(rows, columns).sum(axis=1)
    return torch.from_numpy(np.stack([states[i, steps[i]] for i in range(rows)])).float()


def alps(weight, inputs, sparsity, pattern, rounds=300, rho=0.1):
    """ADMM, then conjugate gradients on the support, in float64."""
    x = torch.cat(inputs).double()
    gram = x.T @ x
    gram += 0.01 * gram.diagonal().mean() * torch.eye(len(gram))
    norms = gram.diagonal().sqrt()
    gram = gram / norms[:, None] / norms[None, :]
    dense = weight.double() * norms
    target = dense @ gram
    start = whole_or_runs(dense**2, sparsity, pattern)
    kept = int((~start).sum())
    d, v, seen, grows = torch.where(start, 0, dense), torch.zeros_like(dense), start, False
    for i in range(rounds):
        b = torch.linalg.solve(gram + rho * torch.eye(len(gram)), (target - v + rho * d).T).T
        mask = whole_or_runs((b + v / rho) ** 2, sparsity, pattern)
        d = torch.where(mask, 0, b + v / rho)
        v = v + rho * (b - d)
        if (i + 1) % 3:
            continue
        change = int((mask != seen).sum())
        seen = mask
        if change > 0.1 * kept:
            rho, grows = rho * 1.3, True
        elif change > 0.005 * kept:
            rho, grows = rho * 1.2, True
        elif change and grows:
            rho *= 1.1
        elif change:
            rho, b, d, v = rho / 5, dense, torch.where(start, 0, dense), torch.zeros_like(dense)
        elif grows:
            break
        else:
            rho /= 5
        if i >= 30 and change < 0.0003 * kept:
            break
    mask = whole_or_runs(b**2, sparsity, pattern)
    solution = torch.where(mask, 0, b)
    for r in range(len(weight)):
        solution[r, ~mask[r]] = conjugate_gradients(
            gram[~mask[r]][:, ~mask[r]], target[r, ~mask[r]], solution[r, ~mask[r]], 10
        )
    return (solution / norms).float()


def conjugate_gradients(a, b, x, steps):
    """Steps from x towards a^-1 b."""
    residual = b - a @ x
    direction = residual.clone()
    for _ in range(steps):
        size = residual @ residual
        if size == 0:
            break
        length = size / (direction @ a @ direction)
        x = x + length * direction
        residual = residual - length * (a @ direction)
        direction = residual + (residual @ residual) / size * direction
    return x


METHODS = {"ria": ria, "wanda_variant": wanda_variant, "dsnot": dsnot, "obs": obs, "alps": alps}


def prune(model, family, rows, method, sparsity=0.5, pattern=None, **options):
    """Prune the model in place along the walk of reference.py."""

    def with_options(*args):
        return METHODS[method](*args, **options)

    with mock.patch.dict(reference.METHODS, {method: with_options}):
        reference.prune(model, family, rows, method, sparsity, pattern)


def layer_loss(weight, pruned, inputs):
    """The layer's squared error over all tokens."""
    return ((torch.cat(inputs) @ (weight - pruned).T).double() ** 2).sum().item()
