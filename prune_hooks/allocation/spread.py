"""From a number a block to a sparsity a block whose weighted mean is the asked one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from prune_hooks.targets import Targets

MOST = 0.99
"""A block is never pruned further than this, unless more is asked of all."""
_HALVINGS = 200


def sizes_of(targets: Targets) -> list[int]:
    """Returns the number of prunable weights of each block."""
    return [sum(weight.matrix().numel() for weight in block.weights()) for block in targets.blocks]


def spread(values: Sequence[float], sizes: Sequence[int], sparsity: float, width: float) -> list[float]:
    """Maps values to sparsities as OWL does: the larger the value, the denser the block.

    d = (value - min) / (max - min) * 2 * width; density = d - mean(d) + (1 - sparsity), the mean being weighted by the
    blocks' sizes, so that blocks of different sizes hit the asked sparsity too (the published code takes the plain
    mean: the same for blocks of one size). Values that are all equal give every block the asked sparsity.

    Args:
        values: one a block.
        sizes: weights a block; a block without weights has no say in the mean.
        sparsity: the asked one.
        width: half the width of the range of densities, lambda in the paper.

    Returns:
        One sparsity a block, from 0 to below 1.
    """
    low, high = min(values), max(values)
    if high == low:
        return [sparsity] * len(values)
    density = [(value - low) / (high - low) * 2 * width for value in values]
    mean = weighted_mean(density, sizes)
    return balanced([sparsity - (one - mean) for one in density], sizes, sparsity)


def balanced(shares: Sequence[float], sizes: Sequence[int], sparsity: float) -> list[float]:
    """Clips sparsities to what a block can have and shifts the others alike, until the weighted mean is the asked one.

    Args:
        shares: one a block, of any size.
        sizes: weights a block.
        sparsity: the asked mean.
    """
    most = max(MOST, sparsity)

    def shifted(by: float) -> list[float]:
        return [min(max(share + by, 0.0), most) for share in shares]

    if abs(weighted_mean(shifted(0.0), sizes) - sparsity) < 1e-12:
        return shifted(0.0)
    low, high = -max(shares), most - min(shares)  # all at 0, all at the most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if weighted_mean(shifted(middle), sizes) < sparsity:
            low = middle
        else:
            high = middle
    return shifted((low + high) / 2)


def weighted_mean(values: Sequence[float], sizes: Sequence[int]) -> float:
    """Returns the mean of one value a block, weighted by the blocks' sizes."""
    return sum(value * size for value, size in zip(values, sizes, strict=True)) / sum(sizes)
