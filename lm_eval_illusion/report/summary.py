"""What a run was, in brief: prompt, pruning receipt, and whether calibration text overlaps what is evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.layers import layers_of
from lm_eval_illusion.report.naming import distinguish, numbered, settings_of
from lm_eval_illusion.report.overlap import find_overlap
from lm_eval_illusion.report.runs import Run
from lm_eval_illusion.report.schema import PruningSummary, RunSummary, TaskAsked

__all__ = ["label_runs", "summarise_run"]

_DAMAGE = (ValidationError, AttributeError, OverflowError, TypeError, ValueError)
"""What values of other types than a receipt's lead to."""


def label_runs(runs: list[Run]) -> list[str]:
    """Short, distinct names: method, sparsity and what differs where runs were pruned, else `dense` or the folder."""
    parts = [_parts(run, index, runs[0]) for index, run in enumerate(runs)]
    bases = [base for base, _ in parts]
    extras = distinguish(bases, [settings for _, settings in parts])
    names = (f"{base} {extra}".rstrip() for base, extra in zip(bases, extras, strict=True))
    return numbered([re.sub(r"[^\w .:+-]", "_", name)[:60] for name in names])


def _parts(run: Run, index: int, first: Run) -> tuple[str, dict[str, str]]:
    try:
        return _base(run, index, first), _told_apart(run)
    except _DAMAGE as error:
        raise _damaged(run, error) from None


def _base(run: Run, index: int, first: Run) -> str:
    spec = _spec(run)
    if not spec or spec.get("method") == "none":
        same = bool(spec) and run.facts.identity.get("pretrained") == first.facts.identity.get("pretrained")
        return "dense" if index == 0 or same else _folder(run)
    unstructured = spec.get("pattern") in (None, "unstructured")
    method = str(spec.get("method")).rpartition(":")[2]  # of a user's own, the name alone; Runs has the module
    return f"{method} {_number(spec.get('sparsity')) if unstructured else spec.get('pattern')}"


def _told_apart(run: Run) -> dict[str, str]:
    """Return what tells runs of one method and sparsity apart; a dense model has nothing of the kind."""
    spec = _spec(run)
    if not spec or spec.get("method") == "none":
        return {}
    seed = spec.get("prune_seed")
    method = str(spec.get("method"))
    own = {"method": method} if ":" in method else {}
    return {**own, **settings_of(spec, _calibration(run)), **({} if seed is None else {"seed": str(seed)})}


def summarise_run(run: Run, label: str) -> RunSummary:
    """Facts, receipt and overlap of one run.

    Raises:
        IllusionError: The receipt's values have other types than a receipt's.
    """
    try:
        return _summarise(run, label)
    except _DAMAGE as error:
        raise _damaged(run, error) from None


def _damaged(run: Run, error: Exception) -> IllusionError:
    reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
    return IllusionError(
        f"{run.results_file}: damaged pruning receipt or run facts ({reason}); run `lm_eval --log_samples` again"
    )


def _summarise(run: Run, label: str) -> RunSummary:
    facts = run.facts
    halves = [record.half for records in run.halves.values() for record in records.values()]
    return RunSummary(
        label=label,
        path=str(run.path),
        results_file=run.results_file.name,
        model=facts.model,
        model_args=facts.model_args,
        harness_version=facts.harness_version,
        transformers_version=facts.transformers_version,
        identity=dict(facts.identity),
        tasks=sorted(run.tasks),
        asked={
            name: TaskAsked(version=task.version, num_fewshot=task.num_fewshot, generation=task.generation)
            for name, task in sorted(run.tasks.items())
        },
        fewshot_as_multiturn=facts.fewshot_as_multiturn,
        num_fewshot=sorted({task.num_fewshot for task in run.tasks.values()}),
        chat_template=facts.chat_template,
        system_instruction=facts.system_instruction,
        enable_thinking=facts.enable_thinking,
        gen_kwargs=facts.gen_kwargs,
        limit=facts.limit,
        batch_size=facts.batch_size,
        device=facts.device,
        truncation_checked=all(half.fits is not None for half in halves),
        pruning=_pruning(run),
        overlap=find_overlap(run),
    )


def _spec(run: Run) -> Mapping[str, Any]:
    spec = (run.facts.receipt or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _calibration(run: Run) -> Mapping[str, Any]:
    calibration = (run.facts.receipt or {}).get("calibration") or {}
    if not isinstance(calibration, dict):
        raise IllusionError(
            f"{run.results_file}: damaged pruning receipt or run facts (calibration is a "
            f"{type(calibration).__name__}); run `lm_eval --log_samples` again"
        )
    return calibration


def _folder(run: Run) -> str:
    folder = run.path if run.path.is_dir() else run.path.parent
    return folder.resolve().name or run.facts.model


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _pruning(run: Run) -> PruningSummary | None:
    receipt = run.facts.receipt
    if receipt is None:
        return None
    spec, calibration = _spec(run), _calibration(run)
    return PruningSummary(
        method=spec.get("method"),
        pattern=spec.get("pattern"),
        allocation=spec.get("allocation"),
        seed=spec.get("prune_seed"),
        settings=settings_of(spec, calibration),
        sparsity_asked=receipt.get("sparsity_asked"),
        sparsity_reached=receipt.get("sparsity_reached"),
        whole_model_sparsity=receipt.get("whole_model_sparsity"),
        coverage=receipt.get("coverage"),
        calibration_source=calibration.get("source"),
        calibration_rows=calibration.get("rows"),
        calibration_length=calibration.get("length"),
        calibration_digest=calibration.get("digest"),
        tokens_per_language=calibration.get("tokens_per_language"),
        spec_digest=receipt.get("spec_digest"),
        weights_sha256=receipt.get("weights_sha256"),
        layers=layers_of(receipt),
    )
