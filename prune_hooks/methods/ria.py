"""Method "ria": relative importance and activations (Zhang et al., ICLR 2024), compared within the whole matrix.

A weight counts by its share of its input column and of its output row, so that no row or column is lost whole. The
paper's permutation of input channels, which helps n:m patterns, is no part of this: it changes the model's layout.
"""

from __future__ import annotations

from prune_hooks.options import Option
from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.scores import ria_score
from prune_hooks.statistics import Needs
from prune_hooks.zeros import erase


@register_method(
    "ria", needs=Needs.NORMS, options={"a": Option(0.5, least=0, about="power of the input's norm in the score")}
)
def ria(group: Group) -> list[Outcome]:
    """Removes the int(numel * sparsity) lowest scores of every matrix; no weight is updated."""
    assert group.statistics is not None
    mean_square = group.statistics.mean_square()
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()
        mask = group.choose(ria_score(matrix, mean_square, group.options["a"]), within="matrix")
        erase(matrix, mask)
        outcomes.append(Outcome(masked=int(mask.count_nonzero())))
    return outcomes
