"""Method "none": the dense baseline through the same path."""

from __future__ import annotations

from prune_hooks.registry import Group, Outcome, register_method


@register_method("none")
def dense(group: Group) -> list[Outcome]:
    """Leaves every bit untouched."""
    return [Outcome(masked=0) for _ in group.weights]
