r"""Read the files of a run: only this module and `run_facts` know how the harness lays them out.

lm-eval writes ``results_<T>.json`` and one ``samples_<task>_<T>.jsonl`` a task. Lines are split at ``\n`` alone, since
answers hold U+2028 and U+0085 raw; ``NaN`` and ``Infinity`` are accepted as numbers, as Python writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.halves import RECORD_SCHEMA, Half, parse_half
from lm_eval_illusion.report.row_facts import completed, options_digest
from lm_eval_illusion.report.run_facts import RUN_AGAIN, facts_of, generation_of, section
from lm_eval_illusion.report.runs import Document, HalfRecord, Run, TaskFacts
from lm_eval_illusion.report.tallies import check_tally

__all__ = ["find_results", "read_run"]


def find_results(path: Path) -> Path:
    """The one results file of a run.

    Args:
        path: A run folder (searched recursively) or a results file itself.

    Raises:
        IllusionError: No such path, no results file, or more than one.
    """
    if path.is_file():
        if path.suffix != ".json" or not path.name.startswith("results_"):
            raise IllusionError(f"{path} is not a results_*.json file; give a run folder or the results file in it")
        return path
    if not path.is_dir():
        raise IllusionError(
            f"no run folder at {path}; expected what `lm_eval --output_path {path} --log_samples` writes: {RUN_AGAIN}"
        )
    found = sorted(path.rglob("results_*.json"))
    if not found:
        raise IllusionError(
            f"no results_*.json under {path}: the run did not end, or saving failed (the harness only warns "
            f"then); {RUN_AGAIN}"
        )
    if len(found) > 1:
        raise IllusionError(
            f"{len(found)} runs under {path}: {', '.join(str(f.relative_to(path)) for f in found[:4])}; expected one: "
            "give each run its own --output_path, or name the results file itself"
        )
    return found[0]


def read_run(path: Path) -> Run:
    """Read a run: facts, tasks and every half.

    Args:
        path: A run folder or its results file.

    Raises:
        IllusionError: Anything missing, damaged, duplicated or foreign, named by file and line.
    """
    results_file = find_results(path)
    results = _load(results_file, results_file.read_bytes())
    try:
        return _read(path, results_file, results)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise IllusionError(
            f"{results_file}: damaged or edited, a value is of another type than lm_eval writes ({error}); {RUN_AGAIN}"
        ) from None


def _read(path: Path, results_file: Path, results: Mapping[str, Any]) -> Run:
    configs = section(results, "configs", results_file)
    names = sorted(configs)
    if not names:
        raise IllusionError(f"{results_file} lists no tasks; {RUN_AGAIN}")
    stamp = results_file.stem.removeprefix("results_")
    tasks: dict[str, TaskFacts] = {}
    halves: dict[str, dict[str, HalfRecord]] = {}
    documents: dict[str, Document] = {}
    for name in names:
        samples = results_file.parent / f"samples_{name}_{stamp}.jsonl"
        if not samples.is_file():
            raise IllusionError(
                f"{results_file} names task {name}, but {samples.name} is missing beside it; {RUN_AGAIN}"
            )
        mine: list[Half] = []
        for where, record in _records(samples):
            mine.append(_add(where, name, record, halves, documents))
        count = len(mine)
        _check_count(results, name, count, samples)
        check_tally(results, samples, name, mine)
        tasks[name] = TaskFacts(
            name=name,
            version=str(section(results, "versions", results_file).get(name)),
            num_fewshot=int(section(results, "n-shot", results_file).get(name) or 0),
            generation=generation_of(configs[name]),
            records=count,
        )
    return Run(path, results_file, facts_of(results, results_file), tasks, halves, documents)


def _load(where: Path | str, text: bytes) -> dict[str, Any]:
    try:
        value = from_json(text, allow_inf_nan=True, cache_strings="keys")
    except ValueError as error:
        raise IllusionError(f"{where} is not JSON ({error}): cut off or edited; {RUN_AGAIN}") from None
    if not isinstance(value, dict):
        raise IllusionError(f"{where} holds a JSON {type(value).__name__}, expected an object; {RUN_AGAIN}")
    return value


def _records(samples: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with samples.open("rb") as lines:  # binary lines end at \n only
        for number, line in enumerate(lines, 1):
            if line.strip():
                where = f"{samples}:{number}"
                yield where, _load(where, line)


def _check_count(results: Mapping[str, Any], task: str, count: int, samples: Path) -> None:
    said = ((results.get("n-samples") or {}).get(task) or {}).get("effective")
    if not count:
        raise IllusionError(f"{samples} holds no records; {RUN_AGAIN}")
    if said is not None and int(said) != count:
        raise IllusionError(
            f"{samples} holds {count} records where the results file counts {said} items of {task}: cut off, "
            "appended to, "
            f"or several filters; {RUN_AGAIN}"
        )


def _add(
    where: str,
    task: str,
    record: Mapping[str, Any],
    halves: dict[str, dict[str, HalfRecord]],
    documents: dict[str, Document],
) -> Half:
    metric = record.get("illusion")
    if not isinstance(metric, dict):
        raise IllusionError(
            f"{where}: task {task} carries no `illusion` metric, so its items cannot be paired; run this "
            "package's tasks "
            "only (`lm_eval ls tasks --include_path` or `lm-eval-illusion doctor` lists them)"
        )
    if metric.get("schema") != RECORD_SCHEMA:
        raise IllusionError(
            f"{where}: `illusion` record of schema {metric.get('schema')!r}, expected {RECORD_SCHEMA}: written "
            "by another "
            f"version of lm-eval-illusion; {RUN_AGAIN}"
        )
    if metric.get("condition") not in CONDITIONS:
        raise IllusionError(
            f"{where}: unknown condition {metric.get('condition')!r} in task {task}, known: {', '.join(CONDITIONS)}; "
            "`pip install --upgrade lm-eval-illusion`"
        )
    found = record.get("doc")
    doc = found if isinstance(found, dict) else {}
    try:
        half = parse_half(completed(metric, doc))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in (metric["condition"], *first["loc"]))
        raise IllusionError(f"{where}: damaged `illusion` record at {field}: {first['msg']}; {RUN_AGAIN}") from None
    seen = halves.setdefault(half.condition, {})
    if half.item_id in seen:
        raise IllusionError(
            f"{where}: item {half.item_id} occurs twice under {half.condition} (before in task "
            f"{seen[half.item_id].task}); "
            f"expected each item once; {RUN_AGAIN}"
        )
    hashes = [record.get(key) for key in ("doc_hash", "prompt_hash")]
    if not all(isinstance(value, str) and value for value in hashes):
        raise IllusionError(f"{where}: item {half.item_id} has no doc_hash or prompt_hash; {RUN_AGAIN}")
    seen[half.item_id] = HalfRecord(task, str(hashes[0]), str(hashes[1]), half, options_digest(doc))
    if half.item_id not in documents:
        documents[half.item_id] = Document(str(doc.get("question", "")), str(doc.get("passage", "")))
    return half
