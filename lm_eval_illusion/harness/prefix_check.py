"""Whether a model goes on after a cached prompt as it would have gone on without the cut.

Caches of keys and values do. State that is handed from token to token (linear attention, state spaces) is another
matter: some models take several tokens after a prompt for the beginning of a text, without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from lm_eval_illusion.harness import scoring
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
def goes_on(model: Any, tokens: Sequence[int], *, pad: int, device: Any) -> bool:
    """Score the end of a text after its cached beginning and in one pass, and say whether both agree.

    A model that keeps keys and values alone is not tried.

    Args:
        model: A causal transformers model in eval mode.
        tokens: A text, at least one token; its last `MOST_TOKENS` are tried, alone and beside a shorter prompt.
        pad: Token id for padding.
        device: Where token ids go.
    """
    if _keeps_keys_and_values(model.config):
        return True
    text = tuple(tokens)[-MOST_TOKENS:]
    text *= -(-LEAST_TOKENS // len(text))
    short = text[-CONTINUED - 4 :]
    prompts = [scoring.Prompt(whole[:-CONTINUED], (whole[-CONTINUED:],)) for whole in (text, short)]
    cached = [one.logprob for (one,) in scoring.score(model, prompts, pad=pad, device=device)]
    allowed = CONTINUED * TOLERANCE.get(model.dtype, HALF_TOLERANCE)
    return all(
        abs(logprob - _in_one_pass(model, whole, device)) <= allowed
        for logprob, whole in zip(cached, (text, short), strict=True)
    )


def _keeps_keys_and_values(config: Any) -> bool:
    """Say so from the layers of the cache that transformers makes for it; nothing is run."""
    return all(type(layer).__name__ in KEYS_AND_VALUES for layer in DynamicCache(config=config).layers)


def _in_one_pass(model: Any, text: tuple[int, ...], device: Any) -> float:
    ids = torch.tensor([text], device=device)
    head = ScoredHead(model)
    wanted = torch.arange(len(text) - 1 - CONTINUED, len(text) - 1, device=device)
    with head.at(wanted):
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return sum(token_logprobs(head.select(logits, wanted), ids[0, -CONTINUED:].to(logits.device))[0])
