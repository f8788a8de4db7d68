"""Several searches from one prompt, step by step together: one forward over the weights serves them all.

A step of decoding reads every weight once, whatever the number of rows; what several searches have said alike so far
is one row. A search is a generator: it yields which rows it goes on from and with which tokens, and is sent the logits
that follow.

Each row's numbers are its own up to float32 rounding, which may differ with the number of rows: what else is asked of a
prompt can change the last digits of a log-probability, and in bfloat16 a close call.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeVar

import torch

from lm_eval_illusion.harness.branching import Branches

Found = TypeVar("Found")


class Moves(NamedTuple):
    """What one search does next; both lists are as long as it will have rows."""

    parents: list[int]
    """For each new row the number of the row it goes on from, counted among the search's own rows."""
    tokens: list[int]
    """For each new row its next token."""


Search = Generator[Moves, torch.Tensor, Found]
"""Yields moves, is sent logits (new rows, vocabulary), returns what it found."""


def together(searches: Sequence[Search[Found]], branches: Branches) -> list[Found]:
    """Run searches to their ends.

    Args:
        searches: Fresh ones, each knowing the prompt's logits.
        branches: The prompt's one row, from which each of them goes on; spent afterwards.

    Returns:
        What each of them found, in order.
    """
    found: dict[int, Found] = {}
    moves: dict[int, Moves] = {}
    for number, search in enumerate(searches):
        _advance(number, search, None, moves, found)
    places = {number: [0] for number in moves}
    while moves:
        rows: dict[tuple[int, int], int] = {}
        for number, (parents, tokens) in moves.items():
            before = places[number]
            keys = [(before[parent], token) for parent, token in zip(parents, tokens, strict=True)]
            places[number] = [rows.setdefault(key, len(rows)) for key in keys]
        logits = branches.follow([parent for parent, _ in rows], [token for _, token in rows])
        for number in list(moves):
            _advance(number, searches[number], logits[places[number]], moves, found)
    return [found[number] for number in range(len(searches))]


def _advance(
    number: int,
    search: Search[Found],
    logits: torch.Tensor | None,
    moves: dict[int, Moves],
    found: dict[int, Found],
) -> None:
    """Send a search its logits (None to begin); take down its next moves, or what it found."""
    try:
        moves[number] = next(search) if logits is None else search.send(logits)
    except StopIteration as over:
        moves.pop(number, None)
        found[number] = over.value
