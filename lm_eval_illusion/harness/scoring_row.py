"""One scored continuation: what is read of its tokens on the way, and the result."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lm_eval_illusion.harness.readout import Parting, TokenReading, parting, parting_token, rank, token_reading


@dataclass(frozen=True)
class Scored:
    """One scored continuation."""

    logprob: float
    """Sum over its tokens of log p(token | prompt, earlier tokens), in nats; NaN where the model's logits are."""
    is_greedy: bool
    """Whether each of its tokens has the highest logit."""
    first_token_rank: int | None
    """1 + number of tokens with a higher logit at its first token; None where logits are not finite."""
    parting: Parting | None = None
    """Where it parts from the gold continuation, if one was named and neither begins with the other."""
    tokens: tuple[TokenReading, ...] = ()
    """Every token for itself, where the prompt asks for that."""


class Row:
    """A continuation on its way: what has been read of it so far.

    Args:
        prompt: Number of its prompt in the batch.
        number: Its number among the prompt's continuations.
        tokens: Its token ids.
        gold: The gold continuation to compare it with, if any.
        token_by_token: Whether to keep what is read of each token.
    """

    def __init__(
        self,
        prompt: int,
        number: int,
        tokens: tuple[int, ...],
        gold: tuple[int, ...] | None,
        token_by_token: bool = False,
    ) -> None:
        self.prompt, self.number, self.tokens = prompt, number, tokens
        self._gold = gold
        self._parts_at = None if gold is None else parting_token(tokens, gold)
        self._logprob = 0.0
        self._greedy = True
        self._rank: int | None = None
        self._parting: Parting | None = None
        self._readings: list[TokenReading] | None = [] if token_by_token else None

    def read(self, token: int, logits: torch.Tensor, logprob: float, is_greedy: bool) -> None:
        """Take down token number `token`, given the logits (vocabulary,) that stood before it."""
        self._logprob += logprob
        self._greedy &= is_greedy
        if self._readings is not None:
            self._readings.append(token_reading(logits, self.tokens[token], logprob, is_greedy))
        if token == 0:
            self._rank = rank(logits, self.tokens[0])
        if token == self._parts_at and self._gold is not None:
            self._parting = parting(logits, token, self.tokens[token], self._gold[token])

    def scored(self) -> Scored:
        """Return the result once every token has been read."""
        return Scored(self._logprob, self._greedy, self._rank, self._parting, tuple(self._readings or ()))
