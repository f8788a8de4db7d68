"""How a model goes on from a prompt that has been run: the quickest way that it can take."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

import torch

from lm_eval_illusion.harness.branch_tree import Tree, require_tree
from lm_eval_illusion.harness.branching import Branches, Recomputed
from lm_eval_illusion.harness.generation_cache import CannotRunError
from lm_eval_illusion.harness.generation_row import Row
from lm_eval_illusion.harness.generation_start import begin

log = logging.getLogger("lm_eval.illusion")

Way = Literal["tree", "rows", "texts"]
"""All continuations in one sequence under a mask; a cache a row; the whole text anew at every step."""

_LEFT: dict[Way, str] = {
    "tree": "a cache a row for beams, samples and ranks, which takes up to twice as long",
    "rows": "no cache for beams, samples and ranks, each step runs the whole text",
}
"""What it means that a way is left."""


class Endless:
    """A rule that nothing ends: the caller watches the rows."""

    def ended(self, tokens: Sequence[int]) -> bool:
        """See `Rule`."""
        return False


def run_prompt(
    model: Any, prompt: Sequence[int], *, limit: int, pad: int, device: Any, way: Way = "rows"
) -> tuple[torch.Tensor, Branches]:
    """Run a prompt once.

    Args:
        model: A transformers model with `generate`, causal or encoder-decoder, in eval mode.
        prompt: Its tokens, at least one.
        limit: Most new tokens that will follow.
        pad: Token id for padding.
        device: Where the model reads its prompts.
        way: How to go on from it.

    Returns:
        The logits (1, vocabulary) of the first new token, and the one row to branch from.

    Raises:
        CannotRunError: Where the model cannot go on this way.
    """
    if way != "rows":
        rows = Tree(model, prompt, device) if way == "tree" else Recomputed(model, prompt, device)
        return rows.logits(), rows
    ids = torch.tensor([list(prompt)], device=device)
    batch = begin(model, ids, torch.ones_like(ids), limit=limit, pad=pad)
    return batch.prompt([Row(0, Endless(), limit, 0)]), batch


class Ways:
    """The ways that a model may yet take.

    Args:
        model: A transformers model with `generate`, causal or encoder-decoder, in eval mode.
        pad: Token id for padding.
        device: Where the model reads its prompts.
    """

    def __init__(self, model: Any, *, pad: int, device: Any) -> None:
        self._model, self._pad, self._device = model, pad, device
        seq2seq = bool(getattr(model.config, "is_encoder_decoder", False))
        self.left: list[Way] = ["rows", "texts"] if seq2seq else ["tree", "rows", "texts"]
        """The quickest first; an encoder-decoder's prompt stands in its encoder, once for all rows."""
        self._tried = False

    def best(self, prompt: Sequence[int]) -> Way:
        """Return the quickest way; the first prompt, which should be the longest, is also a trial of the tree."""
        if self.left[0] == "tree" and not self._tried:
            self._tried = True
            try:
                require_tree(self._model, prompt, Recomputed(self._model, prompt, self._device), self._device)
            except CannotRunError as why:
                self.give_up(why)
        return self.left[0]

    def run(self, prompt: Sequence[int], limit: int) -> tuple[torch.Tensor, Branches]:
        """Run a prompt in the quickest way: see `run_prompt`."""
        return run_prompt(self._model, prompt, limit=limit, pad=self._pad, device=self._device, way=self.best(prompt))

    def give_up(self, why: CannotRunError) -> None:
        """Leave the quickest way, with a line of log; raise `why` where no other is left."""
        if len(self.left) == 1:
            raise why
        log.warning("%s: %s: %s", type(self._model).__name__, _LEFT[self.left.pop(0)], why)
