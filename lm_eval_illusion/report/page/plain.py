"""Foreign text for the page: nothing in it acts, and what cannot be seen is spelt out."""

from __future__ import annotations

import regex

__all__ = ["around", "plain"]

_ACTING = regex.compile(
    r"[[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]--[\n\t\u200c\u200d\u0600-\u0605\u06dd\u070f]]", regex.V1
)
"""Controls, bidi and other format characters, lone surrogates. What scripts need stays: joiners and Arabic's signs."""
_MARKS = regex.compile(r"(\p{M}{4})\p{M}+")
"""More marks on one letter than any script has would cover the lines around."""


def plain(text: str, limit: int) -> str:
    """The text with what acts or is invisible as escapes, lines kept, cut to a length.

    Args:
        text: Written by a model or a data set.
        limit: Characters that are kept; the whole length is said where more were there.
    """
    shown = _ACTING.sub(_escape, _MARKS.sub(r"\1", text[:limit].replace("\r\n", "\n")))
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"


def around(text: str, golds: list[str], limit: int) -> str:
    """The part of a text around the first place of a gold, where the whole is longer than the limit."""
    if len(text) <= limit:
        return text
    places = [place for gold in golds if gold and (place := text.find(gold)) >= 0]
    start = max(0, min((min(places) if places else 0) - limit // 2, len(text) - limit))
    end = start + limit
    return f"{'… ' if start else ''}{text[start:end]}{' …' if end < len(text) else ''}"


def _escape(match: regex.Match[str]) -> str:
    code = ord(match.group())
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
