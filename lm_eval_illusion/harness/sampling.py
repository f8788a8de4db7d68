"""Samples from one prompt, each token drawn with a number that its item, sample, place and a seed decide.

torch's random stream knows none of these: with it a sample depends on the batch, the order and the process.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch

from lm_eval_illusion.harness.branching import Hypothesis, Limits, in_float32, log_norms
from lm_eval_illusion.harness.generation_stop import Rule
from lm_eval_illusion.harness.together import Moves, Search
from lm_eval_illusion.pairs.draw import draw

_FIRST_LOOK = 256
"""Likeliest tokens that are looked at first; more only where they do not fill the nucleus."""


@dataclass(frozen=True)
class Draws:
    """What decides an item's samples."""

    item_id: str
    samples: int
    temperature: float
    """Divides the logits; above 0."""
    top_p: float
    """Share of the probability that the likeliest tokens, those drawn from, must reach; above 0, at most 1."""
    seed: int

    def uniform(self, sample: int, token: int) -> float:
        """Return a number in [0, 1) for token number `token` of a sample, both counted from 0."""
        return (draw(self.item_id, sample, token, self.seed) >> 11) / (1 << 53)


class _Open:
    """A sample that goes on."""

    def __init__(self, number: int, rule: Rule) -> None:
        self.number = number
        self.rule = rule
        self.tokens: tuple[int, ...] = ()
        self.logprob = 0.0
        self.row = 0


def sample(logits: torch.Tensor, draws: Draws, *, limits: Limits, rule: Rule) -> Search[list[Hypothesis] | None]:
    """Draw an item's samples, in the order of their numbers.

    Samples that have said the same so far share a row. Their log-probabilities are the model's own, before temperature
    and top-p.

    Args:
        logits: (1, vocabulary), those of the first new token.
        draws: What decides the samples.
        limits: When a sample is over.
        rule: A fresh rule; each sample gets its own.

    Returns:
        None where a step's highest logit is not finite.
    """
    open_ones = [_Open(number, copy.copy(rule)) for number in range(draws.samples)]
    finished: dict[int, Hypothesis] = {}
    while True:
        scores = in_float32(logits)
        norms = log_norms(scores)
        if norms is None:
            return None
        nuclei = [nucleus(row, draws.temperature, draws.top_p) for row in scores]
        for one in open_ones:
            token = nuclei[one.row].token(draws.uniform(one.number, len(one.tokens)))
            one.logprob += float(scores[one.row, token]) - norms[one.row]
            one.tokens = (*one.tokens, token)
            finish = limits.finish(one.tokens, one.rule)
            if finish is not None:
                finished[one.number] = Hypothesis(one.tokens, one.logprob, finish)
        open_ones = [one for one in open_ones if one.number not in finished]
        if not open_ones:
            return [finished[number] for number in range(draws.samples)]
        parents: dict[tuple[int, ...], int] = {}
        for one in open_ones:
            parents.setdefault(one.tokens, one.row)
        places = {tokens: place for place, tokens in enumerate(parents)}
        for one in open_ones:
            one.row = places[one.tokens]
        logits = yield Moves(list(parents.values()), [tokens[-1] for tokens in parents])


@dataclass(frozen=True)
class Nucleus:
    """The likeliest tokens that together reach top-p, likeliest first, equals by token id."""

    ids: torch.Tensor
    """Token ids (n,), int64."""
    sums: torch.Tensor
    """Their probabilities summed up to each (n,), float64; the last is the nucleus's own probability."""

    def token(self, uniform: float) -> int:
        """Return the token whose stretch of the summed probabilities holds `uniform` (in [0, 1)) of them all."""
        place = int(torch.searchsorted(self.sums, uniform * self.sums[-1], right=True))
        return int(self.ids[min(place, len(self.ids) - 1)])


def nucleus(logits: torch.Tensor, temperature: float, top_p: float) -> Nucleus:
    """Return the tokens to draw from: the fewest likeliest ones whose probability reaches `top_p`.

    Args:
        logits: (vocabulary,) float32, the highest of them finite.
        temperature: Divides the logits; probabilities are computed in float64.
        top_p: Above 0, at most 1.
    """
    scaled = logits.double() / temperature
    norm = scaled.logsumexp(-1)
    size = min(_FIRST_LOOK, len(logits))
    values, ids = logits.topk(size)
    while True:
        if size < len(logits):
            sure = values > values[-1]  # which of those that tie with the last topk returns is not said
            values, ids = values[sure], ids[sure]
        ids, by_id = ids.sort()
        values, order = values[by_id].sort(descending=True, stable=True)
        ids = ids[order]
        sums = (values.double() / temperature - norm).exp().cumsum(-1)
        reached = int(torch.searchsorted(sums, top_p)) + 1
        if reached <= len(sums) or size == len(logits):
            possible = int((values > -float("inf")).sum())
            reached = min(reached, possible)
            return Nucleus(ids[:reached], sums[:reached])
        size = min(16 * size, len(logits))
        values, ids = logits.topk(size)
