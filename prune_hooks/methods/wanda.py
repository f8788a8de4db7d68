"""Method "wanda": magnitude times the norm of the input (Sun et al. 2023), compared within an output row."""

from __future__ import annotations

from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.scores import wanda_score
from prune_hooks.statistics import Needs
from prune_hooks.zeros import erase


@register_method("wanda", needs=Needs.NORMS)
def wanda(group: Group) -> list[Outcome]:
    """Removes the int(in * sparsity) lowest scores of every row; no weight is updated."""
    assert group.statistics is not None
    mean_square = group.statistics.mean_square()
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        mask = group.choose(wanda_score(matrix, mean_square), within="row")
        erase(matrix, mask)
        outcomes.append(Outcome(masked=int(mask.count_nonzero())))
    return outcomes
