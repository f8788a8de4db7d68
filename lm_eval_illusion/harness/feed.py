"""Feeds the items of finished runs to a second one: only what was failed, and what was answered before.

All requests of a run are built before any answer exists. What depends on earlier answers is therefore a run of its
own, told by a file which items to ask and what the model answered in the first place.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.folders import make_folder
from lm_eval_illusion.harness.names import PairedTask
from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.halves import GenerationHalf, answered
from lm_eval_illusion.report.records import read_run
from lm_eval_illusion.report.runs import Run

log = logging.getLogger("lm_eval.illusion")

SCHEMA = 1
"""Version of the file."""
FILE = "fed.json"
"""Its name, in the run's output folder."""
ANSWERING = tuple(dict.fromkeys(c.answers_from for c in CONDITIONS.values() if c.answers_from))
"""Conditions whose answers are shown again: mc, gen and the first round of self-correction."""

Place = tuple[str, str]
"""Data set and language."""


class NothingToProbeError(IllusionError):
    """No item was failed."""


@dataclass(frozen=True)
class Feeding:
    """What a command line asks to be fed."""

    answers: str | None = None
    """Run folder whose answers are shown again (`--answers`)."""
    failures: tuple[str, ...] = ()
    """Run folders whose failures are asked (`--probe-failures`): items that any of them failed."""


@dataclass(frozen=True)
class Fed:
    """What finished runs hand on."""

    items: tuple[str, ...] | None
    """Item ids to ask, sorted; None asks all."""
    answers: Mapping[str, Mapping[str, str]] | None
    """Item id -> condition -> what was answered; None where no answers were asked for."""
    places: Mapping[str, Place]
    """Item id -> data set and language, of every item named above."""
    sources: tuple[tuple[str, str], ...]
    """Name and SHA-256 of each results file that was read."""

    def written(self) -> str:
        """Return the file's text."""
        told = {
            "schema": SCHEMA,
            "from": [{"results": name, "sha256": digest} for name, digest in self.sources],
            "items": None if self.items is None else list(self.items),
            "answers": self.answers,
        }
        return json.dumps(told, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def gather(feeding: Feeding) -> Fed:
    """Read the runs that are to be fed on.

    Raises:
        NothingToProbeError: Failures are asked for and there are none.
        IllusionError: A run cannot be read, or holds nothing of the kind.
    """
    runs = {name: read_run(Path(name)) for name in dict.fromkeys([*feeding.failures, *_named(feeding.answers)])}
    places: dict[str, Place] = {}
    failed: dict[str, Place] = {}
    for name in feeding.failures:
        failed |= _failures(runs[name])
    if feeding.failures and not failed:
        raise NothingToProbeError(
            f"--probe-failures {' '.join(feeding.failures)}: every valid open answer there is right, so there is "
            "nothing to probe; leave the option out to probe all items"
        )
    answers = _answers(runs[feeding.answers], places) if feeding.answers else None
    places |= failed
    sources = [(run.results_file.name, _sha256(run.results_file)) for run in runs.values()]
    return Fed(tuple(sorted(failed)) if feeding.failures else None, answers, places, tuple(sources))


def _named(path: str | None) -> tuple[str, ...]:
    return () if path is None else (path,)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _failures(run: Run) -> dict[str, Place]:
    records = run.halves.get("gen")
    if not records:
        raise IllusionError(
            f"--probe-failures {run.path}: no open answers (gen) there, it holds {', '.join(sorted(run.halves))}; "
            "failures are those of open generation: run the _gen tasks first"
        )
    found = {}
    for item_id, record in records.items():
        half = record.half
        if isinstance(half, GenerationHalf) and half.valid and half.right.get("standard") is False:
            found[item_id] = (half.dataset, half.language)
    return found


def _answers(run: Run, places: dict[str, Place]) -> dict[str, dict[str, str]]:
    given: dict[str, dict[str, str]] = {}
    for condition in ANSWERING:
        for item_id, record in run.halves.get(condition, {}).items():
            answer = answered(record.half)
            if answer is not None:
                given.setdefault(item_id, {})[condition] = answer
                places[item_id] = (record.half.dataset, record.half.language)
    if not given:
        raise IllusionError(
            f"--answers {run.path}: no answers to show again, it holds {', '.join(sorted(run.halves))}; expected a run "
            f"of {', '.join(ANSWERING)}"
        )
    return given


def narrow(fed: Fed, tasks: Iterable[PairedTask]) -> list[PairedTask]:
    """Return the tasks that have something to ask; the others would end the run for want of rows, and are logged.

    Raises:
        IllusionError: None has, or one is about answers of a kind that nobody gave.
    """
    asked = list(tasks)
    _require_answers(fed, asked)
    left = [task for task in asked if _has_items(fed, task)]
    if left:
        if len(left) < len(asked):
            out = [task.name for task in asked if task not in left]
            log.warning("left out, since the runs that are fed hold no item for them: %s", ", ".join(out))
        return left
    there = sorted({f"{dataset} {language}" for dataset, language in fed.places.values()})
    raise IllusionError(
        f"--tasks {','.join(task.name for task in asked[:6])}{',...' if len(asked) > 6 else ''}: the runs that are fed "
        f"hold nothing for them; they hold {', '.join(there)} "
        f"({', '.join(sorted({c for given in (fed.answers or {}).values() for c in given}) or ['failures'])}): "
        "ask tasks of those, or feed another run"
    )


def _require_answers(fed: Fed, asked: Sequence[PairedTask]) -> None:
    """Raise where a task shows answers again of which not one was given, in any language."""
    given = {condition for answers in (fed.answers or {}).values() for condition in answers}
    for task in asked:
        source = CONDITIONS[task.condition].answers_from
        if fed.answers is not None and source is not None and source not in given:
            raise IllusionError(
                f"--tasks {task.name}: it shows the {source} answers again, and the run named by --answers holds those "
                f"of {', '.join(sorted(given))} alone; ask the {source} tasks first, or leave {task.condition} out"
            )


def _has_items(fed: Fed, task: PairedTask) -> bool:
    place, source = (task.dataset, task.language), CONDITIONS[task.condition].answers_from
    if source is None:
        return fed.items is None or any(fed.places[item] == place for item in fed.items)
    given = fed.answers or {}
    items: Sequence[str] = fed.items if fed.items is not None else tuple(given)
    return any(fed.places[item] == place and source in given.get(item, {}) for item in items)


def write(fed: Fed, folder: Path) -> tuple[Path, str]:
    """Write the file (to a temporary file, then renamed).

    Returns:
        Its path, absolute, and its SHA-256.
    """
    make_folder(folder, "give a writable folder with --output_path")
    text, path = fed.written().encode("utf-8"), (folder / FILE).resolve()
    scratch = path.with_name(f"{FILE}.{os.getpid()}.tmp")
    scratch.write_bytes(text)
    os.replace(scratch, path)
    return path, hashlib.sha256(text).hexdigest()
