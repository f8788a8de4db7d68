"""The one exception a person can mend: the command line prints it without a traceback and exits with 2."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["IllusionError", "did_you_mean", "one_line"]


class IllusionError(Exception):
    """What was found, where (file, task, item), what was expected, and the command that mends it, on one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a question after the known name that is nearest, a space before it; empty where none is near."""
    near = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def one_line(error: BaseException) -> str:
    """Return an error as one line: the message alone if a person is meant by it, else with the kind of error before."""
    text = " ".join(str(error).split())
    if isinstance(error, IllusionError) or type(error).__name__ == "PruneError":  # by name: importing it loads torch
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
