"""From an allocation rule to sparsities that hold: patterns it goes with, the asked mean, the receipt's table."""

from __future__ import annotations

from typing import Any

from prune_hooks.allocation.spread import sizes_of, weighted_mean
from prune_hooks.errors import PruneError
from prune_hooks.registry import Allocation, Allotment, Look
from prune_hooks.spec import PruneSpec
from prune_hooks.targets import Targets

UNIFORM = "uniform"
TOLERANCE = 1e-3
"""By how much the weighted mean of the sparsities may miss the asked one."""


def require_possible(spec: PruneSpec) -> None:
    """Raises PruneError for an allocation that an n:m pattern leaves no room for."""
    if spec.kept is not None and spec.allocation != UNIFORM:
        raise PruneError(
            f"allocation {spec.allocation!r} with pattern {spec.pattern!r}: the pattern keeps {spec.kept[0]} of "
            f"{spec.kept[1]} in every block alike; expected allocation=uniform, or pattern=unstructured"
        )


def allot(rule: Allocation, spec: PruneSpec, targets: Targets, sparsity: float, look: Look | None = None) -> Allotment:
    """Returns one sparsity a block, checked.

    Args:
        rule: the rule.
        spec: its options.
        targets: the blocks.
        sparsity: the asked one.
        look: at the dense model, for a rule that needs it.

    Raises:
        PruneError: other than one sparsity a block, from 0 to below 1, whose weighted mean is the asked one.
    """
    made = rule.allot(targets, sparsity, spec.allocation_options, look)
    shares = made.shares
    if len(shares) != len(targets.blocks) or not all(0 <= share < 1 for share in shares):
        raise PruneError(
            f"allocation {rule.name!r} returned {len(shares)} sparsities {[round(share, 4) for share in shares][:4]}: "
            f"expected {len(targets.blocks)}, one a block, each from 0 to below 1"
        )
    mean = weighted_mean(shares, sizes_of(targets))
    if abs(mean - sparsity) > TOLERANCE:
        raise PruneError(
            f"allocation {rule.name!r} spreads a sparsity of {mean:.6f} over the blocks: expected the asked "
            f"{sparsity:.6f}, as the mean weighted by the blocks' sizes"
        )
    return made


def table(rule: Allocation, spec: PruneSpec, targets: Targets, made: Allotment) -> dict[str, Any] | None:
    """Returns what a receipt says of an allocation, JSON-able; None for the uniform one."""
    if rule.name == UNIFORM:
        return None
    sizes = sizes_of(targets)
    measured = [{name: values[index] for name, values in made.measured.items()} for index in range(len(sizes))]
    rows = zip(targets.blocks, made.shares, sizes, measured, strict=True)
    return {
        "rule": rule.name,
        "options": rule.resolve(spec.allocation_options),
        "mean": weighted_mean(made.shares, sizes),
        "blocks": [
            {"name": block.name, "sparsity": share, "weights": size, **more} for block, share, size, more in rows
        ],
    }
