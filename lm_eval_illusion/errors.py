"""The one exception a person can mend: the command line prints it without a traceback and exits with 2."""

__all__ = ["IllusionError"]


class IllusionError(Exception):
    """What was found, where (file, task, item), what was expected, and the command that mends it, on one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
