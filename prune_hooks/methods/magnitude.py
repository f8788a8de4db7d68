"""Methods "magnitude" and "magnitude_global": the smallest absolute weights go (Han et al. 2015)."""

from __future__ import annotations

from functools import partial

import torch

from prune_hooks import masks
from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.scores import magnitude_score
from prune_hooks.weights import Weight
from prune_hooks.zeros import erase


@register_method("magnitude", seeded=False)
def magnitude(group: Group) -> list[Outcome]:
    """Compares within each whole matrix."""
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        mask = group.choose(magnitude_score(matrix), within="matrix")
        erase(matrix, mask)
        outcomes.append(Outcome(masked=int(mask.count_nonzero())))
    return outcomes


@register_method("magnitude_global", whole_model=True, seeded=False)
def magnitude_global(group: Group) -> list[Outcome]:
    """Compares all weights of the model; with an n:m pattern the runs decide, as in "magnitude"."""
    if group.kept is not None:
        return magnitude.prune(group)
    count = masks.removed(sum(weight.matrix().numel() for weight in group.weights), group.sparsity)
    if count == 0:
        return [Outcome(masked=0) for _ in group.weights]
    limit, ties = masks.global_limit([partial(_score, weight) for weight in group.weights], count)
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        mask, ties = masks.up_to_limit(magnitude_score(matrix), limit, ties)
        erase(matrix, mask)
        outcomes.append(Outcome(masked=int(mask.count_nonzero())))
    return outcomes


def _score(weight: Weight) -> torch.Tensor:
    return magnitude_score(weight.matrix())
