"""Documents -> rows of exactly `length` token ids, in equal or given shares of tokens per language."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from prune_hooks.calibration.documents import Document
from prune_hooks.errors import PruneError
from prune_hooks.shares import divide

SEPARATOR = "\n\n"
"""Follows every document within a row: a blank line, as between the paragraphs of one page."""

PIECE_CHARACTERS = 8_000
"""Longer documents are cut, at white space, into pieces drawn independently, so that no book fills all rows."""


@dataclass(frozen=True)
class CalibrationSet:
    """Token rows ready for the model, and what they were made of."""

    rows: torch.Tensor
    """(n, length) int64 on the CPU; each row begins with BOS where the tokenizer has one."""

    source: str
    """The name or path of the text."""

    digest: str
    """SHA-256 (hex) over shape and ids, see `rows_digest`."""

    tokens_per_language: dict[str, int]
    """Tokens of each language, BOS not counted."""

    text_hashes: list[str]
    """Sorted `text_hash` of each document of which any part was used."""

    texts: tuple[str, ...] = ()
    """The used pieces of documents themselves, none for ready token rows."""

    languages: tuple[str, ...] = ()
    """Codes of the languages there are, sorted; none for ready token rows."""

    labels: torch.Tensor | None = None
    """(n, length) int64: which of the languages each token is in; BOS is in that of the token after it."""


@dataclass
class Stream:
    """The tokens taken from one group of documents."""

    tokens: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    hashes: set[str] = field(default_factory=set)
    pieces: list[str] = field(default_factory=list)
    runs: list[tuple[str, int]] = field(default_factory=list)
    """Language and number of tokens of each piece."""


def rows_digest(rows: torch.Tensor) -> str:
    """Return the SHA-256 (hex) over "n x length" and the little-endian int64 ids of rows (n, length)."""
    head = "x".join(str(size) for size in rows.shape).encode()
    return hashlib.sha256(head + rows.numpy().astype("<i8").tobytes()).hexdigest()


def take(documents: Iterable[Document], tokenizer: Any, need: int | None, seed: int) -> Stream:
    """Tokenise documents until `need` tokens are there (None: all of them).

    The order is that of a hash of seed, text and place within the text, so that neither the order of files nor a
    running random stream decides what is used. Equal documents count once.
    """
    stream = Stream()
    unique = {document.digest: document for document in documents}
    pieces = [(digest, k, piece) for digest, d in unique.items() for k, piece in enumerate(cut(d.text))]
    pieces.sort(key=lambda p: hashlib.sha256(f"{seed}:{p[0]}:{p[1]}".encode()).hexdigest())
    for digest, _, piece in pieces:
        if need is not None and len(stream.tokens) >= need:
            break
        ids = tokenizer(piece + SEPARATOR, add_special_tokens=False, verbose=False).input_ids
        ids = ids if need is None else ids[: need - len(stream.tokens)]
        language = unique[digest].language
        stream.tokens += ids
        stream.counts[language] = stream.counts.get(language, 0) + len(ids)
        stream.hashes.add(digest)
        stream.pieces.append(piece)
        stream.runs.append((language, len(ids)))
    return stream


def cut(text: str) -> Iterator[str]:
    """Cut a text into pieces of at most `PIECE_CHARACTERS`, at the last white space where there is one."""
    while len(text) > PIECE_CHARACTERS:
        head = text[:PIECE_CHARACTERS]
        at = max(head.rfind(" "), head.rfind("\n"))
        at = at if at > 0 else PIECE_CHARACTERS
        yield text[:at]
        text = text[at:].strip()
    if text:
        yield text


def shares(total: int, groups: Sequence[str]) -> dict[str, int]:
    """Divide `total` tokens among groups; shares differ by one token at most."""
    return {g: total // len(groups) + (k < total % len(groups)) for k, g in enumerate(groups)}


def pack(
    groups: Mapping[str, Sequence[Document]],
    tokenizer: Any,
    *,
    source: str,
    samples: int,
    length: int,
    seed: int,
    weights: Mapping[str, float] | None = None,
    may_be_empty: bool = False,
) -> CalibrationSet:
    """Pack groups of documents into `samples` rows of `length` tokens.

    The groups' tokens follow one another in sorted order and are cut into rows, so a row may hold the end of one
    group and the start of the next.

    Args:
        groups: documents by language, or all under one name.
        tokenizer: the model's own.
        source: name of the text, for the receipt and messages.
        samples: number of rows.
        length: tokens per row.
        seed: decides which documents are used.
        weights: the groups' shares of the tokens, adding up to 1; None: equal ones.
        may_be_empty: whether a share of less than one token is none, and no error.

    Raises:
        PruneError: a group has fewer tokens than its share, or a share of less than one token; the message gives found
            and needed, and what would fit.
    """
    bos = bos_ids(tokenizer)
    body = length - len(bos)
    named = sorted(groups)
    need = shares(samples * body, named) if weights is None else divide(samples * body, {g: weights[g] for g in named})
    if weights is not None and not may_be_empty and not all(need.values()):
        raise PruneError(
            f"calibration_languages gives {', '.join(g for g in named if not need[g])} less than one of "
            f"{samples * body} tokens: expected at least one for each language; leave it out, or raise "
            "calibration_samples"
        )
    streams = {group: take(groups[group], tokenizer, need[group], seed) for group in need}
    found = {group: len(stream.tokens) for group, stream in streams.items()}
    if any(found[group] < need[group] for group in need):
        raise PruneError(_too_short(source, samples, length, found, need, len(bos)))
    tokens = torch.tensor([i for stream in streams.values() for i in stream.tokens], dtype=torch.int64)
    head = torch.tensor(bos, dtype=torch.int64).expand(samples, len(bos))
    rows = torch.cat([head, tokens.view(samples, body)], dim=1).contiguous()
    counts: dict[str, int] = {group: 0 for group in need if not need[group]} if weights is not None else {}
    for stream in streams.values():
        for language, count in stream.counts.items():
            counts[language] = counts.get(language, 0) + count
    hashes = sorted({digest for stream in streams.values() for digest in stream.hashes})
    texts = tuple(piece for stream in streams.values() for piece in stream.pieces)
    runs = [run for stream in streams.values() for run in stream.runs]
    known = tuple(sorted(counts))
    found_labels = _labels(runs, known).view(samples, body)
    labels = torch.cat([found_labels[:, : len(bos)], found_labels], dim=1)
    return CalibrationSet(rows, source, rows_digest(rows), dict(sorted(counts.items())), hashes, texts, known, labels)


def _labels(runs: Sequence[tuple[str, int]], known: Sequence[str]) -> torch.Tensor:
    """Return (tokens,) int64, each token's place among the known languages."""
    places = torch.tensor([known.index(language) for language, _ in runs])
    return places.repeat_interleave(torch.tensor([count for _, count in runs]))


def _usable(found: Mapping[str, int], need: Mapping[str, int]) -> int:
    """Return how many tokens there would be if all shares shrank until each group had its own, one token spared."""
    total = sum(need.values())
    return max(0, min(found[g] * total // need[g] for g in need if need[g]) - len(need))


def bos_ids(tokenizer: Any) -> list[int]:
    """Return [BOS], or [] where the tokenizer has none."""
    return [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]


def _too_short(
    source: str, samples: int, length: int, found: Mapping[str, int], need: Mapping[str, int], bos: int
) -> str:
    short = ", ".join(f"{g or 'all text'}: {found[g]} of {need[g]}" for g in need if found[g] < need[g])
    equal = max(need.values()) - min(need.values()) <= 1
    usable = len(found) * min(found.values()) if equal else _usable(found, need)
    rows = usable // (length - bos)
    fit = f"calibration_samples={rows}" if rows else f"calibration_samples=1 and calibration_length={usable + bos}"
    mend = f"set {fit}, or give more text" if usable > 1 else "give more text"
    return f"calibration text {source} is too short for {samples} rows of {length} tokens ({short} tokens): {mend}"
