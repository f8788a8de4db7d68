"""All spans of a passage that have as many answer tokens as the gold: what its likelihood is ranked among."""

from __future__ import annotations

from collections.abc import Sequence

import regex

from .normalise import GRAPHEME_LANGUAGES, base_language, level_of, normalise, tokens
from .vocabulary import WORD

_GRAPHEME = regex.compile(r"\p{Nd}+(?:[.,٬]\p{Nd}+)*%?|(?:[\p{Latin}\p{Greek}\p{Cyrillic}]\p{M}*)+|(?![\s\p{P}])\X")
_RANGE = regex.compile(r"(?<=\p{Nd})[\-–‑](?=\p{Nd})")


def _pieces(passage: str, language: str) -> list[tuple[int, int]]:
    """Return (start, end) of the pieces that a span may begin or end with: words, numbers, or graphemes."""
    pattern = _GRAPHEME if base_language(language) in GRAPHEME_LANGUAGES else WORD
    found: list[tuple[int, int]] = []
    for hit in pattern.finditer(passage):
        edges = [hit.start(), *(mark.start() for mark in _RANGE.finditer(passage, hit.start(), hit.end()))]
        starts = [edges[0], *(edge + 1 for edge in edges[1:])]
        found += zip(starts, [*edges[1:], hit.end()], strict=True)
    return found


def same_length_spans(passage: str, golds: Sequence[str], language: str) -> list[str]:
    """Return the spans of a passage with as many answer tokens as the gold, each once, in the passage's order.

    A span begins and ends with a word, number or (in languages without spaces) grapheme that counts as a token, so
    "the cat" is "cat"; it may run over a comma or a full stop. What equals a right answer is left out.

    Args:
        passage: Whitespace folded.
        golds: Every right answer, the shown one first.
        language: ISO 639-1 code.
    """
    level = level_of(golds[0], language)
    wanted = len(tokens(golds[0], language, level))
    pieces = _pieces(passage, language)
    sizes = [len(tokens(passage[start:end], language, level)) for start, end in pieces]
    seen = {normalise(gold, language) for gold in golds}
    spans: list[str] = []
    for first, (start, _) in enumerate(pieces):
        if not sizes[first]:
            continue
        last, size = first, sizes[first]
        while size < wanted and last + 1 < len(pieces):
            last += 1
            size += sizes[last]
        text = passage[start : pieces[last][1]]
        if size != wanted or len(tokens(text, language, level)) != wanted:
            continue
        spelled = normalise(text, language)
        if spelled not in seen:
            seen.add(spelled)
            spans.append(text)
    return spans
