"""Whether padding to the left of a prompt leaves the answer what it is.

Positions are told to most models, counted from the prompt's first token. Some take none: those that see distances alone
(ALiBi) or count along the mask are right beside a longer prompt, those with learned positions (BART's decoder) count
the padding too. Their prompts are run beside prompts of the same length only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lm_eval_illusion.harness.generation_cache import positions_taken
from lm_eval_illusion.harness.generation_start import NEUTRAL

_TEXT = 24
"""Tokens of the longest prompt that is tried."""
_SHORTER = (4, 8, 12, 16, 20)
"""By how many tokens the others are shorter."""
_LOOKED_AT = 5
"""Likeliest tokens that are compared."""
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
"""Mean difference allowed, in nats of a token's log-probability, by dtype."""
_HALF_TOLERANCE = 0.2
"""The same in half precision, where logits of 16 to 32 are 1/8 apart."""


@torch.no_grad()
def may_be_padded(model: Any, tokens: Sequence[int], *, pad: int, device: Any) -> bool:
    """Say whether prompts of several lengths can be answered in one batch.

    Only a decoder that takes no positions is tried.

    Args:
        model: A transformers model with `generate`, in eval mode.
        tokens: A prompt, at least one token.
        pad: Token id for padding.
        device: Where the model reads its prompts.
    """
    if getattr(model.config, "is_encoder_decoder", False) or positions_taken(model):
        return True
    text = (tuple(tokens) * -(-_TEXT // len(tokens)))[:_TEXT]
    prompts = [text[cut:] for cut in _SHORTER]
    try:
        beside = _first_logprobs(model, [text, *prompts], pad, device)[1:]
        alone = torch.cat([_first_logprobs(model, [prompt], pad, device) for prompt in prompts])
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        return False
    if not bool(torch.isfinite(alone).all()):
        return True  # there is nothing to compare with, and what is read of such a model says so
    likeliest = alone.topk(_LOOKED_AT, dim=-1)
    apart = (beside.gather(-1, likeliest.indices) - likeliest.values).abs().mean()
    return bool(apart <= _TOLERANCE.get(model.dtype, _HALF_TOLERANCE))


def _first_logprobs(model: Any, prompts: Sequence[Sequence[int]], pad: int, device: Any) -> torch.Tensor:
    """Return the log-probabilities (prompts, vocabulary) of the first new token, as `generate` reads them."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), width), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    out = model.generate(
        input_ids=ids.to(device),
        attention_mask=mask.to(device),
        max_length=width + 1,
        pad_token_id=pad,
        use_cache=True,
        output_logits=True,
        return_dict_in_generate=True,
        **NEUTRAL,
    )
    logits: torch.Tensor = out.logits[0]
    return logits.float().log_softmax(-1)
