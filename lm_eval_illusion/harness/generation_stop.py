"""When an answer has ended: stock's rule for any task, the first line of text for paired items.

Both look at new tokens alone, and decode only where a token among them can have brought what they wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lm_eval_illusion.harness.generation_tokens import TokenBytes
from lm_eval_illusion.pairs.reading import line_complete

_NEWLINE = 0x0A
_LOOKBACK = 2
"""Tokens beyond a stop string's own that stock looks back at (`MultiTokenEOSCriteria`)."""


class Rule(Protocol):
    """Watches one answer grow."""

    def ended(self, tokens: Sequence[int]) -> bool:
        """Say whether the answer is over; asked after each new token, with all new tokens so far."""


class StopStrings:
    """Stock HFLM's stop strings: a string ends the answer where it stands in the text of the last few tokens.

    The window is the length of the string's own encoding plus two tokens, special tokens count as text, and the text of
    the window is decoded apart from what precedes it: all of it as in stock, since where it stops decides what an
    answer holds.

    Args:
        tokenizer: The model's tokenizer.
        strings: The stop strings, the end-of-text token's own among them.
        tokens: What is known of the tokenizer's tokens.
    """

    def __init__(self, tokenizer: Any, strings: Sequence[str], tokens: TokenBytes) -> None:
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._windows = [
            (string, len(tokenizer.encode(string, add_special_tokens=False)) + _LOOKBACK, _last_byte(string))
            for string in strings
        ]

    def ended(self, tokens: Sequence[int]) -> bool:
        """See `Rule`."""
        texts: dict[int, str] = {}
        for string, width, byte in self._windows:
            window = tokens[-width:]
            if byte is not None and not any(self._tokens.may_hold(token, byte) for token in window):
                continue
            if width not in texts:
                texts[width] = self._tokenizer.decode(list(window))
            if string in texts[width]:
                return True
        return False


def _last_byte(string: str) -> int | None:
    """Return the byte a window must hold for the string to stand in it; None where it may stand there anyway."""
    return None if not string or "\ufffd" in string else string.encode(errors="replace")[-1]


class FirstLine:
    """Ends a paired item's answer once its line is complete (`pairs.reading.line_complete`).

    Args:
        tokenizer: The model's tokenizer.
        tokens: What is known of the tokenizer's tokens.
    """

    def __init__(self, tokenizer: Any, tokens: TokenBytes) -> None:
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._text = ""
        self._settled = 0

    def ended(self, tokens: Sequence[int]) -> bool:
        """See `Rule`."""
        return self._tokens.may_hold(tokens[-1], _NEWLINE) and line_complete(self.text(tokens))

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of the tokens, special ones left out, decoding what was not settled before."""
        rest = self._tokenizer.decode(list(tokens[self._settled :]), skip_special_tokens=True)
        if not tokens or not self._tokens.settles(tokens[-1]):
            return self._text + str(rest)
        self._text += rest
        self._settled = len(tokens)
        return self._text
