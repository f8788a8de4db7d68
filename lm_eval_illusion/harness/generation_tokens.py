"""Which bytes a token can bring into a text, so that a text is decoded only where it may have changed what matters.

A token's text depends on its neighbours: characters are split over tokens, and decoders join, replace and strip. Its
bytes do not, for the two kinds of decoder that current checkpoints have (byte-level BPE, and pieces with byte
fallback). Tokenizers of any other kind are never guessed at: there every token may hold anything.
"""

from __future__ import annotations

import json
import re
from typing import Any

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE_PIECE = "▁"


def _byte_level_alphabet() -> dict[str, int]:
    """Return the byte of each character of the byte-level alphabet (GPT-2's `bytes_to_unicode`, turned round)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


_ALPHABET = _byte_level_alphabet()


class TokenBytes:
    """What is known of each token of a tokenizer, looked up once a token.

    Args:
        tokenizer: A transformers tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._kind, self._strips = _kind(tokenizer)
        self._special = frozenset(getattr(tokenizer, "all_special_ids", ()))
        self._known: dict[int, bytes | None] = {}

    def of(self, token: int) -> bytes | None:
        """Return the bytes of a token, a superset of what it can bring into a text; None where that is unknown."""
        if token not in self._known:
            self._known[token] = self._look_up(token)
        return self._known[token]

    def may_hold(self, token: int, byte: int) -> bool:
        """Say whether a token can bring this byte into a text."""
        held = self.of(token)
        return held is None or byte in held

    def settles(self, token: int) -> bool:
        """Say whether what follows this token is decoded alike with and without what precedes.

        Special tokens are left out of texts, so a character may be open across them.
        """
        held = self.of(token)
        if not held or self._strips or token in self._special:
            return False
        if self._kind == "byte_level":
            return held[-1] < 0x80  # no character is open after it
        return not _BYTE_PIECE.fullmatch(self._piece(token))  # a run of bytes is read as a whole

    def _piece(self, token: int) -> str:
        piece = self._tokenizer.convert_ids_to_tokens(token)
        return piece if isinstance(piece, str) else ""

    def _look_up(self, token: int) -> bytes | None:
        if self._kind is None:
            return None
        piece = self._piece(token)
        if self._kind == "byte_level":
            known = [_ALPHABET.get(character) for character in piece]
            whole = [byte for byte in known if byte is not None]
            return bytes(whole) if len(whole) == len(known) else piece.encode(errors="replace")
        fallback = _BYTE_PIECE.fullmatch(piece)
        return bytes([int(fallback[1], 16)]) if fallback else piece.replace(_SPACE_PIECE, " ").encode(errors="replace")


def _kind(tokenizer: Any) -> tuple[str | None, bool]:
    """Return the kind of a tokenizer's decoder, and whether it strips what it decodes."""
    if getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return None, False  # puts an apostrophe where no token has one
    inner = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if inner is None:
        return None, False
    decoder = json.loads(inner.__getstate__())  # what it is saved as; the whole tokenizer takes a second to write out
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    names = [step["type"] for step in steps]
    if names == ["ByteLevel"]:
        return "byte_level", False
    turns = [step for step in steps if step["type"] == "Replace"]
    spaces = all(step["pattern"] == {"String": _SPACE_PIECE} and step["content"] == " " for step in turns)
    if spaces and set(names) <= {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}:
        return "pieces", bool({"Strip", "Metaspace"} & set(names))
    return None, False
