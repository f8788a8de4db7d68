"""sweep.json: every point with its state, options, seconds and error, written anew at each change.

Whether a point is finished is said by the marker in its own folder; this file is for whoever watches, and remembers
how long points took.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lm_eval_illusion import __version__
from lm_eval_illusion.folders import make_folder
from lm_eval_illusion.harness.sweep.plan import Point, Sweep

FILE = "sweep.json"
SCHEMA = 1
WAITING, RUNNING, FINISHED, FAILED, INTERRUPTED = "waiting", "running", "finished", "failed", "interrupted"


@dataclass
class PointState:
    """One point of the sweep as it stands."""

    model: str
    name: str
    method: str
    folder: str
    """Relative to the sweep's own."""
    options: dict[str, Any]
    """What is asked, as planned."""
    status: str = WAITING
    """waiting, running, finished, failed or interrupted."""
    seconds: float | None = None
    """Wall time of the run that finished or failed; None where it has not been run or was finished elsewhere."""
    error: str | None = None
    """Why it failed, in one line."""


@dataclass
class SweepState:
    """All points, and the folder their states are written to."""

    out: Path
    points: list[PointState] = field(default_factory=list)

    @classmethod
    def of(cls, sweep: Sweep, out: Path) -> SweepState:
        """Return all points as waiting, with the seconds that an earlier call has noted for what it finished."""
        state = cls(out, [_waiting(point) for point in sweep.points])
        known = _known_seconds(out)
        for point in state.points:
            point.seconds = known.get((point.model, point.name))
        return state

    def note(self, number: int, status: str, seconds: float | None = None, error: str | None = None) -> None:
        """Enter a point's new state and write the file (to a temporary one, then renamed)."""
        point = self.points[number]
        point.status, point.error = status, error
        if seconds is not None or status != FINISHED:
            point.seconds = seconds
        self.write()

    def write(self) -> None:
        """Write sweep.json."""
        make_folder(self.out)
        made = {"schema": SCHEMA, "version": __version__, "points": [asdict(point) for point in self.points]}
        scratch = self.out / f"{FILE}.tmp"
        scratch.write_text(json.dumps(made, indent=1), encoding="utf-8")
        os.replace(scratch, self.out / FILE)

    @property
    def failed(self) -> list[PointState]:
        """Points that failed."""
        return [point for point in self.points if point.status == FAILED]

    def seconds_left(self) -> float | None:
        """Return an estimate for all that waits or runs: the mean of finished points like it; None without any.

        Like it are those of the same model and method, else of the same model, else any.
        """
        done = [point for point in self.points if point.status == FINISHED and point.seconds is not None]
        if not done:
            return None
        return sum(_expected(point, done) for point in self.points if point.status in (WAITING, RUNNING))


def _expected(point: PointState, done: list[PointState]) -> float:
    alike = [p for p in done if (p.model, p.method) == (point.model, point.method)]
    chosen = alike or [p for p in done if p.model == point.model] or done
    return sum(p.seconds or 0.0 for p in chosen) / len(chosen)


def _waiting(point: Point) -> PointState:
    options = json.loads(json.dumps(asdict(point.run)))
    return PointState(point.model, point.name, point.method, f"{point.model}/{point.name}", options)


def _known_seconds(out: Path) -> dict[tuple[str, str], float | None]:
    """Return how long finished points took by an earlier sweep.json; nothing of one that is none."""
    try:
        points = json.loads((out / FILE).read_text(encoding="utf-8"))["points"]
        return {(held["model"], held["name"]): held["seconds"] for held in points if held["status"] == FINISHED}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # nothing depends on it but estimates
