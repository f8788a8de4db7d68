"""A folder that holds one planned run: a marker in it says what the run is made from and whether it is finished.

A finished run is never made again while its files are there; an interrupted one is cleared and made anew; anything else
in the way is an error.
"""

from __future__ import annotations

import gc
import json
import logging
import os
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.folders import make_folder
from lm_eval_illusion.harness import launch
from lm_eval_illusion.harness.folder_lock import LOCK, alone_in
from lm_eval_illusion.harness.planned import PlannedRun

log = logging.getLogger("lm_eval.illusion")

MARKER = "illusion_run.json"
SCRATCH = f"{MARKER}.tmp"
"""What the marker is written to before it is renamed; left behind where the process was killed in between."""
KINDS = ("results_", "samples_")
"""How the names of a run's files begin."""


def is_finished(folder: Path, wanted: dict[str, Any]) -> bool:
    """Say whether a folder already holds the wanted run, finished, with all its files.

    Args:
        folder: The run folder; need not exist.
        wanted: `PlannedRun.made_from()`.

    Raises:
        IllusionError: If it holds a finished run made from something else, files that this project did not write, or a
            marker that cannot be read.
    """
    marker = folder / MARKER
    if marker.is_file():
        held = _marked(marker)
        if not held["finished"] or held["made_from"] == wanted:
            return bool(held["finished"]) and not _missing(folder, held)
        raise IllusionError(
            f"{folder}: holds a run with other {', '.join(differences(held['made_from'], wanted))}; remove that folder "
            "(what lies beside it is kept), or choose another --out"
        )
    if folder.exists() and any(path.name not in (LOCK, SCRATCH) for path in folder.iterdir()):
        raise IllusionError(f"{folder}: not empty and not written by this command; choose another --out")
    return False


def _marked(marker: Path) -> dict[str, Any]:
    try:
        held: dict[str, Any] = json.loads(marker.read_text(encoding="utf-8"))
        if isinstance(held["finished"], bool) and isinstance(held["made_from"], dict):
            return held
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise IllusionError(
        f"{marker}: does not say what the run beside it was made from; expected a file that this command wrote: "
        "remove the folder, or choose another --out"
    )


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name.startswith(KINDS)]


def _missing(folder: Path, held: dict[str, Any]) -> list[str]:
    """Return which files of a finished run are gone: by name, or by kind where none of a kind is left."""
    there = _files(folder)
    named = {path.relative_to(folder).as_posix() for path in there}
    gone = [name for name in held.get("files", ()) if name not in named]
    kinds = [f"{kind}*" for kind in KINDS if not any(path.name.startswith(kind) for path in there)]
    return gone or kinds


def differences(held: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Return the names of the options that differ, those of the model one by one (`model_args.sparsity`), sorted."""
    found = []
    for key in sorted(held.keys() | wanted.keys()):
        mine, theirs = held.get(key), wanted.get(key)
        if mine == theirs:
            continue
        if key == "model_args" and isinstance(mine, dict) and isinstance(theirs, dict):
            found += [f"{key}.{name}" for name in differences(mine, theirs)]
        else:
            found.append(key)
    return found


def mark(folder: Path, wanted: dict[str, Any], *, finished: bool) -> None:
    """Write the marker (to a temporary file, then renamed); a finished run's names the files that are there."""
    make_folder(folder)
    told: dict[str, Any] = {"finished": finished, "made_from": wanted}
    if finished:
        told["files"] = sorted(path.relative_to(folder).as_posix() for path in _files(folder))
    (folder / SCRATCH).write_text(json.dumps(told, indent=1), encoding="utf-8")
    os.replace(folder / SCRATCH, folder / MARKER)


def run_once(plan: PlannedRun, folder: Path) -> Path:
    """Make a run in its folder, unless it is there.

    Raises:
        IllusionError: As `is_finished`, if the harness left no files, and if another process is making a run there.
    """
    wanted = plan.made_from()
    if is_finished(folder, wanted):
        log.info("%s: already run with these options, kept", folder)
        return folder
    first = int(os.environ.get("RANK", "0")) == 0  # under torchrun the first process writes, for all
    with alone_in(folder):
        if first:
            _clear(folder)
            mark(folder, wanted, finished=False)
        launch.run(plan.arguments(folder), plan.feeding)
        if first:
            mark(folder, wanted, finished=True)
    gc.collect()
    return folder


def _clear(folder: Path) -> None:
    """Remove what is left of a run of ours that was interrupted, or is no longer whole: the marker says so."""
    if not (folder / MARKER).is_file():
        return
    held = _marked(folder / MARKER)
    if held["finished"]:
        gone = ", ".join(_missing(folder, held))
        log.warning("%s: was finished, but %s is gone: run again", folder, gone)
    for path in _files(folder):
        path.unlink()
