"""What is read from logits at scored positions: log-probabilities, greediness, ranks, where two options part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

_SLICE = 1 << 22
"""Logits copied at a time (16 MiB)."""


@dataclass(frozen=True)
class Parting:
    """The token at which an option parts from the gold one, after the tokens they share."""

    token: int
    """Position of that token in both, counted from 0."""
    gold_rank: int | None
    """1 + number of tokens with a higher logit than the gold's there; None where logits are not finite."""
    margin: float | None
    """log p(gold's token) - log p(this option's token) there, in nats; None where it is not finite."""


@dataclass(frozen=True)
class TokenReading:
    """One token of a continuation, read with all tokens before it given."""

    rank: int | None
    """1 + number of tokens with a higher logit; None where logits are not finite."""
    logprob: float
    """log p(token | prompt, earlier tokens) in nats."""
    is_greedy: bool
    """Whether it has the highest logit, the first of those that tie."""
    margin: float | None
    """log p(token) - log p(the token with the highest logit), at most 0; None where logits are not finite."""


def parting_token(option: Sequence[int], gold: Sequence[int]) -> int | None:
    """Return the first position at which two token sequences differ; None if one begins with the other."""
    return next((n for n, (a, b) in enumerate(zip(option, gold, strict=False)) if a != b), None)


def token_logprobs(logits: torch.Tensor, targets: torch.Tensor) -> tuple[list[float], list[bool]]:
    """Read the tokens that stand at scored positions.

    Args:
        logits: (n, vocabulary) float32.
        targets: Token ids (n,), int64, on the same device.

    Returns:
        log p(target) in nats, NaN where a logit is NaN, and whether the target has the highest logit (the first of
        those that tie), one of each a position.
    """
    highest, best = logits.max(-1)
    chosen = logits.gather(-1, targets[:, None])[:, 0]
    # Slice by slice: copies of this size are served from memory already mapped, larger ones page by page.
    step = max(1, _SLICE // logits.shape[-1])
    sums = [
        (logits[start : start + step] - highest[start : start + step, None]).exp_().sum(-1)
        for start in range(0, logits.shape[0], step)
    ]
    return (chosen - highest - torch.cat(sums).log()).tolist(), (best == targets).tolist()


def rank(logits: torch.Tensor, token: int) -> int | None:
    """Return 1 + the number of logits (vocabulary,) above the token's; None if that one, or any by NaN, is unusable."""
    own = logits[token]
    if not bool(torch.isfinite(own)) or bool(torch.isnan(logits).any()):
        return None
    return int((logits > own).sum()) + 1


def token_reading(logits: torch.Tensor, token: int, logprob: float, is_greedy: bool) -> TokenReading:
    """Read one token under the logits (vocabulary,) that stood before it; see `token_logprobs` for the rest."""
    place = rank(logits, token)
    margin = None if place is None else float(logits[token] - logits.max())
    return TokenReading(place, logprob, is_greedy, margin if margin is not None and margin > -float("inf") else None)


def parting(logits: torch.Tensor, token: int, option: int, gold: int) -> Parting:
    """Compare an option's and the gold's token under the logits (vocabulary,) at position `token`."""
    margin = float(logits[gold] - logits[option])
    place = rank(logits, gold)
    return Parting(token, place, margin if place is not None and abs(margin) < float("inf") else None)
