"""Greedy answers for paired items: prompts of like length together, a row stops after its first line of text.

Stock `generate_until` stops at a newline wherever it stands (a leading one empties the answer) or runs on to the token
limit. Here a row is done once it holds a line with text and a newline after it; the text is otherwise the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from lm_eval_illusion.pairs.reading import line_complete

NEUTRAL: dict[str, Any] = {
    "do_sample": False,
    "num_beams": 1,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_new_tokens": None,
    "min_length": 0,
}
"""Greedy means the highest logit: a checkpoint's own generation_config must not bend it."""


@dataclass(frozen=True)
class Generated:
    """One generated answer."""

    text: str
    """Decoded new tokens, special tokens left out."""
    finish: str
    """"stop" where a line or the end-of-text token ended it, "length" where the token limit cut it."""
    non_finite: bool
    """Whether a logit was NaN, or all were infinite, at a step of this row."""


class FirstLine(StoppingCriteria):  # type: ignore[misc]  # transformers is untyped
    """Marks the rows whose new text is complete; `generate` pads them from then on."""

    def __init__(self, decode: Callable[[Any], list[str]], prompt_width: int) -> None:
        self._decode = decode
        self._start = prompt_width
        self.done: list[bool] = []

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Return a bool tensor (batch,)."""
        if not self.done:
            self.done = [False] * input_ids.shape[0]
        open_rows = [row for row, done in enumerate(self.done) if not done]
        for row, text in zip(open_rows, self._decode(input_ids[open_rows, self._start :]), strict=True):
            self.done[row] = line_complete(text)
        return torch.tensor(self.done, device=input_ids.device)


class NonFinite(LogitsProcessor):  # type: ignore[misc]
    """Changes nothing; remembers which rows saw NaN logits (argmax of NaN is token 0 and looks like an answer)."""

    def __init__(self, batch: int) -> None:
        self.seen = torch.zeros(batch, dtype=torch.bool)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores as they came, (batch, vocabulary)."""
        bad = torch.isnan(scores).any(-1) | torch.isinf(scores).all(-1)
        self.seen |= bad.cpu()
        return scores


@torch.no_grad()
def generate(
    model: Any,
    tokenizer: Any,
    ids: torch.Tensor,
    mask: torch.Tensor,
    *,
    max_new_tokens: int,
    extra: dict[str, Any] | None = None,
) -> list[Generated]:
    """Answer one left-padded batch greedily.

    Args:
        model: A transformers model with `generate`.
        tokenizer: Its tokenizer, with a pad token.
        ids: Prompt tokens (batch, length), int64.
        mask: Attention mask of the same shape.
        max_new_tokens: Most tokens of an answer.
        extra: Further arguments of `generate`, which win over the neutral ones.
    """
    width = 0 if getattr(model.config, "is_encoder_decoder", False) else ids.shape[1]
    start = width or 1  # an encoder-decoder's output begins with its start token

    def decode(rows: Sequence[Any]) -> list[str]:
        return list(tokenizer.batch_decode(rows, skip_special_tokens=True))

    lines, watch = FirstLine(decode, start), NonFinite(ids.shape[0])
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
    ends = _end_tokens(model, tokenizer)
    answers = []
    for row, tokens in enumerate(out[:, start:].tolist()):
        cut_at = next((n for n, token in enumerate(tokens) if token in ends), None)
        text = decode([tokens if cut_at is None else tokens[:cut_at]])[0]
        stopped = cut_at is not None or line_complete(text)
        answers.append(Generated(text, "stop" if stopped else "length", bool(watch.seen[row])))
    return answers


def _end_tokens(model: Any, tokenizer: Any) -> set[int]:
    listed = model.generation_config.eos_token_id if model.generation_config is not None else None
    ends = set(listed) if isinstance(listed, list | tuple) else {listed}
    return {int(token) for token in (*ends, tokenizer.eos_token_id) if token is not None}
