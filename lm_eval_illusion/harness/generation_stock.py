"""Paired items' answers through transformers' own `generate`, for what the decode loop cannot run.

Models whose cache cannot be taken apart by rows, and generation arguments beyond plain greedy decoding. Rows that have
ended are padded until the last of their batch ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from lm_eval_illusion.harness.generation_row import choose
from lm_eval_illusion.harness.generation_start import NEUTRAL
from lm_eval_illusion.harness.generation_stop import FirstLine
from lm_eval_illusion.pairs.reading import line_complete


@dataclass(frozen=True)
class Generated:
    """One generated answer."""

    text: str
    """Decoded new tokens, special tokens left out."""
    finish: str
    """"stop" where a line or the end-of-text token ended it, "length" where the token limit cut it."""
    non_finite: bool
    """Whether the highest logit of one of its steps was NaN or infinite."""
    tied_steps: int
    """Steps whose two highest logits were equal."""


class _Lines(StoppingCriteria):  # type: ignore[misc]  # transformers is untyped
    """Marks the rows whose new text is complete; `generate` pads them from then on."""

    def __init__(self, rule: Callable[[], FirstLine], start: int) -> None:
        self._rule = rule
        self._start = start
        self._rules: list[FirstLine] = []
        self.steps: list[int | None] = []
        """Tokens of each row when its line was complete."""

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Return a bool tensor (batch,)."""
        if not self._rules:
            self._rules = [self._rule() for _ in input_ids]
            self.steps = [None] * len(self._rules)
        for row, tokens in enumerate(input_ids[:, self._start :].tolist()):
            if self.steps[row] is None and self._rules[row].ended(tokens):
                self.steps[row] = len(tokens)
        return torch.tensor([steps is not None for steps in self.steps], device=input_ids.device)


class _Watch(LogitsProcessor):  # type: ignore[misc]
    """Changes nothing; remembers each step's ties and logits that are not finite (argmax of NaN looks like a token)."""

    def __init__(self) -> None:
        self.tied: list[list[bool]] = []
        self.non_finite: list[list[bool]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores as they came, (batch, vocabulary)."""
        _, tied, finite = choose(scores)
        self.tied.append(tied.tolist())
        self.non_finite.append((~finite).tolist())
        return scores


@torch.no_grad()
def generate(
    model: Any,
    tokenizer: Any,
    ids: torch.Tensor,
    mask: torch.Tensor,
    *,
    rule: Callable[[], FirstLine],
    max_new_tokens: int,
    extra: dict[str, Any] | None = None,
) -> list[Generated]:
    """Answer one left-padded batch greedily.

    Args:
        model: A transformers model with `generate`.
        tokenizer: Its tokenizer, with a pad token.
        ids: Prompt tokens (batch, length), int64.
        mask: Attention mask of the same shape.
        rule: Makes the rule of one row.
        max_new_tokens: Most tokens of an answer.
        extra: Further arguments of `generate`, which win over the neutral ones.
    """
    width = 0 if getattr(model.config, "is_encoder_decoder", False) else ids.shape[1]
    start = width or 1  # an encoder-decoder's output begins with its start token
    lines, watch = _Lines(rule, start), _Watch()
    out = model.generate(
        input_ids=ids.to(model.device),
        attention_mask=mask.to(model.device),
        max_new_tokens=max_new_tokens,
        pad_token_id=tokenizer.pad_token_id,
        use_cache=True,
        stopping_criteria=StoppingCriteriaList([lines]),
        logits_processor=LogitsProcessorList([watch]),
        **{**NEUTRAL, **(extra or {})},
    )
    ends = end_tokens(model, tokenizer)
    answers = []
    for row, tokens in enumerate(out[:, start:].tolist()):
        cut_at = next((n for n, token in enumerate(tokens) if token in ends), None)
        text = str(tokenizer.decode(tokens[:cut_at], skip_special_tokens=True))
        steps = min(lines.steps[row] or len(tokens), len(tokens) if cut_at is None else cut_at + 1)
        answers.append(
            Generated(
                text=text,
                finish="stop" if cut_at is not None or line_complete(text) else "length",
                non_finite=any(step[row] for step in watch.non_finite[:steps]),
                tied_steps=sum(step[row] for step in watch.tied[:steps]),
            )
        )
    return answers


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end an answer: the generation config's and the tokenizer's own."""
    listed = model.generation_config.eos_token_id if model.generation_config is not None else None
    ends = set(listed) if isinstance(listed, list | tuple) else {listed}
    return frozenset(int(token) for token in (*ends, tokenizer.eos_token_id) if token is not None)
