"""Whether a model says of a prompt that is run once what stock HFLM says of whole texts.

Most do, and are not tried. Three kinds are. State that is handed from token to token (linear attention, state spaces):
some models take several tokens after a prompt for the beginning of a text, or leave rows where they were, without a
word. Models that are told no positions: what stands to the left of a shorter prompt may move it. Encoder-decoders:
what stands before a continuation is the model's own affair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from lm_eval_illusion.harness import scoring
from lm_eval_illusion.harness.generation_cache import positions_taken
from lm_eval_illusion.harness.generation_padding import may_be_padded
from lm_eval_illusion.harness.head import ScoredHead
from lm_eval_illusion.harness.readout import token_logprobs

KEYS_AND_VALUES = ("DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer")
"""Layers of a cache that keep keys and values, their own or another layer's."""
MOST_TOKENS, LEAST_TOKENS = 64, 12
"""Length of the text that is tried."""
CONTINUED = 6
"""Tokens of it that follow the cached prompt."""
TOLERANCE = {torch.float32: 1e-3}
"""Difference allowed, in nats a token, by dtype."""
HALF_TOLERANCE = 0.1
"""The same in half precision."""


@torch.no_grad()
def why_not(model: Any, prompt: scoring.Prompt, *, pad: int, device: Any) -> str | None:
    """Say why a model's prompts cannot be run once for all their continuations; None where they can.

    Args:
        model: A transformers model in eval mode.
        prompt: One to try, with a continuation.
        pad: Token id for padding.
        device: Where token ids go.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        same = begins_as_labels_do(model, prompt.context, prompt.continuations[0], pad=pad, device=device)
        return None if same else "its labels do not stand behind the token that its decoder starts with"
    text = prompt.context + prompt.continuations[0]
    if not may_be_padded(model, text, pad=pad, device=device):
        return "padding to the left of a prompt changes its scores, and its forward takes no positions"
    if goes_on(model, text, pad=pad, device=device):
        return None
    return "several tokens after a cached prompt do not continue it"


@torch.no_grad()
def goes_on(model: Any, tokens: Sequence[int], *, pad: int, device: Any) -> bool:
    """Score ends of a text after its cached beginning and in one pass, and say whether both agree.

    A model that takes positions and keeps keys and values alone is not tried.

    Args:
        model: A causal transformers model in eval mode.
        tokens: A text, at least one token; its last `MOST_TOKENS` are tried, beside a shorter prompt.
        pad: Token id for padding.
        device: Where token ids go.
    """
    if positions_taken(model) and _keeps_keys_and_values(model.config):
        return True
    text = tuple(tokens)[-MOST_TOKENS:]
    text *= -(-LEAST_TOKENS // len(text))
    short = text[-CONTINUED - 4 :]
    # Longer continuations come first in their batch: rows change places, and one prompt goes on in two ways.
    prompts = [
        scoring.Prompt(text[:-CONTINUED], (text[-CONTINUED:-1], text[-CONTINUED:])),
        scoring.Prompt(short[: -CONTINUED - 1], (short[-CONTINUED - 1 :],)),
    ]
    cached = scoring.score(model, prompts, pad=pad, device=device)
    return all(
        _agree(one.logprob, expected[: len(continuation)], model.dtype)
        for prompt, row, expected in zip(
            prompts,
            cached,
            (_in_one_pass(model, text, CONTINUED, device), _in_one_pass(model, short, CONTINUED + 1, device)),
            strict=True,
        )
        for continuation, one in zip(prompt.continuations, row, strict=True)
    )


@torch.no_grad()
def begins_as_labels_do(
    model: Any, context: Sequence[int], continuation: Sequence[int], *, pad: int, device: Any
) -> bool:
    """Score a continuation behind the decoder's start and as labels, and say whether both agree.

    A model that cannot be called with labels is not compared: stock cannot score it either.

    Args:
        model: An encoder-decoder in eval mode.
        context: The encoder's tokens, at least one; the last `MOST_TOKENS` are tried.
        continuation: The decoder's, at least one; the first `MOST_TOKENS` are tried.
        pad: Token id for padding.
        device: Where token ids go.
    """
    tried, labels = tuple(context)[-MOST_TOKENS:], tuple(continuation)[:MOST_TOKENS]
    ((ours,),) = scoring.score(model, [scoring.Prompt(tried, (labels,))], pad=pad, device=device)
    ids, targets = torch.tensor([tried], device=device), torch.tensor([labels], device=device)
    try:
        with ScoredHead(model).at():
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=targets).logits[0].float()
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        return True
    return _agree(ours.logprob, token_logprobs(logits, targets[0].to(logits.device))[0], model.dtype)


def _agree(ours: float, expected: Sequence[float], dtype: torch.dtype) -> bool:
    """Compare a sum of log-probabilities; where there is none to compare with, what is read of the model says so."""
    total = sum(expected)
    return not math.isfinite(total) or abs(ours - total) <= len(expected) * TOLERANCE.get(dtype, HALF_TOLERANCE)


def _keeps_keys_and_values(config: Any) -> bool:
    """Say so from the layers of the cache that transformers makes for it; nothing is run."""
    return all(type(layer).__name__ in KEYS_AND_VALUES for layer in DynamicCache(config=config).layers)


def _in_one_pass(model: Any, text: tuple[int, ...], count: int, device: Any) -> list[float]:
    """Return the log-probabilities of a text's last tokens, in nats."""
    ids = torch.tensor([text], device=device)
    head = ScoredHead(model)
    wanted = torch.arange(len(text) - 1 - count, len(text) - 1, device=device)
    with head.at(wanted):
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return token_logprobs(head.select(logits, wanted), ids[0, -count:].to(logits.device))[0]
