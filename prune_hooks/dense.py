"""The receipt of a model left as it is: method "none" or sparsity 0, which ask nothing of its weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from prune_hooks.errors import PruneError
from prune_hooks.phases import Phases
from prune_hooks.receipt import (
    Receipt,
    WeightRecord,
    count_zeros,
    hash_model,
    hash_weights,
    versions,
    whole_model_sparsity,
)
from prune_hooks.spec import PruneSpec
from prune_hooks.targets import Targets, Weight, find_targets, require_finite


@torch.no_grad()
def dense_receipt(model: nn.Module, spec: PruneSpec) -> Receipt:
    """Describes a model without touching or refusing it.

    Args:
        model: any model, 4-bit, offloaded or without blocks included.
        spec: what was asked: nothing to prune.

    Returns:
        The receipt. If no weights can be reached, `weights` is empty, `coverage` and `sparsity_reached` are None and
        `unprunable` says why; NaN or infinite weights are named there too, beside the ordinary fields.
    """
    targets, unprunable = _reach(model)
    weights = targets.weights() if targets else ()
    first = weights[0].parameter if weights else next(model.parameters(), torch.empty(0))
    device = weights[0].device if weights else first.device
    phases = Phases(device)
    with phases.phase("check"):
        zeros = count_zeros(targets.opened()) if targets else []
        whole = whole_model_sparsity(model)
        digest = hash_weights(targets.opened()) if targets else hash_model(model)
    return Receipt(
        spec=spec.to_dict(),
        spec_digest=spec.digest(),
        sparsity_asked=0.0,
        sparsity_reached=sum(zeros) / sum(weight.matrix().numel() for weight in weights) if weights else None,
        sparsity_masked=0.0,
        whole_model_sparsity=whole,
        coverage=targets.coverage if targets else None,
        unreached=targets.unreached if targets else {},
        weights=_records(weights, zeros),
        calibration=None,
        weights_sha256=digest,
        seconds=phases.seconds,
        peak_memory=phases.peak_memory,
        versions=versions(),
        device=str(device),
        dtype=str(first.dtype).removeprefix("torch."),
        unprunable=unprunable,
    )


def _reach(model: nn.Module) -> tuple[Targets | None, str | None]:
    """Returns the targets, None if there are none to reach, and what stands in the way of pruning."""
    try:
        targets = find_targets(model)
    except PruneError as error:
        return None, str(error)
    try:
        require_finite(targets.opened())
    except PruneError as error:
        return targets, str(error)
    return targets, None


def _records(weights: Sequence[Weight], zeros: Sequence[int]) -> tuple[WeightRecord, ...]:
    return tuple(
        WeightRecord(weight.name, (weight.matrix().shape[0], weight.matrix().shape[1]), count, count, masked=0)
        for weight, count in zip(weights, zeros, strict=True)
    )
