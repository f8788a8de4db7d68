"""Results that carry what the harness has no place for.

The harness knows two kinds of answer: a pair (log-probability, is greedy) and a text. Subclasses of both travel through
its filters unchanged, so rank, fit and finish reason ride on them as one attribute `illusion` to `process_results`.
"""

from __future__ import annotations

from typing import Any


class ScoredPair(tuple[float, bool]):
    """A pair (log-probability in nats, whether every token was the greedy one) with an `illusion` dict."""

    illusion: dict[str, Any]

    def __new__(cls, logprob: float, is_greedy: bool, **illusion: Any) -> ScoredPair:
        """Make the pair; keyword arguments become the `illusion` attribute."""
        pair = super().__new__(cls, (logprob, is_greedy))
        pair.illusion = illusion
        return pair

    def __getnewargs_ex__(self) -> tuple[tuple[float, bool], dict[str, Any]]:
        """Let the pair be pickled and copied with its attribute (request caches, gathering over processes)."""
        return (self[0], self[1]), self.illusion


class AnswerText(str):
    """A generated text with an `illusion` dict."""

    illusion: dict[str, Any]

    def __new__(cls, text: str, **illusion: Any) -> AnswerText:
        """Make the text; keyword arguments become the `illusion` attribute."""
        answer = super().__new__(cls, text)
        answer.illusion = illusion
        return answer

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        """Let the text be pickled and copied with its attribute."""
        return (str(self),), self.illusion


def is_paired(doc: Any) -> bool:
    """Say whether a request's document is one of this project's paired items."""
    return isinstance(doc, dict) and "item_id" in doc and "choices_near" in doc
