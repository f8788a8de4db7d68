"""What a run was, in brief: prompt, pruning receipt, and whether calibration text overlaps what is evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.runs import Run
from lm_eval_illusion.report.schema import Overlap, PruningSummary, RunSummary

__all__ = ["label_runs", "summarise_run"]

HASH_CAP = 5000
"""The receipt lists at most this many text hashes; a full list may be cut."""


def label_runs(runs: list[Run]) -> list[str]:
    """Short, distinct names: method and sparsity where the run was pruned, else `dense` or the run folder's name."""
    labels: list[str] = []
    for index, run in enumerate(runs):
        spec = _spec(run)
        if spec and spec.get("method") != "none":
            label = f"{spec.get('method')} {_number(spec.get('sparsity'))}"
            if spec.get("pattern") not in (None, "unstructured"):
                label = f"{spec.get('method')} {spec.get('pattern')}"
        else:
            label = "dense" if index == 0 or spec else _folder(run)
        label = re.sub(r"[^\w .:+-]", "_", label)[:60]
        same = sum(1 for other in labels if other == label or other.startswith(f"{label} #"))
        labels.append(f"{label} #{same + 1}" if same else label)
    return labels


def summarise_run(run: Run, label: str) -> RunSummary:
    """Facts, receipt and overlap of one run.

    Raises:
        IllusionError: The receipt's values have other types than a receipt's.
    """
    try:
        return _summarise(run, label)
    except (ValidationError, AttributeError, TypeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise IllusionError(
            f"{run.results_file}: damaged pruning receipt or run facts ({reason}); run `lm_eval --log_samples` again"
        ) from None


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
        overlap=_overlap(run),
    )


def _spec(run: Run) -> Mapping[str, Any]:
    spec = (run.facts.receipt or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _folder(run: Run) -> str:
    folder = run.path if run.path.is_dir() else run.path.parent
    return folder.resolve().name or run.facts.model


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _pruning(run: Run) -> PruningSummary | None:
    receipt = run.facts.receipt
    if receipt is None:
        return None
    spec, calibration = _spec(run), receipt.get("calibration") or {}
    return PruningSummary(
        method=spec.get("method"),
        pattern=spec.get("pattern"),
        allocation=spec.get("allocation"),
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
    )


NOT_FOUND = "no calibration document is an evaluated passage; passages inside longer documents were not looked for"
"""What equal hashes can tell, and what not."""


def _overlap(run: Run) -> Overlap:
    """Compare calibration text hashes with the passages of every item of this run."""
    receipt = run.facts.receipt
    if receipt is None:
        return Overlap(status="unchecked", hashes=0, items=0, why="the run carries no pruning receipt")
    if _spec(run).get("method") == "none":
        return Overlap(status="not pruned", hashes=0, items=0, why="nothing was pruned")
    if not receipt.get("calibration"):
        return Overlap(status="no calibration", hashes=0, items=0, why="the method used no calibration text")
    hashes = set(receipt["calibration"].get("text_hashes") or [])
    if not hashes:
        return Overlap(
            status="unchecked", hashes=0, items=0, why="the receipt lists no text hashes (token rows were given)"
        )
    passages: dict[str, str | None] = {}
    for records in run.halves.values():
        for item_id, record in records.items():
            passages[item_id] = record.half.passage_sha256
    hits = sum(1 for passage in passages.values() if passage in hashes)
    if hits:
        return Overlap(status="overlap", hashes=len(hashes), items=hits, why="evaluated passages are calibration texts")
    unknown = sum(1 for passage in passages.values() if not passage)
    if unknown:
        return Overlap(status="unchecked", hashes=len(hashes), items=0, why=f"{unknown} items carry no passage hash")
    if len(hashes) >= HASH_CAP:
        why = f"the receipt stops at {HASH_CAP} texts; none of these is evaluated"
        return Overlap(status="unchecked", hashes=len(hashes), items=0, why=why)
    return Overlap(status="none", hashes=len(hashes), items=0, why=NOT_FOUND)
