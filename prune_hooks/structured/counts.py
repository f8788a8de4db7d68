"""How many key-value groups and MLP channels a block loses, and which: arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from prune_hooks.errors import PruneError


def counts_to_remove(
    units: tuple[int, int], sizes: tuple[int, int], block: int, sparsity: float, use: tuple[bool, bool]
) -> tuple[int, int]:
    """Returns how many key-value groups and how many channels go from one block.

    Both lose their equal share: groups the nearest number to it (the smaller of two as near), and channels what brings
    the block nearest to its target. At least one of each stays.

    Args:
        units: groups and channels there are.
        sizes: parameters that go with one group, and with one channel.
        block: parameters of the whole block.
        sparsity: share of the block's parameters to remove.
        use: whether groups, and whether channels may go.

    Raises:
        PruneError: if what may go is not enough.
    """
    most = tuple(count - 1 if used else 0 for count, used in zip(units, use, strict=True))
    target = sparsity * block

    def fitting(groups: int) -> int:
        """Returns the channels that bring the block nearest to its target beside that many groups."""
        return min(max(_nearest((target - groups * sizes[0]) / sizes[1]), 0), most[1])

    groups = min(_nearest(sparsity * units[0] if use[1] else target / sizes[0]), most[0])
    while use[1] and groups < most[0] and target - groups * sizes[0] > (most[1] + 1) * sizes[1]:
        groups += 1  # all channels but one would not be enough
    channels = fitting(groups)
    missing = target - groups * sizes[0] - channels * sizes[1]
    step = sizes[1] if most[1] else sizes[0]
    if missing > step:
        reach = (most[0] * sizes[0] + most[1] * sizes[1]) / block
        raise PruneError(
            f"sparsity {sparsity:g} of a block with {units[0]} key-value groups and {units[1]} channels: at most "
            f"{reach:.3f} of its parameters can go with heads:{int(use[0])}+mlp:{int(use[1])} and one of each left; "
            "expected less; lower sparsity, or allow both in method_options"
        )
    return groups, channels


def require_some(method: str, sparsity: float, sizes: Sequence[int], whole: int, of: str) -> None:
    """Refuses a sparsity so low that no unit would go.

    Args:
        method: its name.
        sparsity: the asked one.
        sizes: parameters of each unit that may go.
        whole: parameters that the sparsity is a share of.
        of: what they are, for the message.

    Raises:
        PruneError: if nothing may go, or the sparsity is at most half of the smallest unit.
    """
    if not sizes:
        raise PruneError(
            f"method {method!r} at sparsity {sparsity:g} removes none: no {of} has more than one unit of what may go, "
            "and one stays; allow both heads and MLP in method_options, or use method=wanda"
        )
    if sparsity * whole <= min(sizes) / 2:
        raise PruneError(
            f"method {method!r} at sparsity {sparsity:g} removes none: expected more than "
            f"{min(sizes) / whole / 2:.3g}, half of the smallest unit's share of the {of}; raise sparsity"
        )


def lowest(scores: torch.Tensor, count: int) -> list[int]:
    """Returns the numbers of all but the `count` lowest scores, ascending; of equal ones the first goes."""
    order = scores.sort(stable=True).indices
    return sorted(int(number) for number in order[count:])


def fill(sizes: Sequence[int], target: float) -> list[int]:
    """Returns which units to take, in the order given, so that their sum comes near a target.

    A unit that would carry the sum more than half the smallest size beyond the target is passed over, and smaller ones
    behind it fill the rest; where there are too few of those, what was passed over is looked at again, and taken if
    that brings the sum nearer.

    Args:
        sizes: size of each unit, in the order of preference.
        target: the sum wanted.

    Returns:
        Places in `sizes`.
    """
    taken: list[int] = []
    seen: set[int] = set()
    total = 0
    smallest = min(sizes, default=0)
    for spare in (smallest, None):
        for place, size in enumerate(sizes):
            if 2 * (total + size - target) < (size if spare is None else spare) and place not in seen:
                taken.append(place)
                seen.add(place)
                total += size
    return taken


def _nearest(value: float) -> int:
    """Returns the nearest whole number; of two as near the smaller."""
    return int(-((0.5 - value) // 1))
