"""Strings that mean nothing but look like an answer: the gold's script, length, capitals, spaces and marks."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import regex

from .draw import draw
from .kinds import script_of

_CLUSTER = regex.compile(r"\X")


def _letters(text: str) -> dict[str, list[str]]:
    """Return script -> the letters (grapheme clusters, lower case) of a text in that script, as often as they occur."""
    found: dict[str, list[str]] = {}
    for cluster in _CLUSTER.findall(text):
        if cluster[0].isalpha():
            found.setdefault(script_of(cluster[0]), []).append(cluster.lower())
    return found


def _digit(like: str, first: bool, number: int) -> str:
    """Return a digit of the script of another one; the first of several is no zero."""
    value = 1 + number % 9 if first else number % 10
    return chr(ord(like) - unicodedata.decimal(like) + value)


def random_string(gold: str, passage: str, key: Sequence[object]) -> str:
    """Replace every letter of the gold by one that a hash draws from the passage, and every digit by another.

    Args:
        gold: The text to look like.
        passage: Gives the letters, so that rare ones stay rare; where it has none of the script, the gold's own serve.
        key: Parts of the hash.
    """
    here, own = _letters(passage), _letters(gold)
    clusters = _CLUSTER.findall(gold)
    made: list[str] = []
    for place, cluster in enumerate(clusters):
        head, number = cluster[0], draw(*key, place)
        if head.isdecimal():
            opens = not (place and clusters[place - 1][0].isdecimal())
            more = place + 1 < len(clusters) and clusters[place + 1][0].isdecimal()
            made.append(_digit(head, opens and more, number))
        elif head.isalpha():
            letters = here.get(script_of(head)) or own[script_of(head)]
            letter = letters[number % len(letters)]
            made.append(letter.upper() if head.isupper() else letter)
        else:
            made.append(cluster)
    return "".join(made)
