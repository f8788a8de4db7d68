"""The one exception of this package."""


class PruneError(ValueError):
    """Something the caller can mend; the message, on one line, says what was found, where, and what was expected."""
