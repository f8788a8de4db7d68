"""Times two programs in alternation, each in a process of its own, and says how many times sooner ours is done.

A worker prepares (loads a model, reads rows), then runs once for every line it is sent and answers with what it used.
The two sides take turns, so that a busy machine slows both alike; the result is a ratio, never a time. It is one of
processor seconds, or, for work on a CUDA device, of seconds by the clock (`turn.py`). A worker may run in another
environment: this module needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turn import Turn, cuda_in_use, measured, resident_mb

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def serve(prepare: Callable[[], Callable[[], dict[str, Any]]]) -> None:
    """Be a worker: prepare, then run once for every line on standard input.

    Args:
        prepare: Returns the function to time; what that returns (JSON-able) goes to the parent.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever libraries print must not pass for an answer
    run = prepare()
    print(json.dumps({"ready": True, "loaded_mb": resident_mb()}), file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(measured(run, cuda_in_use())), file=answers, flush=True)


class Worker:
    """A side's process, prepared and waiting."""

    def __init__(self, name: str, command: Sequence[str], env: dict[str, str] | None = None) -> None:
        self.name = name
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD, **(env or {})},
        )
        self.loaded_mb: float = self._answer()["loaded_mb"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: its process ended with {self._process.wait()}; its messages stand above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def once(self) -> Turn:
        """Run once and return what it took."""
        assert self._process.stdin is not None
        print("go", file=self._process.stdin, flush=True)
        return Turn(**self._answer())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass(frozen=True)
class Comparison:
    """Turns of ours and of a rival, in alternation."""

    name: str
    rival: str
    ours_turns: tuple[Turn, ...]
    rival_turns: tuple[Turn, ...]

    @property
    def clock(self) -> str:
        """The clock that counts for both sides."""
        return max(turn.clock for turn in (*self.ours_turns, *self.rival_turns))  # "wall" if any is on a device

    def ratios(self) -> list[float]:
        """Return the rival's seconds over ours, turn by turn: 6 means six times sooner."""
        pairs = zip(self.rival_turns, self.ours_turns, strict=True)
        return [getattr(theirs, self.clock) / getattr(mine, self.clock) for theirs, mine in pairs]

    def summary(self) -> dict[str, Any]:
        """Return the median ratio, its range, and the peak memory of both."""
        ratios = self.ratios()
        ours, theirs = (max(turn.peak_mb for turn in turns) for turns in (self.ours_turns, self.rival_turns))
        found = {
            "name": self.name,
            "rival": self.rival,
            "times_sooner": statistics.median(ratios),
            "range": [min(ratios), max(ratios)],
            "turns": len(ratios),
            "clock": self.clock,
            "ours_seconds": statistics.median(getattr(turn, self.clock) for turn in self.ours_turns),
            "rival_seconds": statistics.median(getattr(turn, self.clock) for turn in self.rival_turns),
            "ours_peak_mb": ours,
            "rival_peak_mb": theirs,
            "memory_share": ours / theirs,
        }
        for side, turns in (("ours", self.ours_turns), ("rival", self.rival_turns)):
            peaks = [turn.device_peak_mb for turn in turns if turn.device_peak_mb is not None]
            found |= {f"{side}_device_peak_mb": max(peaks)} if peaks else {}
        return found


def alternate(name: str, ours: Worker, rival: Worker, *, turns: int, warm_up: int = 1) -> Comparison:
    """Let two workers take turns.

    Args:
        name: What is measured.
        ours: This project's side.
        rival: The other.
        turns: Timed runs of each.
        warm_up: Untimed runs of each beforehand.
    """
    for _ in range(warm_up):
        ours.once()
        rival.once()
    mine: list[Turn] = []
    theirs: list[Turn] = []
    for turn in range(turns):
        for side, kept in ((ours, mine), (rival, theirs))[:: 1 if turn % 2 == 0 else -1]:
            kept.append(side.once())
    return Comparison(name, rival.name, tuple(mine), tuple(theirs))


def line(summary: dict[str, Any]) -> str:
    """Return a comparison in one line of text."""
    low, high = summary["range"]
    words = (
        f"{summary['name']}: {summary['times_sooner']:.2f} times sooner than {summary['rival']} "
        f"(range {low:.2f} to {high:.2f}, {summary['turns']} turns, share of its time "
        f"{1 / summary['times_sooner']:.2f}); peak memory {summary['ours_peak_mb']:,.0f} against "
        f"{summary['rival_peak_mb']:,.0f} MiB ({summary['memory_share']:.2f})"
    )
    if summary["clock"] == "wall":
        ours, theirs = (summary.get(f"{side}_device_peak_mb", 0) for side in ("ours", "rival"))
        words += f"; by the clock, on the device {ours:,.0f} against {theirs:,.0f} MiB"
    return words


def machine() -> dict[str, Any]:
    """Return what the measurement ran on."""
    found: dict[str, Any] = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    with contextlib.suppress(OSError):
        models = [row for row in Path("/proc/cpuinfo").read_text().splitlines() if row.startswith("model name")]
        found["cpu"] = models[0].partition(":")[2].strip() if models else None
    return found


def write_results(path: Path | None, script: str, checks: Sequence[dict[str, Any]]) -> None:
    """Write a script's summaries as JSON for `benchmarks/all.py` (to a temporary file, then renamed)."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_text(
        json.dumps(
            {"script": script, "date": time.strftime("%Y-%m-%d"), "machine": machine(), "results": list(checks)},
            indent=1,
        )
    )
    os.replace(scratch, path)
