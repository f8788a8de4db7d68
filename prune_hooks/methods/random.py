"""Method "random": the floor every method has to beat."""

from __future__ import annotations

from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.scores import random_score
from prune_hooks.zeros import erase


@register_method("random")
def random(group: Group) -> list[Outcome]:
    """Removes a random share of each matrix; which entries depends on the weight's name and the seed only."""
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        mask = group.choose(random_score(weight.name, group.seed, matrix.shape, matrix.device), within="matrix")
        erase(matrix, mask)
        outcomes.append(Outcome(masked=int(mask.count_nonzero())))
    return outcomes
