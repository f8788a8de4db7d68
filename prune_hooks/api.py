"""`prune`: the one call that does the work, from spec to receipt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from prune_hooks.batches import make_batches, rows_at_once
from prune_hooks.dense import dense_receipt
from prune_hooks.engine import Done, prune_along_walk, prune_without_inputs
from prune_hooks.errors import PruneError
from prune_hooks.heap import Heap
from prune_hooks.phases import Phases
from prune_hooks.precision import Precision
from prune_hooks.receipt import Receipt, WeightRecord, count_zeros, hash_weights, versions, whole_model_sparsity
from prune_hooks.registry import get_allocation, get_method
from prune_hooks.reuse import Reuse
from prune_hooks.spec import PruneSpec
from prune_hooks.statistics import Needs
from prune_hooks.structured.registry import StructuredMethod
from prune_hooks.structured.run import prune_structured
from prune_hooks.targets import Targets, Weight, find_targets, require_finite

_MAX_TEXT_HASHES = 5000


def prune(
    model: nn.Module,
    tokenizer: Any,
    spec: PruneSpec,
    *,
    progress: bool = True,
    batch_rows: int | None = None,
    reuse: Reuse | None = None,
) -> Receipt:
    """Prunes a transformers model in place, on the device its weights are on.

    Weights that accelerate keeps off that device (device_map) are brought to it a block at a time and written back.

    With method "none" or sparsity 0 nothing is touched, and any model will do: what could not have been pruned (4-bit,
    offloaded, no blocks) is named in the receipt's `unprunable`.

    Args:
        model: a causal or encoder-decoder language model with float32, float16 or bfloat16 weights,
            in memory or offloaded by accelerate.
        tokenizer: the model's; may be None with token rows, or for methods that need no calibration.
        spec: what to do.
        progress: show a progress bar over blocks.
        batch_rows: calibration rows that go through a block at once; None: as many as the memory budget holds.
        reuse: what earlier calls on the same model, dense again by now, have left to be used; the result is the same.

    Returns:
        The receipt.

    Raises:
        PruneError: before any weight is touched, for whatever the spec or the model make impossible; later, for NaN
            or infinite values and Hessians that cannot be factorised, naming the layer.
    """
    method, rule = get_method(spec.method), get_allocation(spec.allocation)
    options = method.resolve(spec.method_options)
    needs = method.needs_with(options)
    rule.resolve(spec.allocation_options)
    asked = 0.0 if method.name == "none" else spec.sparsity
    if not asked:
        return dense_receipt(model, spec)
    if isinstance(method, StructuredMethod):
        make_rows = partial(reuse.rows, make=_rows) if reuse else _rows
        with torch.no_grad(), _settled(model):
            return prune_structured(model, tokenizer, spec, method, make_rows, progress, batch_rows)
    targets = find_targets(model)
    if spec.kept is not None:
        targets.require_divisible(spec.kept[1])
    shares = rule.shares(targets, asked, spec.allocation_options)
    _require_shares(spec.allocation, targets, shares, asked)
    if method.check is not None:
        plan = [
            (weight, share) for block, share in zip(targets.blocks, shares, strict=True) for weight in block.weights()
        ]
        method.check(plan, options)
    weights = targets.weights()
    device = weights[0].device
    phases = Phases(device)
    precision = Precision(spec.calibration_dtype, weights[0].parameter.dtype, device)
    calibration: dict[str, Any] | None = None
    with torch.no_grad(), _settled(model):
        with phases.phase("check"):
            require_finite(targets.opened())
            before = count_zeros(targets.opened())
        if needs is Needs.NOTHING:
            with phases.phase("prune"):
                done = prune_without_inputs(method, spec, targets, shares)
        else:
            with phases.phase("calibration"):
                rows, calibration = reuse.rows(spec, tokenizer, _rows) if reuse else _rows(spec, tokenizer)
                shape = (rows.shape[0], rows.shape[1])
                fit = min(batch_rows or rows_at_once(model, targets, shape, device, spec.sequential), shape[0])
                calibration["batch_rows"] = fit
                calibration["forward_dtype"] = str(precision.dtype).removeprefix("torch.")
                batches = make_batches(model, rows, fit)
            with phases.phase("prune"):
                done = prune_along_walk(model, method, spec, targets, shares, batches, precision, progress, reuse)
            Heap(device).give_back_all()
        with phases.phase("receipt"):
            after = count_zeros(targets.opened())
            whole = whole_model_sparsity(model)
            digest = hash_weights(targets.opened())
    records = _records(weights, before, after, done)
    size = sum(weight.matrix().numel() for weight in weights)
    return Receipt(
        spec=spec.to_dict(),
        spec_digest=spec.digest(),
        sparsity_asked=asked,
        sparsity_reached=sum(after) / size,
        sparsity_masked=sum(record.masked for record in records) / size,
        whole_model_sparsity=whole,
        coverage=targets.coverage,
        unreached=targets.unreached,
        weights=records,
        calibration=calibration,
        weights_sha256=digest,
        seconds=phases.seconds,
        peak_memory=phases.peak_memory,
        versions=versions(),
        device=str(device),
        dtype=str(weights[0].parameter.dtype).removeprefix("torch."),
    )


@contextmanager
def _settled(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and full float32 products (no TF32) for a while; both are put back."""
    training = [module for module in model.modules() if module.training]
    precision = torch.get_float32_matmul_precision()
    model.eval()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        for module in training:
            module.training = True


def _require_shares(name: str, targets: Targets, shares: Sequence[float], asked: float) -> None:
    if len(shares) != len(targets.blocks) or not all(0 <= share < 1 for share in shares):
        raise PruneError(
            f"allocation {name!r} returned {len(shares)} sparsities {[round(share, 4) for share in shares][:4]}: "
            f"expected {len(targets.blocks)}, one a block, each from 0 to below 1"
        )
    sizes = [sum(weight.matrix().numel() for weight in block.weights()) for block in targets.blocks]
    mean = sum(size * share for size, share in zip(sizes, shares, strict=True)) / sum(sizes)
    if abs(mean - asked) > 1e-6:
        raise PruneError(
            f"allocation {name!r} spreads a sparsity of {mean:.6f} over the blocks: expected the asked {asked:.6f}, "
            "as the mean weighted by the blocks' sizes"
        )


def _rows(spec: PruneSpec, tokenizer: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    from prune_hooks.calibration import load_rows
    from prune_hooks.calibration.shingles import listed

    loaded = load_rows(
        spec.calibration,
        tokenizer,
        languages=spec.calibration_languages,
        samples=spec.calibration_samples,
        length=spec.calibration_length,
        seed=spec.prune_seed,
    )
    facts = {
        "source": loaded.source,
        "digest": loaded.digest,
        "rows": int(loaded.rows.shape[0]),
        "length": int(loaded.rows.shape[1]),
        "tokens_per_language": dict(loaded.tokens_per_language),
        "text_hashes": list(loaded.text_hashes[:_MAX_TEXT_HASHES]),
        "shingles": listed(loaded.texts),
    }
    return loaded.rows, facts


def _records(
    weights: Sequence[Weight], before: Sequence[int], after: Sequence[int], done: Done
) -> tuple[WeightRecord, ...]:
    records = []
    for weight, zeros_before, zeros_after in zip(weights, before, after, strict=True):
        out, width = weight.matrix().shape
        outcome = done.outcomes[weight]
        records.append(
            WeightRecord(
                weight.name,
                (out, width),
                zeros_before,
                zeros_after,
                outcome.masked,
                outcome.damping,
                weight in done.starved,
            )
        )
    return tuple(records)
