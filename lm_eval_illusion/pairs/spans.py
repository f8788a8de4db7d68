"""Typed spans of a passage: pieces of text that could have been an answer of the same sort as the gold.

A span lies within one clause, begins and ends at word edges, and neither end is a function word. Numeric golds get
spans that hold a number, bare numbers where the gold is one. Other golds get word spans of about as many words; where
the script has capitals, a capital must be matched by one, but nothing rests on them: scripts without case get the same
spans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import regex

from .rules import Answer
from .vocabulary import WORD, Vocabulary

_CLAUSE = regex.compile(r"(?:[^\p{P}\p{S}]|(?<=\w)['’ʼ.,\-–‑%](?=[\w])|(?<=\d)%)+")
_NUMBER = regex.compile(r"(?<![\p{Nd}]|\p{Nd}[.,٬])\p{Nd}+(?:[.,٬]\p{Nd}+)*(?![\p{Nd}])")
WORDS_MORE = 1
"""A span may have so many words more or fewer than the gold."""
NAME_CUT = 0.5
"""Roughness of leaving out a neighbour that has a capital too: "Juri" of "Juri Pohl"."""
MAX_WORDS = 6
"""Golds of more words get no spans: they are clauses, which no window of words resembles."""


@dataclass(frozen=True)
class Span:
    """A piece of a passage that could be an answer."""

    text: str
    """As written (a Korean particle at the end taken off)."""
    place: int
    """Offset in the passage, in characters."""
    kind: str
    """number, name or phrase (see `kind_of`)."""
    roughness: float
    """About -1 to 3: half a point for each side that cuts through a phrase (its neighbour there is neither a clause end
    nor a function word), and how unlike an answer's its first and last letters are."""


def _numbers(passage: str) -> Iterator[Span]:
    for hit in _NUMBER.finditer(passage):
        yield Span(hit.group(), hit.start(), "number", 0.0)


def _windows(passage: str, sizes: range, words: Vocabulary) -> Iterator[Span]:
    """Yield every window of so many words within a clause whose edges are not function words."""
    for clause in _CLAUSE.finditer(passage):
        found = list(WORD.finditer(passage, clause.start(), clause.end()))
        folded = [word.group().casefold() for word in found]
        loose = [word in words.function_words for word in folded]
        opens_sentence = passage[: clause.start()].rstrip()[-1:] in ("", ".", "!", "?", "।", "。", "؟")
        for size in sizes:
            for i in range(len(found) - size + 1):
                j = i + size - 1
                if loose[i] or loose[j]:
                    continue
                last = words.bare(found[j].group())
                text = passage[found[i].start() : found[j].start() + len(last)]
                rough = 0.5 * (i > 0 and not loose[i - 1]) + 0.5 * (j + 1 < len(found) and not loose[j + 1])
                kind = kind_of(text, words)
                if i == 0 and opens_sentence and kind == "name" and size == 1 and folded[0] in words.lower_seen:
                    kind = "phrase"
                if kind != "number":
                    rough += words.edges.unlikely(folded[i], last)
                if kind == "name":  # half of a longer name
                    rough += NAME_CUT * sum(
                        found[k].group()[:1].isupper() for k in (i - 1, j + 1) if 0 <= k < len(found)
                    )
                yield Span(text, found[i].start(), kind, rough)


def kind_of(text: str, words: Vocabulary) -> str:
    """Return number (holds a digit), name (every word but function words has a capital) or phrase."""
    if any(c.isdecimal() for c in text):
        return "number"
    content = [word for word in WORD.findall(text) if word.casefold() not in words.function_words]
    return "name" if content and all(word[:1].isupper() for word in content) else "phrase"


def typed_spans(passage: str, gold: Answer, words: Vocabulary) -> list[Span]:
    """Return the spans of a passage that are of the gold's sort, each text once, at its first place.

    Args:
        passage: Whitespace folded.
        gold: The answer that is shown; spans that overlap one of its occurrences are left out.
        words: Statistics of the language.
    """
    count = len(WORD.findall(gold.text))
    if count == 0 or count > MAX_WORDS:
        return []
    if _NUMBER.fullmatch(gold.text):
        found = list(_numbers(passage))
    else:
        sizes = range(max(1, count - WORDS_MORE), count + WORDS_MORE + 1)
        wanted = kind_of(gold.text, words)
        found = [span for span in _windows(passage, sizes, words) if span.kind == wanted]
    taken = [range(hit.start(), hit.end()) for hit in regex.finditer(regex.escape(gold.text), passage)]
    first: dict[str, Span] = {}
    for span in found:
        end = span.place + len(span.text)
        if not any(span.place < there.stop and there.start < end for there in taken):
            first.setdefault(span.text, span)
    return list(first.values())
