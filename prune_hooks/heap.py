"""What glibc does with freed memory while a model works on the CPU: too little of it is kept, and too much.

Each halted forward has a thread of its own, and glibc keeps what a thread has freed in that thread's arena: with eight
forwards of Gemma 3 270M over 2,048 tokens each, 600 MB lay there unused. Giving back every block at once would cost a
page fault for each page of each tensor, a fifth of the time; so it is given back when memory has grown by much.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

import torch

GROWTH = 128 << 20
"""Bytes that the process may grow by while it prunes before free memory is given back."""
ROOM = 1 << 30
"""The same while it answers, at least: what batches of many lengths leave behind in pieces."""

SETTINGS = (
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "GLIBC_TUNABLES",
)
"""Environment variables by which a user tells glibc what to do; where one is set, theirs is the word."""
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
"""glibc's numbers for what `mallopt` sets (malloc.h)."""


def keep_freed(device: torch.device) -> bool:
    """Lets this process keep what its tensors free for the tensors to come, in one arena for all threads.

    By default glibc maps a large tensor anew each time and gives it back when it is freed, and each of its pages is
    faulted in again: a tenth of the processor time of pruning on the CPU, up to a third of decoding. The setting is
    the process's and stays, so it is for programs of their own (`pruned_hf`), not for a library's call.

    Args:
        device: where the model is.

    Returns:
        Whether it was set: not on an accelerator, without glibc, or where the user has set anything of the kind.
    """
    library = _glibc() if device.type == "cpu" else None
    if library is None or any(name in os.environ for name in SETTINGS):
        return False
    return all(library.mallopt(name, value) for name, value in ((_TRIM_THRESHOLD, -1), (_MMAP_MAX, 0), (_ARENA_MAX, 1)))


class Heap:
    """Watches the process's resident memory.

    Args:
        device: where the model is.
        growth: bytes that the process may grow by; None: as much again as it holds by now, at least `ROOM`.
    """

    def __init__(self, device: torch.device, growth: int | None = GROWTH) -> None:
        self._library = _glibc() if device.type == "cpu" else None
        self._low = _resident() if self._library is not None else None
        self._growth = max(ROOM, self._low or 0) if growth is None else growth

    def give_back(self) -> None:
        """Returns free memory to the system if the process has grown by so much; nothing where that cannot be done."""
        if self._library is None or self._low is None:
            return
        now = _resident() or 0
        if now - self._low > self._growth:
            self.give_back_all()
        else:
            self._low = min(self._low, now)

    def give_back_all(self) -> None:
        """Returns all free memory to the system; nothing where that cannot be done."""
        if self._library is not None:
            self._library.malloc_trim(0)
            self._low = _resident()


def _resident() -> int | None:
    """Returns the bytes in memory of this process; None where the system does not say (other than Linux)."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@cache
def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        _ = library.gnu_get_libc_version, library.malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return library
