"""A document: the unit of calibration text that is hashed, ordered and packed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

UNKNOWN_LANGUAGE = "und"
"""ISO 639-2 code "undetermined", for text that does not say which language it is in."""


@dataclass(frozen=True)
class Document:
    """One passage, page or paragraph of calibration text."""

    text: str
    """The text as read, never empty."""

    language: str = UNKNOWN_LANGUAGE
    """Language code as the source names it, e.g. "sw"."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the text, see `text_hash`."""
        return text_hash(self.text)


def text_hash(text: str) -> str:
    """Return the SHA-256 (hex) of UTF-8 text, byte order marks dropped, every run of white space folded to one blank.

    Evaluated passages are hashed the same way, so equal hashes mean that calibration saw an evaluated passage.
    """
    return hashlib.sha256(" ".join(text.replace("\ufeff", "").split()).encode("utf-8", "surrogatepass")).hexdigest()
