"""Folders that results are written to: made, or refused in words before anything is computed."""

from __future__ import annotations

import os
from pathlib import Path

from lm_eval_illusion.errors import IllusionError

__all__ = ["make_folder"]


def make_folder(folder: Path, mend: str = "give a writable folder with --out") -> Path:
    """Make a folder, with those above it, unless it is there.

    Args:
        folder: Where results are to lie.
        mend: What the user can do about it where it cannot be, an order to them.

    Returns:
        The folder.

    Raises:
        IllusionError: It is a file, lies below one, cannot be made, or nothing can be written to it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IllusionError(
            f"{folder}: cannot be made ({error.strerror or error}); expected a folder to write to: {mend}"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise IllusionError(f"{folder}: cannot be written to; expected a folder to write to: {mend}")
    return folder
