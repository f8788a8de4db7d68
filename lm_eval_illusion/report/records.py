r"""Read the files of a run: the only module that knows how the harness lays them out.

lm-eval writes ``results_<T>.json`` and one ``samples_<task>_<T>.jsonl`` a task. Lines are split at ``\n`` alone, since
answers hold U+2028 and U+0085 raw; ``NaN`` and ``Infinity`` are accepted as numbers, as Python writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.halves import CONDITIONS, RECORD_SCHEMA, parse_half
from lm_eval_illusion.report.runs import IDENTITY, Document, HalfRecord, Run, RunFacts, TaskFacts

__all__ = ["find_results", "read_run"]

_AGAIN = "run `lm_eval ... --log_samples --output_path NEW_FOLDER` again"


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
            f"no run folder at {path}; expected what `lm_eval --output_path {path} --log_samples` writes: {_AGAIN}"
        )
    found = sorted(path.rglob("results_*.json"))
    if not found:
        raise IllusionError(
            f"no results_*.json under {path}: the run did not end, or saving failed (the harness only warns "
            f"then); {_AGAIN}"
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
    configs = _section(results, "configs", results_file)
    names = sorted(configs)
    if not names:
        raise IllusionError(f"{results_file} lists no tasks; {_AGAIN}")
    stamp = results_file.stem.removeprefix("results_")
    tasks: dict[str, TaskFacts] = {}
    halves: dict[str, dict[str, HalfRecord]] = {}
    documents: dict[str, Document] = {}
    for name in names:
        samples = results_file.parent / f"samples_{name}_{stamp}.jsonl"
        if not samples.is_file():
            raise IllusionError(f"{results_file} names task {name}, but {samples.name} is missing beside it; {_AGAIN}")
        count = 0
        for where, record in _records(samples):
            _add(where, name, record, halves, documents)
            count += 1
        _check_count(results, name, count, samples)
        tasks[name] = TaskFacts(
            name=name,
            version=str(_section(results, "versions", results_file).get(name)),
            num_fewshot=int(_section(results, "n-shot", results_file).get(name) or 0),
            generation=_generation(configs[name]),
            records=count,
        )
    return Run(path, results_file, _facts(results, results_file), tasks, halves, documents)


def _load(where: Path | str, text: bytes) -> dict[str, Any]:
    try:
        value = from_json(text, allow_inf_nan=True, cache_strings="keys")
    except ValueError as error:
        raise IllusionError(f"{where} is not JSON ({error}): cut off or edited; {_AGAIN}") from None
    if not isinstance(value, dict):
        raise IllusionError(f"{where} holds a JSON {type(value).__name__}, expected an object; {_AGAIN}")
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
        raise IllusionError(f"{samples} holds no records; {_AGAIN}")
    if said is not None and int(said) != count:
        raise IllusionError(
            f"{samples} holds {count} records where the results file counts {said} items of {task}: cut off, "
            "appended to, "
            f"or several filters; {_AGAIN}"
        )


def _add(
    where: str,
    task: str,
    record: Mapping[str, Any],
    halves: dict[str, dict[str, HalfRecord]],
    documents: dict[str, Document],
) -> None:
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
            f"version of lm-eval-illusion; {_AGAIN}"
        )
    if metric.get("condition") not in CONDITIONS:
        raise IllusionError(
            f"{where}: unknown condition {metric.get('condition')!r} in task {task}, known: {', '.join(CONDITIONS)}; "
            "`pip install --upgrade lm-eval-illusion`"
        )
    try:
        half = parse_half(metric)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise IllusionError(f"{where}: damaged `illusion` record at {field}: {first['msg']}; {_AGAIN}") from None
    seen = halves.setdefault(half.condition, {})
    if half.item_id in seen:
        raise IllusionError(
            f"{where}: item {half.item_id} occurs twice under {half.condition} (before in task "
            f"{seen[half.item_id].task}); "
            f"expected each item once; {_AGAIN}"
        )
    hashes = [record.get(key) for key in ("doc_hash", "prompt_hash")]
    if not all(isinstance(value, str) and value for value in hashes):
        raise IllusionError(f"{where}: item {half.item_id} has no doc_hash or prompt_hash; {_AGAIN}")
    seen[half.item_id] = HalfRecord(task, str(hashes[0]), str(hashes[1]), half)
    if half.item_id not in documents:
        doc = record.get("doc")
        doc = doc if isinstance(doc, dict) else {}
        documents[half.item_id] = Document(str(doc.get("question", "")), str(doc.get("passage", "")))


def _section(table: Mapping[str, Any], key: str, where: Path) -> dict[str, Any]:
    value = table.get(key)
    if value is not None and not isinstance(value, dict):
        raise IllusionError(
            f"{where}: {key} is a {type(value).__name__}, expected an object: edited or damaged; {_AGAIN}"
        )
    return value or {}


def _facts(results: Mapping[str, Any], where: Path) -> RunFacts:
    config = _section(results, "config", where)
    illusion = _section(config, "illusion", where)
    args = config.get("model_args")
    if isinstance(args, dict):
        args = ",".join(f"{key}={value}" for key, value in args.items())
    gen_kwargs = config.get("gen_kwargs")
    template = results.get("chat_template_sha")
    system = results.get("system_instruction")
    date = results.get("date")
    return RunFacts(
        model=str(config.get("model")),
        model_args=str(args or ""),
        date=float(date) if isinstance(date, (int, float)) else None,
        harness_version=_text(results.get("lm_eval_version")),
        transformers_version=_text(results.get("transformers_version")),
        identity=_identity(results, config, illusion, where),
        system_instruction=_text(system) if system else None,
        chat_template=_text(template) if results.get("chat_template") else None,
        fewshot_as_multiturn=results.get("fewshot_as_multiturn"),
        gen_kwargs=_text(gen_kwargs) if gen_kwargs else None,
        limit=config.get("limit"),
        use_cache=_text(config.get("use_cache")),
        batch_size=_text(config.get("batch_size")),
        device=_text(config.get("device")),
        enable_thinking=illusion.get("enable_thinking"),
        receipt=_section(illusion, "receipt", where) or None,
    )


def _identity(
    results: Mapping[str, Any], config: Mapping[str, Any], illusion: Mapping[str, Any], where: Path
) -> dict[str, str | None]:
    """Return what was loaded: as pruned_hf tells it, else what the harness knows.

    The harness's own `device` is what was asked for, cuda:0 by default whatever was used, and says nothing.
    """
    told, versions = _section(illusion, "model", where), _section(illusion, "versions", where)
    args = config.get("model_args") or {}
    if isinstance(args, str):
        args = dict(part.strip().partition("=")[::2] for part in args.split(","))
    torch = re.search(r"^PyTorch version: (\S+)", str(results.get("pretty_env_info")), re.MULTILINE)
    known = {
        "pretrained": args.get("pretrained"),
        "revision": config.get("model_revision"),
        "parameters": config.get("model_num_parameters"),
        "dtype": config.get("model_dtype"),
        "max_length": results.get("max_length"),
        "torch": versions.get("torch") or (torch and torch[1]),
        **told,
    }
    facts = {name: _text(known.get(name)) for name in IDENTITY}
    dtype, device = facts["dtype"], facts["device"]
    return {
        **facts,
        "dtype": dtype.removeprefix("torch.") if dtype else None,
        "device": device.partition(":")[0] if device else None,
    }


def _generation(config: object) -> str | None:
    asked = config.get("generation_kwargs") if isinstance(config, dict) else None
    return json.dumps(asked, sort_keys=True, ensure_ascii=False, default=str) if asked else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
