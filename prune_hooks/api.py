"""`prune`: the one call that does the work, from spec to receipt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from prune_hooks.allotting import allot, require_possible, table
from prune_hooks.batches import make_batches, rows_at_once
from prune_hooks.capture import Batch
from prune_hooks.counting import Labels
from prune_hooks.dense import dense_receipt
from prune_hooks.engine import Done, prune_along_walk, prune_without_inputs, watch_dense
from prune_hooks.errors import PruneError
from prune_hooks.heap import Heap
from prune_hooks.mask_files import require_free, save_mask
from prune_hooks.mask_header import read_header
from prune_hooks.phases import Phases
from prune_hooks.precision import Precision
from prune_hooks.receipt import Receipt, WeightRecord, circumstances, count_zeros, hash_weights, whole_model_sparsity
from prune_hooks.registry import Allotment, Method, get_allocation, get_method
from prune_hooks.reuse import Loaded, Reuse
from prune_hooks.spec import PruneSpec
from prune_hooks.statistics import Needs
from prune_hooks.structured.registry import StructuredMethod
from prune_hooks.structured.run import MakeRows, prune_structured
from prune_hooks.targets import Targets, find_targets
from prune_hooks.weights import Weight, require_finite

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
    method = method.bind(spec) if method.bind is not None else method
    options = method.resolve(spec.method_options)
    needs = method.needs_with(options)
    rule.resolve(spec.allocation_options)
    asked = 0.0 if method.name == "none" else spec.sparsity
    if not asked:
        if spec.mask:  # it removes nothing, and still has to be one for this model
            targets = find_targets(model)
            _check(method, targets, [0.0] * len(targets.blocks), options)
        return replace(dense_receipt(model, spec), mask=_mask_put(spec))
    load = partial(reuse.rows, make=_rows) if reuse else _rows
    if isinstance(method, StructuredMethod):
        _require_no_mask(spec)
        with torch.no_grad(), _settled(model):
            return prune_structured(model, tokenizer, spec, method, _without_labels(load), progress, batch_rows)
    saves = bool(spec.save_mask) and os.environ.get("RANK", "0") == "0"  # of several processes the first
    if saves:
        require_free(Path(spec.save_mask))
    targets = find_targets(model)
    targets.require_reached()
    require_possible(spec)
    if spec.kept is not None:
        targets.require_divisible(spec.kept[1])
    allotment: Allotment | None = None
    if rule.needs is Needs.NOTHING:
        allotment = allot(rule, spec, targets, asked)
        _check(method, targets, allotment.shares, options)
    weights = targets.weights()
    device = weights[0].device
    phases = Phases(device)
    precision = Precision(spec.calibration_dtype, weights[0].parameter.dtype, device)
    calibration: dict[str, Any] | None = None
    batches: list[Batch] = []
    labels: Labels | None = None
    with torch.no_grad(), _settled(model):
        with phases.phase("check"):
            require_finite(targets.opened())
            before = count_zeros(targets.opened())
        if needs is not Needs.NOTHING or rule.needs is not Needs.NOTHING:
            with phases.phase("calibration"):
                rows, calibration, languages = load(spec, tokenizer)
                shape = (rows.shape[0], rows.shape[1])
                fit = min(batch_rows or rows_at_once(model, targets, shape, device, spec.sequential), shape[0])
                calibration["batch_rows"] = fit
                calibration["forward_dtype"] = str(precision.dtype).removeprefix("torch.")
                if method.check_text is not None:
                    method.check_text(calibration["tokens_per_language"], options)
                batches = make_batches(model, rows, fit)
                if languages is not None and Needs.LANGUAGES in needs | rule.needs:
                    labels = Labels.of(*languages, model, targets, fit)
        if allotment is None:
            with phases.phase("allocation"):
                look = watch_dense(model, rule.needs, targets, batches, precision, progress, labels)
                allotment = allot(rule, spec, targets, asked, look)
            _check(method, targets, allotment.shares, options)
        shares = allotment.shares
        with phases.phase("prune"):
            if needs is Needs.NOTHING:
                done = prune_without_inputs(method, spec, targets, shares)
            else:
                done = prune_along_walk(
                    model, method, spec, targets, shares, batches, precision, progress, reuse, labels
                )
        if batches:
            Heap(device).give_back_all()
        with phases.phase("receipt"):
            after = count_zeros(targets.opened())
            whole = whole_model_sparsity(model)
            digest = hash_weights(targets.opened())
            saved = save_mask(model, spec.save_mask, spec.to_dict()) if saves else None
    records = _records(weights, before, after, done)
    size = sum(weight.matrix().numel() for weight in weights)
    return Receipt(
        **circumstances(spec, phases, weights[0].parameter.dtype),
        sparsity_asked=asked,
        sparsity_reached=sum(after) / size,
        sparsity_masked=sum(record.masked for record in records) / size,
        whole_model_sparsity=whole,
        coverage=targets.coverage,
        unreached=targets.unreached,
        weights=records,
        calibration=calibration,
        weights_sha256=digest,
        allocation=table(rule, spec, targets, allotment),
        saved_mask=saved,
        mask=_mask_put(spec),
    )


def _check(method: Method, targets: Targets, shares: Sequence[float], options: Mapping[str, Any]) -> None:
    """Lets a method refuse what is out of its reach."""
    if method.check is not None:
        pairs = zip(targets.blocks, shares, strict=True)
        method.check([(weight, share) for block, share in pairs for weight in block.weights()], options)


def _mask_put(spec: PruneSpec) -> dict[str, str] | None:
    """Returns the mask that a spec rests on, as a receipt lists it."""
    return {"path": spec.mask, "sha256": read_header(Path(spec.mask)).digest} if spec.mask else None


def _require_no_mask(spec: PruneSpec) -> None:
    if spec.save_mask:
        raise PruneError(
            f"save_mask is {spec.save_mask!r}, but method {spec.method!r} removes whole structures and leaves no mask: "
            "expected an unstructured method; leave save_mask out, and save the model itself"
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


def _without_labels(load: Callable[[PruneSpec, Any], Loaded]) -> MakeRows:
    """Returns what makes rows and facts alone."""

    def make(spec: PruneSpec, tokenizer: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        rows, facts, _ = load(spec, tokenizer)
        return rows, facts

    return make


def _rows(spec: PruneSpec, tokenizer: Any) -> Loaded:
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
    return loaded.rows, facts, None if loaded.labels is None else (loaded.languages, loaded.labels)


def _records(
    weights: Sequence[Weight], before: Sequence[int], after: Sequence[int], done: Done
) -> tuple[WeightRecord, ...]:
    return tuple(
        WeightRecord.of(
            weight,
            zeros_before,
            zeros_after,
            done.outcomes[weight].masked,
            damping=done.outcomes[weight].damping,
            starved=weight in done.starved,
        )
        for weight, zeros_before, zeros_after in zip(weights, before, after, strict=True)
    )
