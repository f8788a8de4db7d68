"""Sampled hashes of running text, so that a passage is found within a longer calibration document and the reverse.

`prune_hooks.calibration.shingles` holds the same rule for calibration text; neither room may import the other, and
tests/test_overlap_hash.py holds both equal.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator

__all__ = ["RULE", "SAMPLED", "shingles"]

RULE = "13-words-or-39-characters/1-in-4/v1"
"""Names the rule in receipts; hashes of another rule cannot be compared."""

WEIGHT = 39
"""A stretch is as many units as it takes to weigh this much."""

WORD_WEIGHT = 3
"""Weight of a word; a character of a script that sets no blanks between words weighs 1."""

SAMPLED = 4
"""One hash in so many is kept, by its own value, hence the same ones wherever the stretch stands."""

_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Myanmar, Khmer
    "\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"  # Chinese and Japanese
)
_ALONE = re.compile(rf"[{_UNSPACED}]")
_UNIT = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")


def shingles(text: str) -> set[str]:
    """Return the sampled hashes (16 hex digits of 64-bit BLAKE2b) of every stretch of 13 words or 39 characters.

    White space, byte order marks and letter case do not count; Unicode is composed (NFC). A shorter text has none.
    """
    return {value for value in _hashes(text) if int(value, 16) % SAMPLED == 0}


def _hashes(text: str) -> Iterator[str]:
    units = _UNIT.findall(unicodedata.normalize("NFC", text.replace("\ufeff", "")).casefold())
    weights = [1 if _ALONE.match(unit) else WORD_WEIGHT for unit in units]
    end = weight = 0
    for start, own in enumerate(weights):
        while weight < WEIGHT and end < len(units):
            weight += weights[end]
            end += 1
        if weight < WEIGHT:
            return
        stretch = " ".join(units[start:end]).encode("utf-8", "surrogatepass")
        yield hashlib.blake2b(stretch, digest_size=8).hexdigest()
        weight -= own
