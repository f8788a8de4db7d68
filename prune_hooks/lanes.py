"""Several batches on their way through one block, each halted wherever the others have to catch up.

A lane is a batch's forward pass in a thread of its own. Only one thread ever runs: the caller resumes a lane and waits
until it halts in a hook or ends, so nothing here is concurrent; threads are only what lets a forward be left and
re-entered in the middle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import torch

Meeting = TypeVar("Meeting")


class _Cancelled(BaseException):
    """Unwinds a lane that nobody will resume."""


class Lane(Generic[Meeting]):
    """A call that can halt."""

    def __init__(self, run: Callable[[], None]) -> None:
        """Prepares a call of `run`, which starts with the first `resume`, without gradients."""
        self.meeting: Meeting | None = None
        """What the lane halted for; None once it has ended."""
        self._run = run
        self._error: BaseException | None = None
        self._cancelled = False
        self._turn, self._halted = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def halt(self, meeting: Meeting) -> None:
        """Called inside the lane: hands control back to whoever resumed it, until resumed again."""
        self.meeting = meeting
        self._halted.release()
        self._turn.acquire()
        if self._cancelled:
            raise _Cancelled

    def resume(self) -> None:
        """Lets the lane run on to its next halt or its end; an exception in it is raised here."""
        self.meeting = None
        self._turn.release()
        self._halted.acquire()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Unwinds the lane if it has not ended."""
        self._cancelled = True
        if self._thread.is_alive():
            self._turn.release()
            self._thread.join()

    def _main(self) -> None:
        self._turn.acquire()
        try:
            if not self._cancelled:
                with torch.no_grad():  # gradient mode belongs to a thread
                    self._run()
        except _Cancelled:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self.meeting = None
            self._halted.release()
