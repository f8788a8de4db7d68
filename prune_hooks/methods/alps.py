"""Method "alps": least squares under a count of non-zeros, by ADMM (Meng et al., NeurIPS 2024).

Minimises the layer's squared error with exactly k weights left, on columns scaled to unit norm. ADMM alternates a ridge
solution B with its k largest entries D; the penalty rho grows while the support still moves. Ten conjugate-gradient
steps then re-fit the weights on the support found. Rounds and constants are those of the published code, but the count
removed is int(numel * sparsity), and weights that share an input share one eigendecomposition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from prune_hooks.options import Option
from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.statistics import Needs, Statistics

DAMPING = 0.01
"""Share of the mean Hessian diagonal added before scaling."""
_EVERY = 3
"""Rounds between two looks at the support."""
_SETTLED_AFTER = 30
"""Rounds after which a support that hardly moves ends the search."""
_SETTLED = 0.0003
"""Entries of the support changed, as a share of it, below which it hardly moves."""
_LARGEST = 1e6
_STEPS = 10
"""Conjugate-gradient steps."""


@dataclass(frozen=True)
class Scaled:
    """The normal equations on columns scaled to unit norm."""

    gram: torch.Tensor
    """(in, in) float32, diagonal 1."""
    norms: torch.Tensor
    """(in,) float32, what columns were divided by."""
    values: torch.Tensor
    """(in,) eigenvalues."""
    vectors: torch.Tensor
    """(in, in) eigenvectors, one a column."""

    def resolvent(self, rho: float) -> torch.Tensor:
        """Returns (gram + rho I)^-1, (in, in) float32."""
        return (self.vectors / (self.values + rho)) @ self.vectors.T


@register_method(
    "alps",
    needs=Needs.HESSIAN,
    options={
        "rounds": Option(300, least=1, about="ADMM rounds at most"),
        "rho": Option(0.1, least=1e-6, about="penalty to begin with"),
    },
)
def alps(group: Group) -> list[Outcome]:
    """Removes int(numel * sparsity) weights of every matrix, or the pattern's, and re-fits the rest; all in float32."""
    assert group.statistics is not None
    if group.kept is None and group.sparsity == 0:
        return [Outcome(masked=0) for _ in group.weights]
    scaled = scale(group.statistics)
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        dense = matrix.float() * scaled.norms
        target = dense @ scaled.gram
        choose = _chooser(group)
        mask = search(dense, target, scaled, choose, group.options["rounds"], group.options["rho"])
        found = refit(*mask, target, scaled.gram)
        matrix.copy_(found / scaled.norms)
        outcomes.append(Outcome(masked=int(mask[1].count_nonzero()), damping=DAMPING))
    return outcomes


def scale(statistics: Statistics) -> Scaled:
    """Returns the damped and scaled normal equations of a statistic, with their eigenvectors (found in float64)."""
    gram = statistics.hessian()
    diagonal = gram.diagonal()
    if not diagonal.any():
        diagonal.fill_(1)
    diagonal += DAMPING * diagonal.mean()
    norms = diagonal.sqrt() + 1e-8
    gram /= norms
    gram /= norms[:, None]
    values, vectors = torch.linalg.eigh(gram.double())
    return Scaled(gram, norms, values.float(), vectors.float())


def _chooser(group: Group) -> Callable[[torch.Tensor], torch.Tensor]:
    def choose(values: torch.Tensor) -> torch.Tensor:
        return group.choose(values.square(), within="matrix")

    return choose


def search(
    dense: torch.Tensor,
    target: torch.Tensor,
    scaled: Scaled,
    choose: Callable[[torch.Tensor], torch.Tensor],
    rounds: int,
    rho: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Finds a support by ADMM.

    Args:
        dense: (out, in) float32, the weights times the columns' norms.
        target: dense @ gram.
        scaled: the normal equations.
        choose: values to the mask of what is removed.
        rounds: at most so many.
        rho: penalty to begin with.

    Returns:
        The weights of the last round with the removed ones at 0, and the mask.
    """
    seen = start = choose(dense)
    sparse = dense.masked_fill(start, 0)
    dual = torch.zeros_like(dense)
    size = dense.numel() - int(start.count_nonzero())
    resolvent, moving = scaled.resolvent(rho), False
    for number in range(1, rounds + 1):
        found = (target - dual + rho * sparse) @ resolvent
        shifted = found + dual / rho
        mask = choose(shifted)
        sparse = shifted.masked_fill(mask, 0)
        dual = rho * (shifted - sparse)
        if number % _EVERY:
            continue
        changed = int((mask ^ seen).count_nonzero())
        seen = mask
        if changed and not moving and changed <= 0.005 * size:
            # Too stiff to move at first: begin again, softer.
            rho /= 5
            found, sparse, dual = dense, dense.masked_fill(start, 0), torch.zeros_like(dense)
        elif not changed and moving:
            break
        elif not changed:
            rho /= 5
        else:
            moving = True
            rho = min(rho * _growth(changed / size), _LARGEST)
        if number > _SETTLED_AFTER and changed < _SETTLED * size:
            break
        resolvent = scaled.resolvent(rho)
    mask = choose(found)
    return found.masked_fill(mask, 0), mask


def _growth(changed: float) -> float:
    """Returns the factor of rho for the share of the support that changed."""
    return 1.3 if changed > 0.1 else 1.2 if changed > 0.005 else 1.1


def refit(start: torch.Tensor, mask: torch.Tensor, target: torch.Tensor, gram: torch.Tensor) -> torch.Tensor:
    """Returns the weights (out, in) after conjugate-gradient steps towards start @ gram = target off the mask."""
    weights, residual = start, (target - start @ gram).masked_fill(mask, 0)
    direction, size = residual, residual.square().sum(dim=1, keepdim=True)
    for _ in range(_STEPS):
        product = direction @ gram
        step = size / _nonzero((direction * product).sum(dim=1, keepdim=True))
        weights = weights + step * direction
        residual = (residual - step * product).masked_fill(mask, 0)
        last, size = size, residual.square().sum(dim=1, keepdim=True)
        direction = residual + size / _nonzero(last) * direction
    return weights


def _nonzero(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values == 0, 1e-8, values)
