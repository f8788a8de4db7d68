"""Model output is hostile text: make it inert wherever it is shown."""

from __future__ import annotations

import json
import re
import unicodedata

__all__ = ["LIMIT", "escape_invisible", "inert", "inert_markdown", "inert_prose"]

LIMIT = 160
"""Characters shown of any foreign text."""

_JSON_UNSAFE = re.compile(
    "[\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_MARKDOWN = re.compile(r"[\\`*{}\[\]<>()#+!|~&:@$^]|(?<![^\W_])_|_(?![^\W_])")
"""Underscores within words and numbers that no point makes a list stay: they are no markup."""
_WWW = re.compile(r"(?i)\bw(?=ww\.)")


def inert(text: str, limit: int = LIMIT) -> str:
    """One visible line: control, format and separator characters as escapes, cut to a length.

    Joiners and marks inside words stay, since many scripts need them (ZWNJ, ZWJ); bidi controls do not.
    """
    cut = text[:limit]
    shown = "".join(_visible(char) for char in cut)
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"


def _visible(char: str) -> str:
    if char in "\u200c\u200d":
        return char
    if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}:
        return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
    return char


def inert_markdown(text: str, limit: int = LIMIT) -> str:
    """`inert`, with all that Markdown or HTML could read as markup, a table bar or a link as character references."""
    shown = _MARKDOWN.sub(_reference, inert(text, limit))
    shown = _WWW.sub(_reference, shown)
    return re.sub(r"^([-=.\s]|\d(?=\d*\.(\s|$)))", _reference, shown)


def inert_prose(text: str) -> str:
    """Our own sentence, which may quote a foreign name: what could open a tag, cell, code or link is escaped."""
    shown = re.sub(r"&(?=[#\w])|<(?=[A-Za-z/!?])|:(?=//)|[|`@]|\](?=\()", _reference, inert(text, 2000))
    return _WWW.sub(_reference, shown)


def _reference(match: re.Match[str]) -> str:
    return f"&#{ord(match.group())};"


def escape_invisible(text: str) -> str:
    """JSON text whose invisible and direction-changing characters are escapes: the same data, safe to look at."""
    return _JSON_UNSAFE.sub(lambda match: json.dumps(match.group())[1:-1], text)
