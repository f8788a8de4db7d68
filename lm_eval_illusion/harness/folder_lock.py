"""One process a folder: a second one would clear away, as left from an interruption, what the first is writing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.folders import make_folder

LOCK = "illusion.lock"
"""The file that is locked; it stays, empty, and means nothing once its process has ended, however that came."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; under torchrun its first process holds it for all.

    Args:
        folder: Is made where it is not there.

    Raises:
        IllusionError: If another process holds it, or nothing can be written there.
    """
    if int(os.environ.get("RANK", "0")):
        yield
        return
    make_folder(folder)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise IllusionError(
            f"{folder}: another process is writing there (it holds {LOCK}); wait for its end, or choose another --out"
        ) from None
    try:
        yield
    finally:
        lock.release()
