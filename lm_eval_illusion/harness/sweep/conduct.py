"""Runs the points of a sweep one after the other, in this process, on one loaded model after the other."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

from lm_eval_illusion.errors import IllusionError, one_line
from lm_eval_illusion.harness.folder_lock import alone_in
from lm_eval_illusion.harness.planned import PlannedRun
from lm_eval_illusion.harness.run_folder import is_finished, run_once
from lm_eval_illusion.harness.sweep.once import found_out_once
from lm_eval_illusion.harness.sweep.plan import DENSE, Sweep
from lm_eval_illusion.harness.sweep.resident import Resident, lending
from lm_eval_illusion.harness.sweep.state import FAILED, FINISHED, INTERRUPTED, RUNNING, SweepState

Tell = Callable[[str], None]


def run_sweep(sweep: Sweep, out: Path, tell: Tell) -> SweepState:
    """Run every point that is not finished yet.

    Args:
        sweep: What to run.
        out: Folder for the run folders, MODEL/POINT, and sweep.json.
        tell: Is given a line before each point and one after the last.

    Returns:
        How every point ended; those that failed are named with their errors, and did not stop the others.

    Raises:
        IllusionError: Before anything is run, for a folder that holds a finished run with other options or in which
            another sweep is at work, or under torchrun.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise IllusionError(
            f"WORLD_SIZE={os.environ['WORLD_SIZE']}: a sweep runs in one process, where its model stays loaded; start "
            "it without torchrun (a model over several GPUs: device_map: auto under model_args), or run each point "
            "with torchrun -m lm_eval"
        )
    state = SweepState.of(sweep, out)
    for number, point in enumerate(sweep.points):
        if is_finished(point.folder(out), point.run.made_from()):
            state.points[number].status = FINISHED
    with alone_in(out), found_out_once():
        state.write()
        for model in sweep.models:
            with lending(Resident(sweep.restore)) as resident:
                for number, point in enumerate(sweep.points):
                    if point.model == model and state.points[number].status != FINISHED:
                        tell(_progress(state, number))
                        if not _run_point(state, number, point.run, point.folder(out)):
                            resident.forget_tokenizers()
    tell(_ended(state))
    return state


def _run_point(state: SweepState, number: int, run: PlannedRun, folder: Path) -> bool:
    """Run one point and note how it ended; return whether it finished."""
    state.note(number, RUNNING)
    started = time.perf_counter()
    try:
        run_once(run, folder)
    except KeyboardInterrupt:
        state.note(number, INTERRUPTED, time.perf_counter() - started)
        raise
    except (Exception, SystemExit) as error:  # whatever it is, the other points do not share it
        state.note(number, FAILED, time.perf_counter() - started, one_line(error))
        gc.collect()  # as run_once does where it comes to its end
    else:
        state.note(number, FINISHED, time.perf_counter() - started)
    _empty_cache()
    return state.points[number].status == FINISHED


def _empty_cache() -> None:
    """Give the device back what the last run's batches held."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _progress(state: SweepState, number: int) -> str:
    point = state.points[number]
    done = sum(p.status in (FINISHED, FAILED) for p in state.points)
    left = state.seconds_left()
    estimate = "time left not known yet" if left is None else f"about {_duration(left)} left"
    bar = "#" * (20 * done // len(state.points))
    return f"sweep [{bar:<20}] {done} of {len(state.points)} points, {estimate}; now {point.model} {point.name}"


def _ended(state: SweepState) -> str:
    finished = sum(point.status == FINISHED for point in state.points)
    failed = len(state.failed)
    return f"sweep ended: {finished} of {len(state.points)} points finished" + (f", {failed} failed" if failed else "")


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def reportable(sweep: Sweep, state: SweepState, out: Path) -> list[tuple[list[Path], Path]]:
    """Return what can be reported of each model that has a finished dense run and another finished one.

    Returns:
        Run folders, dense first, and the report's folder: `report`, with one in it for each model if there are several.
    """
    found = []
    for model in sweep.models:
        finished = [p for p in state.points if p.model == model and p.status == FINISHED]
        if len(finished) > 1 and finished[0].name == DENSE:
            folder = out / "report" / model if len(sweep.models) > 1 else out / "report"
            found.append(([out / point.folder for point in finished], folder))
    return found
