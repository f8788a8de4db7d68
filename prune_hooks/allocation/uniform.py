"""Rule "uniform": every block gets the asked sparsity."""

from __future__ import annotations

from prune_hooks.registry import register_allocation
from prune_hooks.targets import Targets


@register_allocation("uniform")
def uniform(targets: Targets, sparsity: float) -> list[float]:
    """Returns the asked sparsity once for every block."""
    return [sparsity] * len(targets.blocks)
