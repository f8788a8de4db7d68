"""Rule "owl": outlier weighed layerwise sparsity (Yin et al., ICML 2024).

D_L is the percentage of a block's Wanda scores that exceed M times their mean, all matrices of the block taken
together, with the inputs of the dense model. Blocks with more of them stay denser, within lambda of the asked sparsity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prune_hooks.allocation.spread import sizes_of, spread
from prune_hooks.options import Option
from prune_hooks.registry import Allotment, Look, register_allocation
from prune_hooks.scores import wanda_score
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.targets import Targets
from prune_hooks.weights import Weight


@register_allocation(
    "owl",
    options={
        "M": Option(5.0, least=0, about="a score this many times the mean is an outlier"),
        "lambda": Option(0.08, least=0, most=1, about="half the width of the range of sparsities"),
    },
    needs=Needs.NORMS,
)
def owl(targets: Targets, sparsity: float, options: Mapping[str, Any], look: Look) -> Allotment:
    """Returns the block sparsities with each block's percentage of outliers."""
    outliers = [outlier_percentage(block, options["M"]) for block in look]
    return Allotment(spread(outliers, sizes_of(targets), sparsity, options["lambda"]), {"outliers": outliers})


def outlier_percentage(block: Sequence[tuple[tuple[Weight, ...], Statistics]], limit: float) -> float:
    """Returns the percentage of a block's Wanda scores above `limit` times their mean, 0 for a block without weights.

    Args:
        block: groups of weights with the statistics of the input they read.
        limit: M in the paper.
    """
    pairs = [(weight, statistics.mean_square()) for group, statistics in block for weight in group]
    count = sum(weight.matrix().numel() for weight, _ in pairs)
    if not count:
        return 0.0
    # Scores are made twice rather than held: a block's would be as large as its weights in float32.
    total = sum(float(wanda_score(weight.matrix(), squares).double().sum()) for weight, squares in pairs)
    bound = limit * total / count
    above = sum(int((wanda_score(weight.matrix(), squares) > bound).count_nonzero()) for weight, squares in pairs)
    return 100 * above / count
