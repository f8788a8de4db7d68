"""Decides whether an item fits the model's window, once for all halves of its pair.

Stock HFLM gives scoring the full window and generation the window minus `max_gen_toks`, so the two halves of a pair can
see different passages. One budget serves all of them here; an item over it is excluded everywhere and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class FitChecker:
    """Remembers each item's verdict.

    Args:
        count_tokens: Number of tokens of a prompt as the model would see it.
        count_option: Number of tokens of an option after the prompt.
        window: The model's maximum length in tokens.
    """

    def __init__(self, count_tokens: Callable[[str], int], count_option: Callable[[str], int], window: int) -> None:
        self._count_tokens = count_tokens
        self._count_option = count_option
        self._window = window
        self._verdicts: dict[tuple[str, str], bool] = {}

    def fits(self, doc: Mapping[str, Any], prompt: str) -> bool:
        """Say whether the prompt leaves room for the longest option and for `max_gen_toks` new tokens."""
        key = (str(doc["item_id"]), prompt)
        if key not in self._verdicts:
            options = {*doc["choices_near"], *doc["choices_far"]}
            longest = max(self._count_option(" " + option) for option in options)
            budget = self._window - max(longest, int(doc["max_gen_toks"]))
            self._verdicts[key] = self._count_tokens(prompt) <= budget
        return self._verdicts[key]
