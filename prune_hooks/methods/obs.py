"""Method "obs": exact optimal brain surgery (Optimal Brain Compression, Frantar and Alistarh 2022).

Every row loses its weights one at a time, each time the one whose loss is least, with the exact update of the others.
Unstructured, the rows' losses are put together and the int(numel * sparsity) lowest of the whole matrix decide how many
weights each row loses; with an n:m pattern a run of which m-n are gone keeps the rest. The Hessian is damped as
SparseGPT's is, and dead inputs are cleared likewise (published: no damping, but 1 added where it is singular).

The work grows with out * in^3, so that an estimate is made before anything is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from prune_hooks import masks
from prune_hooks.errors import PruneError
from prune_hooks.methods.sparsegpt import DAMPING, DAMPING_LIMIT
from prune_hooks.options import Option
from prune_hooks.registry import Group, Outcome, Plan, register_method
from prune_hooks.statistics import Needs
from prune_hooks.surgeon import refit, trace

RATES = {"cpu": 1.5e10}
"""Operations a second assumed for the estimate, by kind of device."""
_RATE = 5e12
"""The same for any accelerator."""


def _check(plan: Plan, options: Mapping[str, Any]) -> None:
    """Refuses, with an estimate, what would take longer or more memory than the options allow."""
    shapes = [weight.matrix().shape for weight, share in plan if share > 0]
    if not shapes:
        return
    device = plan[0][0].device.type
    rate = RATES.get(device, _RATE)
    hours = sum(operations(*shape) for shape in shapes) / rate / 3600
    if hours > options["hours"]:
        raise PruneError(
            f"exact OBS would take about {hours:.3g} hours for {len(shapes)} matrices on {device} ({rate:g} operations "
            f"a second assumed): expected at most {options['hours']:g}; use method=sparsegpt, or raise the limit with "
            f"method_options=hours:{hours * 1.01:.3g}"
        )
    widest = max(plan, key=lambda entry: entry[0].matrix().shape[1] if entry[1] > 0 else 0)[0]
    need = 2 * _bytes(widest.matrix().shape[1]) / 1e9
    if need > options["gigabytes"]:
        raise PruneError(
            f"exact OBS needs {need:.3g} GB for a single row of {widest.name} ({widest.matrix().shape[1]} input "
            f"columns): expected at most {options['gigabytes']:g}; use method=sparsegpt, or raise the limit with "
            f"method_options=gigabytes:{need * 1.01:.3g}"
        )


@register_method(
    "obs",
    needs=Needs.HESSIAN,
    options={
        "hours": Option(3.0, least=0, about="estimated time above which it refuses"),
        "gigabytes": Option(1.0, least=0, about="working memory, which says how many rows go at once"),
    },
    check=_check,
)
def obs(group: Group) -> list[Outcome]:
    """Removes int(numel * sparsity) weights of every matrix, or the pattern's, and updates the rest."""
    assert group.statistics is not None
    if group.kept is None and group.sparsity == 0:
        return [Outcome(masked=0) for _ in group.weights]
    factor, dead, damping = group.statistics.inverse_factor(DAMPING, DAMPING_LIMIT)
    inverse = factor.T @ factor
    at_once = max(1, int(group.options["gigabytes"] * 1e9 / _bytes(inverse.shape[0])) - 1)
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        pruned, masked = solve(matrix.float().masked_fill(dead, 0), inverse, group.sparsity, group.kept, at_once)
        matrix.copy_(pruned)
        outcomes.append(Outcome(masked=masked, damping=damping))
    return outcomes


def solve(
    weights: torch.Tensor, inverse: torch.Tensor, sparsity: float, kept: tuple[int, int] | None, at_once: int
) -> tuple[torch.Tensor, int]:
    """Prunes a matrix. Pure.

    Args:
        weights: (out, in) float32.
        inverse: (in, in) float32, the inverse Hessian.
        sparsity: share to remove, without a pattern.
        kept: (n, m), or None.
        at_once: rows that go together.

    Returns:
        The new matrix, and the number of entries removed.
    """
    traces = [trace(rows, inverse, kept) for rows in torch.split(weights, at_once)]
    order, losses = (torch.cat(parts) for parts in zip(*traces, strict=True))
    counts = torch.full_like(order[:, 0], order.shape[1])
    if kept is None:
        counts = masks.matrix_mask(losses, sparsity).sum(dim=1)
    pruned = torch.empty_like(weights)
    for rows in _alike(counts, max(1, at_once // 4)):
        pruned[rows] = refit(weights[rows], inverse, order[rows], counts[rows])
    return pruned, int(counts.sum())


def operations(out: int, width: int) -> float:
    """Returns the floating-point operations of a matrix: a row's trace 2/3 in^3, as Q shrinks, and its re-fit 1/6."""
    return out * width**3 * 5 / 6


def _bytes(width: int) -> int:
    """Returns the bytes of one row's inverse Hessian; a re-fit takes up to four times as much, so fewer rows go."""
    return width * width * 4


def _alike(counts: torch.Tensor, at_once: int) -> Iterator[torch.Tensor]:
    """Yields row numbers, rows that lose about as many weights together: a system is as large as its largest row's."""
    yield from torch.split(counts.argsort(stable=True), at_once)
