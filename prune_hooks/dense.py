"""The receipt of a model left as it is: method "none" or sparsity 0, which ask nothing of its weights."""

from __future__ import annotations

import torch
from torch import nn

from prune_hooks.errors import PruneError
from prune_hooks.phases import Phases
from prune_hooks.receipt import (
    Receipt,
    WeightRecord,
    circumstances,
    count_zeros,
    hash_model,
    hash_weights,
    whole_model_sparsity,
)
from prune_hooks.spec import PruneSpec
from prune_hooks.targets import Targets, find_targets
from prune_hooks.weights import require_finite


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
        **circumstances(spec, phases, first.dtype),
        sparsity_asked=0.0,
        sparsity_reached=sum(zeros) / sum(weight.matrix().numel() for weight in weights) if weights else None,
        sparsity_masked=0.0,
        whole_model_sparsity=whole,
        coverage=targets.coverage if targets else None,
        unreached=targets.unreached if targets else {},
        weights=tuple(WeightRecord.of(weight, n, n) for weight, n in zip(weights, zeros, strict=True)),
        calibration=None,
        weights_sha256=digest,
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
