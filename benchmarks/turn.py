"""One timed run of one side of a benchmark: seconds and memory, of the processor or of a CUDA device.

Needs the standard library alone: a worker may run in another environment.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLOCKS = {"cpu": "CPU seconds", "wall": "seconds by the clock"}
"""Clock -> its unit in words."""


@dataclass(frozen=True)
class Turn:
    """One timed run of one side."""

    wall: float
    """Seconds by the clock."""
    cpu: float
    """Seconds of processor time."""
    peak_mb: float
    """Highest resident memory of the process during the run, the model included, in MiB."""
    result: Any
    """What the worker said about its answer, for the check that both sides agree."""
    device_peak_mb: float | None = None
    """Highest memory allocated on the CUDA device during the run, in MiB; None for work on the processor."""

    @property
    def clock(self) -> str:
        """The clock that counts: "wall" on a device, whose time is not the processor's, else "cpu"."""
        return "cpu" if self.device_peak_mb is None else "wall"

    @property
    def seconds(self) -> float:
        """Seconds by the clock that counts."""
        return self.cpu if self.clock == "cpu" else self.wall

    def figures(self) -> dict[str, Any]:
        """Return time and memory for a file of results."""
        found = {"clock": self.clock, "seconds": self.seconds, "peak_mb": self.peak_mb}
        return found | ({} if self.device_peak_mb is None else {"device_peak_mb": self.device_peak_mb})

    def memory(self) -> str:
        """Return the peaks in words."""
        device = "" if self.device_peak_mb is None else f", on the device {self.device_peak_mb:,.0f} MiB"
        return f"peak {self.peak_mb:,.0f} MiB{device}"


def cuda_in_use() -> Any:
    """Return `torch.cuda` if this process holds anything on a CUDA device, else None."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def measured(run: Callable[[], dict[str, Any]], cuda: Any) -> dict[str, Any]:
    """Run once; return the fields of a `Turn`.

    Args:
        run: What to time.
        cuda: `torch.cuda`, or None for work on the processor: what was queued on the device is waited for, before the
            clock starts and before it stops.
    """
    _forget_peak()
    if cuda is not None:
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
    wall, used = time.perf_counter(), _cpu_seconds()
    result = run()
    if cuda is not None:
        cuda.synchronize()
    turn = {"wall": time.perf_counter() - wall, "cpu": _cpu_seconds() - used, "peak_mb": peak_mb(), "result": result}
    return turn | {"device_peak_mb": None if cuda is None else cuda.max_memory_allocated() / 2**20}


def _cpu_seconds() -> float:
    """Return CPU seconds of this process and of the children it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _status(key: str) -> float | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
    return None


def resident_mb() -> float:
    """Return the resident memory of this process now, in MiB."""
    return _status("VmRSS") or peak_mb()


def _forget_peak() -> None:
    """Start the peak anew (Linux); elsewhere it stays that of the whole process, the loading included."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Return the highest resident memory of this process so far, in MiB."""
    return _status("VmHWM") or peak_mb_of(resource.getrusage(resource.RUSAGE_SELF))


def peak_mb_of(used: resource.struct_rusage) -> float:
    """Return the highest resident memory of a whole process, in MiB."""
    return used.ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
