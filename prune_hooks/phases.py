"""Seconds and peak memory of each phase of a run."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Phases:
    """Measures named phases; a phase entered twice adds up its seconds and keeps the larger peak."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: dict[str, float] = {}
        self.peak_memory: dict[str, int] = {}
        self.device = device

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures what runs inside."""
        cuda = self.device.type == "cuda"
        if cuda:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        start = time.perf_counter()
        yield
        if cuda:
            torch.cuda.synchronize(self.device)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        peak = torch.cuda.max_memory_allocated(self.device) if cuda else _resident_peak()
        self.peak_memory[name] = max(self.peak_memory.get(name, 0), peak)


def _resident_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
