"""Where the gold stands: its tokens' ranks and log-probabilities with the gold itself as what was said so far.

The greedy answer is read in the same way, so that both can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lm_eval_illusion.harness.branching import Limits
from lm_eval_illusion.harness.generation_row import choose
from lm_eval_illusion.harness.generation_stop import Rule
from lm_eval_illusion.harness.head import ScoredHead
from lm_eval_illusion.harness.readout import TokenReading, token_logprobs, token_reading
from lm_eval_illusion.harness.together import Moves, Search

NO_RANKS: dict[str, Any] = dict.fromkeys(
    (
        *("ranks", "logprobs", "leave", "margin", "agreement"),
        *("gold_logprob", "greedy_logprob", "gold_tokens", "greedy_tokens"),
    )
)
"""What is said of an item whose logits are not finite, or that does not fit."""


@dataclass(frozen=True)
class Greedy:
    """One greedy answer."""

    tokens: tuple[int, ...]
    """The end token included, where one ended it."""
    finish: str
    tied_steps: int
    """Steps whose two highest logits were equal."""
    non_finite: bool
    """Whether the highest logit of a step was NaN or infinite."""


def greedy(logits: torch.Tensor, *, limits: Limits, rule: Rule) -> Search[Greedy]:
    """Find the answer that takes the highest logit at every step.

    Args:
        logits: (1, vocabulary), those of the first new token.
        limits: When the answer is over.
        rule: A fresh rule.
    """
    tokens: list[int] = []
    tied_steps, non_finite, finish = 0, False, None
    while True:
        chosen, tied, finite = choose(logits)
        tokens.append(int(chosen))
        tied_steps += int(tied)
        non_finite |= not bool(finite)
        finish = limits.finish(tokens, rule)
        if finish is not None:
            return Greedy(tuple(tokens), finish, tied_steps, non_finite)
        logits = yield Moves([0], [tokens[-1]])


def answer_tokens(answer: Greedy, ends: frozenset[int], is_blank: bool) -> tuple[int, ...]:
    """Return the tokens of a greedy answer whose likelihood is compared with the gold's.

    An end token, or a blank one that completes the line, is no part of it, unless it is all there is.

    Args:
        answer: The greedy answer.
        ends: Tokens that end an answer.
        is_blank: Whether the last token is white space alone.
    """
    ended = answer.tokens[-1] in ends or (answer.finish == "stop" and is_blank)
    return answer.tokens[:-1] if ended and len(answer.tokens) > 1 else answer.tokens


def read_ranks(gold: Sequence[TokenReading], said: Sequence[TokenReading]) -> dict[str, Any]:
    """Return the record `ranks` of an item.

    Args:
        gold: The gold's tokens under teacher forcing, at least one.
        said: The greedy answer's tokens in the same way.

    Returns:
        `ranks` and `logprobs` a gold token, `leave` (the first gold token that is not the greedy one), `margin` there,
        `agreement`, sums and numbers of tokens; everything None where the gold's numbers are not finite, and
        `greedy_logprob` where the answer's are not.
    """
    if any(token.rank is None or not math.isfinite(token.logprob) for token in gold):
        return dict(NO_RANKS)
    leave = next((n for n, token in enumerate(gold) if not token.is_greedy), None)
    greedy_logprob = sum(token.logprob for token in said)
    return {
        "ranks": [token.rank for token in gold],
        "logprobs": [token.logprob for token in gold],
        "leave": leave,
        "margin": None if leave is None else gold[leave].margin,
        "agreement": sum(token.is_greedy for token in gold) / len(gold),
        "gold_logprob": sum(token.logprob for token in gold),
        "greedy_logprob": greedy_logprob if math.isfinite(greedy_logprob) else None,
        "gold_tokens": len(gold),
        "greedy_tokens": len(said),
    }


@torch.no_grad()
def read_in_one_pass(
    model: Any, context: Sequence[int], continuation: Sequence[int], device: Any
) -> tuple[TokenReading, ...]:
    """Read a continuation's tokens without a cache, for causal models whose cache cannot be shared.

    Args:
        model: A causal transformers model in eval mode.
        context: The prompt's tokens, at least one.
        continuation: The tokens to read, at least one.
        device: Where token ids go.
    """
    ids = torch.tensor([[*context, *continuation]], device=device)
    head = ScoredHead(model)
    wanted = torch.arange(len(context) - 1, ids.shape[1] - 1, device=device)
    with head.at(wanted):
        logits = head.select(model(input_ids=ids[:, :-1], use_cache=False, return_dict=True).logits, wanted)
    logprobs, is_greedy = token_logprobs(logits, ids[0, len(context) :].to(logits.device))
    return tuple(token_reading(logits[n], token, logprobs[n], is_greedy[n]) for n, token in enumerate(continuation))
