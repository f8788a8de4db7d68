"""Beam search over the continuations of one prompt, each ending with its first line.

Stock HFLM's beams end only where every beam of a batch has met a stop string in its window, and its hypotheses other
than the first are lost. Without lines and answers these are transformers' own beams (`num_beams=width`, length penalty
1.0, `early_stopping=False`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch

from lm_eval_illusion.harness.branching import Hypothesis, Limits, in_float32, log_norms
from lm_eval_illusion.harness.generation_stop import Rule
from lm_eval_illusion.harness.together import Moves, Search


@dataclass(frozen=True)
class _Open:
    """A hypothesis that goes on."""

    tokens: tuple[int, ...]
    logprob: float
    rule: Rule
    parent: int
    """The row it goes on from."""


@dataclass(frozen=True)
class _Next:
    """A hypothesis with one more token."""

    parent: int
    tokens: tuple[int, ...]
    logprob: float


def beam_search(
    logits: torch.Tensor,
    *,
    width: int,
    limits: Limits,
    rule: Rule,
    answer_of: Callable[[Hypothesis], Hashable] = lambda one: one.tokens,
) -> Search[list[Hypothesis] | None]:
    """Search for the `width` best finished hypotheses, best first.

    At each step the continuations of all open hypotheses are ranked by log-probability. Those among the first `width`
    that an end token, the rule or the limit ends are finished; of the others the first `width` stay open. A finished
    hypothesis scores log-probability per token, its end token counted. The search is over once `width` are finished
    and the best open hypothesis, at its present log-probability per token, does not score above the worst of the best
    `width` finished ones; or at the limit, where all end. Its present score counts as the best that an open hypothesis
    can attain: tokens to come are taken to be no likelier than those it has, as in transformers. Equal
    log-probabilities and equal scores are ordered by token ids.

    Of finished hypotheses with one answer the best is kept alone: a line ends in many ways (one newline, two, a newline
    with a full stop, the end token), and counted apart those of the first answer would leave no room for a second.

    Args:
        logits: (1, vocabulary), those of the first new token.
        width: Hypotheses kept open, and returned: fewer only where fewer answers were finished at the limit.
        limits: When a hypothesis is over.
        rule: A fresh rule; each hypothesis gets its own.
        answer_of: What tells one answer from another.

    Returns:
        None where a step's highest logit is not finite.
    """
    open_ones = [_Open((), 0.0, rule, 0)]
    finished: list[Hypothesis] = []
    while True:
        scores = in_float32(logits)
        norms = log_norms(scores)
        if norms is None:
            return None
        ended, going = _step(open_ones, scores, norms, width, limits)
        answers: dict[Hashable, Hypothesis] = {}
        for one in sorted([*finished, *ended], key=lambda one: (-one.score, one.tokens)):
            answers.setdefault(answer_of(one), one)
        finished = list(answers.values())[:width]
        if not going or (len(finished) == width and _score(going[0]) <= finished[-1].score):
            return finished
        logits = yield Moves([one.parent for one in going], [one.tokens[-1] for one in going])
        open_ones = going


def _score(one: _Open) -> float:
    return one.logprob / len(one.tokens)


def _step(
    open_ones: Sequence[_Open], logits: torch.Tensor, norms: Sequence[float], width: int, limits: Limits
) -> tuple[list[Hypothesis], list[_Open]]:
    """Return what ends now, and up to `width` hypotheses that go on, best first."""
    count = 2 * width
    while True:
        ended: list[Hypothesis] = []
        going: list[_Open] = []
        ranked = _ranked(open_ones, logits, norms, count)
        for place, found in enumerate(ranked):
            if len(going) == width:
                break
            rule = copy.copy(open_ones[found.parent].rule)
            finish = limits.finish(found.tokens, rule)
            if finish is None:
                going.append(_Open(found.tokens, found.logprob, rule, found.parent))
            elif place < width:
                ended.append(Hypothesis(found.tokens, found.logprob, finish))
        over = len(open_ones[0].tokens) + 1 >= limits.most
        if over or len(going) == width or len(ranked) < count:
            return ended, going
        count *= 2  # more of them end than was allowed for


def _ranked(open_ones: Sequence[_Open], logits: torch.Tensor, norms: Sequence[float], count: int) -> list[_Next]:
    """Return the `count` likeliest continuations, likeliest first; those of probability 0 are none."""
    found = []
    for parent, (one, norm, tokens) in enumerate(zip(open_ones, norms, highest(logits, count), strict=True)):
        found += [_Next(parent, (*one.tokens, token), one.logprob + logit - norm) for token, logit in tokens]
    found = [one for one in found if one.logprob > -float("inf")]
    return sorted(found, key=lambda one: (-one.logprob, one.tokens))[:count]


def highest(logits: torch.Tensor, count: int) -> list[list[tuple[int, float]]]:
    """Return each row's `count` highest logits as (token, logit), in no order; of equal ones the lowest token ids.

    Args:
        logits: (rows, vocabulary) float32.
        count: How many; all where there are fewer.
    """
    vocabulary = logits.shape[-1]
    values, ids = logits.topk(min(count + 1, vocabulary), dim=-1)
    rows = []
    for number, (row, tokens) in enumerate(zip(values.tolist(), ids.tolist(), strict=True)):
        pairs = list(zip(tokens, row, strict=True))
        if len(row) > count and row[count - 1] == row[count]:  # which of those that tie topk returns is not said
            cut = row[count]
            pairs = [pair for pair in pairs if pair[1] > cut]
            tied = (logits[number] == cut).nonzero()[: count - len(pairs), 0]
            pairs += [(token, cut) for token in tied.tolist()]
        rows.append(pairs[:count])
    return rows
