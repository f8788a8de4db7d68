"""A stored report: read, checked for sense, and its runs brought back so that a later run is compared with them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.build import DEFAULTS
from lm_eval_illusion.report.halves import HALVES, RECORD_SCHEMA, parse_half
from lm_eval_illusion.report.runs import Document, HalfRecord, Run, RunFacts, TaskFacts
from lm_eval_illusion.report.schema import PruningSummary, ReportFile, RunSummary

__all__ = ["is_report", "read_report", "restore_run"]

REPORT_AGAIN = "write it again with `lm-eval-illusion report RUN_DENSE RUN_PRUNED --out DIR`"


def is_report(path: Path) -> bool:
    """Whether a path names a report: report.json itself, another JSON file that is no results file, or its folder."""
    if path.is_dir():
        return (path / "report.json").is_file()
    return path.suffix == ".json" and not path.name.startswith("results_")


def read_report(path: Path) -> ReportFile:
    """Read report.json and check that its parts agree.

    Args:
        path: The file, or the folder it lies in.

    Raises:
        IllusionError: It cannot be read, is of another schema, or contradicts itself.
    """
    file = _file(path)
    try:
        held = file.read_bytes()
    except OSError as error:
        raise IllusionError(f"{file}: cannot be read ({error}); expected a report.json: {REPORT_AGAIN}") from None
    try:
        report = ReportFile.model_validate_json(held, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][:6])
        raise IllusionError(
            f"{file}: no report of this version ({place or 'the file'}: {first['msg']}); {REPORT_AGAIN}"
        ) from None
    wrong = _contradiction(report)
    if wrong:
        raise IllusionError(f"{file}: damaged or edited report ({wrong}); {REPORT_AGAIN}")
    return report


def _file(path: Path) -> Path:
    return path / "report.json" if path.is_dir() else path


def _contradiction(report: ReportFile) -> str | None:
    """What a report that this program wrote cannot hold."""
    labels = [run.label for run in report.runs]
    named = [label for comparison in report.comparisons for label in (comparison.dense, comparison.pruned)]
    if not report.comparisons:
        return "no comparison"
    if len(set(labels)) < len(labels) or not set(named) <= set(labels):
        return "runs that are named twice, or compared and not named"
    if report.settings != DEFAULTS:
        return f"other settings than {DEFAULTS!r}"
    for comparison in report.comparisons:
        places = Counter((row.scope, row.dataset, row.language) for row in comparison.rows)
        languages = [row for row in comparison.rows if row.scope == "language"]
        if max(places.values(), default=0) != 1 or places[("overall", None, None)] != 1:
            return f"{comparison.pruned}: not one overall row, or a row that stands twice"
        overall = next(row for row in comparison.rows if row.scope == "overall")
        for scope in ("joined", "excluded", "unmatched"):
            counts = [getattr(row, scope) for row in languages]
            if min([*counts, getattr(overall, scope)]) < 0 or sum(counts) != getattr(overall, scope):
                return f"{comparison.pruned}: {scope} items of all languages do not sum to the overall ones"
    return None


def restore_run(path: Path, label: str | None = None) -> Run:
    """Bring back one run of a stored report from the items file beside it.

    Args:
        path: report.json or its folder.
        label: Which run; the first, dense one if left out.

    Raises:
        IllusionError: No such run, a missing, damaged or foreign items file, or a run calibrated on evaluated text.
    """
    report, file = read_report(path), _file(path)
    summaries = {run.label: run for run in report.runs}
    summary = report.runs[0] if label is None else summaries.get(label)
    if summary is None:
        raise IllusionError(f"{file}: no run {label!r}; expected one of {', '.join(summaries)}")
    if summary.overlap.status == "overlap":
        raise IllusionError(
            f"{file}: {summary.label} was calibrated on evaluated texts and is no baseline ({summary.overlap.why}); "
            "prune again with other calibration text"
        )
    items_file = file.parent / "items.jsonl"
    try:
        held = items_file.read_bytes()
    except OSError as error:
        raise IllusionError(
            f"{items_file}: cannot be read ({error}); a baseline needs the items beside its report.json: {REPORT_AGAIN}"
        ) from None
    if hashlib.sha256(held).hexdigest() != report.items_sha256:
        raise IllusionError(
            f"{items_file} is not the items file that {file} was written with (its SHA-256 differs): cut off, edited "
            f"or of another report; {REPORT_AGAIN}"
        )
    try:
        return _run(file, summary, [json.loads(line) for line in held.decode("utf-8").split("\n") if line])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = re.sub(r"\s+", " ", str(error))[:200]
        raise IllusionError(f"{items_file}: not the lines of items ({said}); {REPORT_AGAIN}") from None


def _run(file: Path, summary: RunSummary, lines: list[dict[str, Any]]) -> Run:
    halves: dict[str, dict[str, HalfRecord]] = {}
    documents: dict[str, Document] = {}
    for line in lines:
        found = line["runs"][summary.label]
        if found is None:
            continue
        documents[line["item_id"]] = Document(line["question"], line["passage"])
        for condition, asked in found["asked"].items():
            half = parse_half(_record(line, found, condition))
            table = halves.setdefault(condition, {})
            table[line["item_id"]] = HalfRecord(asked["task"], asked["doc_hash"], asked["prompt_hash"], half)
    counts = Counter(record.task for table in halves.values() for record in table.values())
    tasks = {
        name: TaskFacts(name, asked.version, asked.num_fewshot, asked.generation, counts[name])
        for name, asked in summary.asked.items()
        if counts[name]
    }
    return Run(file, file, _facts(summary), tasks, halves, documents)


def _record(line: dict[str, Any], found: dict[str, Any], condition: str) -> dict[str, Any]:
    common = {key: line[key] for key in ("item_id", "dataset", "language", "cluster")}
    common |= {"schema": RECORD_SCHEMA, "condition": condition, "passage_sha256": line["passage_sha256"]}
    if list(HALVES).index(condition) == 2:
        return {**common, **found["generation"], "answers": line["answers"], "gold_text": line["gold"]}
    name = "near" if condition == "mc" else "far"
    return {**common, **found[name], **line[name]}


def _facts(summary: RunSummary) -> RunFacts:
    return RunFacts(
        model=summary.model,
        model_args=summary.model_args,
        date=None,
        harness_version=summary.harness_version,
        transformers_version=summary.transformers_version,
        identity=summary.identity,
        system_instruction=summary.system_instruction,
        chat_template=summary.chat_template,
        fewshot_as_multiturn=summary.fewshot_as_multiturn,
        gen_kwargs=summary.gen_kwargs,
        limit=summary.limit,
        use_cache=None,
        batch_size=summary.batch_size,
        device=summary.device,
        enable_thinking=summary.enable_thinking,
        receipt=_receipt(summary.pruning) if summary.pruning else None,
    )


def _receipt(pruning: PruningSummary) -> dict[str, Any]:
    """The receipt in brief; its text hashes are gone, so overlap reads `unchecked` where calibration text was used."""
    calibration = {
        "source": pruning.calibration_source,
        "rows": pruning.calibration_rows,
        "length": pruning.calibration_length,
        "digest": pruning.calibration_digest,
        "tokens_per_language": pruning.tokens_per_language,
    }
    return {
        "spec": {
            "method": pruning.method,
            "pattern": pruning.pattern,
            "allocation": pruning.allocation,
            "prune_seed": pruning.seed,
            "sparsity": pruning.sparsity_asked,
        },
        "spec_digest": pruning.spec_digest,
        "sparsity_asked": pruning.sparsity_asked,
        "sparsity_reached": pruning.sparsity_reached,
        "whole_model_sparsity": pruning.whole_model_sparsity,
        "coverage": pruning.coverage,
        "calibration": calibration if any(value is not None for value in calibration.values()) else None,
        "weights_sha256": pruning.weights_sha256,
    }
