"""Runs a structured method and makes the receipt: parameters counted before and after, and hashed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from prune_hooks.errors import PruneError
from prune_hooks.heap import Heap
from prune_hooks.phases import Phases
from prune_hooks.precision import Precision
from prune_hooks.receipt import Receipt, WeightRecord, circumstances, count_zeros, hash_model
from prune_hooks.spec import PruneSpec
from prune_hooks.structured.layout import require_dense
from prune_hooks.structured.registry import Job, StructuredMethod
from prune_hooks.targets import Targets, find_targets
from prune_hooks.weights import require_finite

MakeRows = Callable[[PruneSpec, Any], "tuple[torch.Tensor, dict[str, Any]]"]


def prune_structured(
    model: nn.Module,
    tokenizer: Any,
    spec: PruneSpec,
    method: StructuredMethod,
    make_rows: MakeRows,
    progress: bool = True,
    batch_rows: int | None = None,
) -> Receipt:
    """Cuts a model in place and says what is gone; sparsities in the receipt are shares of parameters removed.

    Args:
        model: in evaluation mode, gradients off.
        tokenizer: the model's, or None with token rows.
        spec: what to do; sparsity above 0.
        method: the method.
        make_rows: spec and tokenizer -> calibration rows and the facts about them.
        progress: show a progress bar.
        batch_rows: calibration rows that go through a block at once; None: as many as the memory budget holds.

    Raises:
        PruneError: before anything is touched, for whatever the spec or the model make impossible.
    """
    method.require_plain(spec)
    method.require_family(model)
    require_dense(model, spec.method)
    targets = find_targets(model)
    if targets.offloaded:
        raise PruneError(
            f"method {spec.method!r} changes the model's shape, part of which is offloaded: expected all weights in "
            "memory; load without device_map, or use method=wanda"
        )
    first = targets.weights()[0]
    phases = Phases(first.device)
    with phases.phase("check"):
        require_finite(targets.opened())
        before = (_block_parameters(targets), _parameters(model))
    with phases.phase("calibration"):
        rows, calibration = make_rows(spec, tokenizer)
    precision = Precision(spec.calibration_dtype, first.parameter.dtype, first.device)
    options = method.resolve(spec.method_options)
    job = Job(model, tokenizer, spec, options, targets, rows, precision, batch_rows, progress)
    calibration["forward_dtype"] = str(precision.dtype).removeprefix("torch.")
    with phases.phase("prune"):
        outcome = method.run(job)
    Heap(first.device).give_back_all()
    with phases.phase("receipt"):
        left = find_targets(model)
        after = (_block_parameters(left), _parameters(model))
        records = tuple(
            WeightRecord.of(weight, zeros, zeros)
            for weight, zeros in zip(left.weights(), count_zeros(left.opened()), strict=True)
        )
        digest = hash_model(model)
    reached = 1 - after[0] / before[0]
    return Receipt(
        **circumstances(spec, phases, first.parameter.dtype),
        sparsity_asked=spec.sparsity,
        sparsity_reached=reached,
        sparsity_masked=reached,
        whole_model_sparsity=1 - after[1] / before[1],
        coverage=targets.coverage,
        unreached=targets.unreached,
        weights=records,
        calibration=calibration,
        weights_sha256=digest,
        structured={
            "block_parameters": list(map(int, (before[0], after[0]))),
            "model_parameters": list(map(int, (before[1], after[1]))),
            "reload": outcome.reload,
            "layers": [dict(layer) for layer in outcome.layers],
            **outcome.facts,
        },
    )


def _block_parameters(targets: Targets) -> int:
    """Counts every parameter in the text blocks once: matrices, biases, norms."""
    return sum(p.numel() for p in {id(p): p for b in targets.blocks for p in b.module.parameters()}.values())


def _parameters(model: nn.Module) -> int:
    """Counts every parameter once, tied ones too."""
    return sum(parameter.numel() for parameter in model.parameters())
