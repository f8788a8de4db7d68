"""Several continuations of one prompt: what they are, and the plain way to go on from any of them.

One prompt at a time, with its own hypotheses or samples as the rows: what an item gets cannot depend on the batch size,
on the items beside it or on the process it runs in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from lm_eval_illusion.harness.decoder_start import answer_start
from lm_eval_illusion.harness.generation_cache import last_logits_only
from lm_eval_illusion.harness.generation_stop import Rule


@dataclass(frozen=True)
class Hypothesis:
    """One finished continuation."""

    tokens: tuple[int, ...]
    """New tokens, the end token included where one ended it; at least one."""
    logprob: float
    """Sum of the model's own log p(token | prompt, earlier tokens), in nats."""
    finish: str
    """"stop" where the line or an end token ended it, "length" where the limit cut it."""

    @property
    def score(self) -> float:
        """Log-probability per token, in nats: transformers' `length_penalty` of 1.0."""
        return self.logprob / len(self.tokens)


@dataclass(frozen=True)
class Limits:
    """When a continuation is over."""

    most: int
    """Most new tokens, at least one."""
    ends: frozenset[int]
    """Tokens that end it."""

    def finish(self, tokens: Sequence[int], rule: Rule) -> str | None:
        """Say how the tokens end the continuation, None where it goes on; `rule` has seen all but the last."""
        if tokens[-1] in self.ends or rule.ended(tokens):
            return "stop"
        return "length" if len(tokens) >= self.most else None


class Branches(Protocol):
    """Rows that go on from a prompt."""

    def follow(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        """Let each new row go on from row `parents[n]` with `tokens[n]`; return the next logits (rows, vocabulary)."""


class Recomputed:
    """Rows without a cache: every step runs the whole text again.

    Args:
        model: A transformers model, causal or encoder-decoder, in eval mode.
        prompt: The prompt's tokens.
        device: Where the model reads its tokens.
    """

    def __init__(self, model: Any, prompt: Sequence[int], device: Any) -> None:
        self._model = model
        self._device = device
        self._rows: list[tuple[int, ...]] = [()]
        self._states: Any = None
        self._before = tuple(prompt)
        if getattr(model.config, "is_encoder_decoder", False):
            ids = torch.tensor([self._before], device=device)
            self._states = model.get_encoder()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
            self._before = (answer_start(model),)
        self._last_only = last_logits_only(model)

    def follow(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        """See `Branches`."""
        self._rows = [(*self._rows[parent], token) for parent, token in zip(parents, tokens, strict=True)]
        return self.logits()

    def logits(self) -> torch.Tensor:
        """Return the logits (rows, vocabulary) of each row's next token."""
        ids = torch.tensor([(*self._before, *row) for row in self._rows], device=self._device)
        told: dict[str, Any] = dict(self._last_only)
        if self._states is None:
            told |= {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        else:
            from transformers.modeling_outputs import BaseModelOutput

            states = self._states.expand(len(self._rows), -1, -1)
            mask = torch.ones(states.shape[:2], dtype=torch.long, device=states.device)
            told |= {"encoder_outputs": BaseModelOutput(last_hidden_state=states), "attention_mask": mask}
            told["decoder_input_ids"] = ids
        logits: torch.Tensor = self._model(**told, use_cache=False, return_dict=True).logits[:, -1]
        return logits


def in_float32(logits: torch.Tensor) -> torch.Tensor:
    """Return logits in float32, on a device that has float64 beside it (Apple's has not)."""
    return logits.float().cpu() if logits.device.type == "mps" else logits.float()


def log_norms(logits: torch.Tensor) -> list[float] | None:
    """Return log of the sum of exponentials of each row of float32 logits (rows, vocabulary), summed in float64.

    None where any row's highest logit is not a finite number; a NaN anywhere in a row is its highest.
    """
    highest = logits.amax(-1, keepdim=True)
    if not bool(torch.isfinite(highest).all()):
        return None
    sums = (logits - highest).exp_().sum(-1, dtype=torch.float64)
    norms: list[float] = (sums.log() + highest[:, 0].double()).tolist()
    return norms
