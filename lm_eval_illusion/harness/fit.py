"""Decides whether an item fits the model's window, once for all halves of its pair.

Stock HFLM gives scoring the full window and generation the window minus `max_gen_toks`, so the two halves of a pair can
see different passages. One budget serves all of them here; an item over it is excluded everywhere and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lm_eval.models.utils import normalize_gen_kwargs

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.prompts import delimiter_of


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
        self._verdicts: dict[tuple[str, str, str], bool] = {}

    def fits(self, doc: Mapping[str, Any], prompt: str) -> bool:
        """Say whether the prompt leaves room for the longest option and for `max_gen_toks` new tokens.

        Options are those of every column `choices*` of the row, each after the language's delimiter; so all conditions
        whose rows hold the same options share one verdict.
        """
        key = (str(doc["item_id"]), str(doc.get("condition", "")), prompt)
        if key not in self._verdicts:
            options = {option for name in doc if name.startswith("choices") for option in doc[name]}
            delimiter = delimiter_of(doc["language"])
            longest = max(self._count_option(delimiter + option) for option in options)
            budget = self._window - max(longest, int(doc["max_gen_toks"]))
            self._verdicts[key] = self._count_tokens(prompt) <= budget
        return self._verdicts[key]


def require_budget(doc: Mapping[str, Any], arguments: dict[str, Any]) -> None:
    """Raise where `--gen_kwargs` would give the open half another window, or another end, than its pair."""
    asked = normalize_gen_kwargs(arguments, doc["max_gen_toks"])
    if asked["max_gen_toks"] != doc["max_gen_toks"] or any(asked["until"]):
        raise IllusionError(
            f"--gen_kwargs: {doc['item_id']} was given max_gen_toks={asked['max_gen_toks']}, until={asked['until']!r}; "
            f"both halves of a pair are budgeted for max_gen_toks={doc['max_gen_toks']}, until=[] (a newline there "
            "empties answers that begin with one); leave both out of --gen_kwargs"
        )
