"""One greedy answer in the making, and the choice of its next token."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from lm_eval_illusion.harness.generation_stop import Rule


@dataclass
class Row:
    """One answer in the making."""

    key: int
    """The caller's number of it."""
    rule: Rule
    """When it has ended."""
    limit: int
    """Most new tokens."""
    padding: int
    """Columns of padding to the left of its prompt."""
    ends: frozenset[int] = frozenset()
    """Tokens that end it, besides those that end any answer of the model."""
    unseen: int = 0
    """Decoder tokens, the start token included, that the rule never sees."""
    before: tuple[int, ...] = ()
    """Decoder tokens of an encoder-decoder that stood before the first new one."""
    tokens: list[int] = field(default_factory=list)
    """New tokens so far."""
    finish: str | None = None
    """"stop" or "length" once it has ended."""
    tied: int = 0
    """Steps whose two highest logits were equal."""
    non_finite: bool = False
    """Whether the highest logit of a step was NaN or infinite."""

    def add(self, token: int, ends: frozenset[int]) -> None:
        """Take one more token, and end where it ends the answer."""
        self.tokens.append(token)
        seen = self.tokens[max(0, self.unseen - len(self.before)) :] if self.unseen else self.tokens
        if token in ends or token in self.ends or self.rule.ended(seen):
            self.finish = "stop"
        elif len(self.tokens) >= self.limit:
            self.finish = "length"


def choose(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the greedy tokens (rows,), which of them share the highest logit, and whether that logit is finite.

    Args:
        logits: (rows, vocabulary), in the dtype the model computed them in. A NaN anywhere in a row is its highest.
    """
    scores = logits.to(torch.float32, copy=True, memory_format=torch.contiguous_format)  # exact: ties stay ties
    tokens = scores.argmax(-1)
    highest = scores.gather(-1, tokens[:, None])
    finite = torch.isfinite(highest[:, 0])
    scores.scatter_(-1, tokens[:, None], -torch.inf)
    return tokens, (scores.amax(-1) == highest[:, 0]) & finite, finite
