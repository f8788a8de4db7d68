"""Greedy answers with one prefill a prompt, where a finished answer makes room for the next.

Stock `generate` carries finished rows along until the last of their batch ends, and pads each batch to its longest
prompt. Here prompts of like length are run together, finished rows leave, and as soon as there is room the next prompts
join the rows that are still open. The room, in positions of cache, is what stock's largest batch takes, and one answer
more a row. A model that padding would lead astray answers prompts of one length together, and those alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lm_eval_illusion.harness.batching import LEAST_FILL, batch_rows, like_length
from lm_eval_illusion.harness.generation_batch import Batch
from lm_eval_illusion.harness.generation_head import turned_head
from lm_eval_illusion.harness.generation_padding import may_be_padded
from lm_eval_illusion.harness.generation_row import Row
from lm_eval_illusion.harness.generation_start import begin
from lm_eval_illusion.harness.generation_stop import Rule
from lm_eval_illusion.harness.rope import switch_length

CPU_LEAST_FILL = 0.95
"""A CPU gains nothing from prompts side by side: only prompts of almost one length are padded to it."""


@dataclass(frozen=True)
class Request:
    """One prompt to answer."""

    tokens: tuple[int, ...]
    """The prompt, at least one token."""
    limit: int
    """Most new tokens, at least one."""
    rule: Rule
    """When the answer has ended; one object a request."""
    unseen: int = 0
    """Decoder tokens, the start token included, that the rule never sees (stock with encoder-decoders)."""
    ends: frozenset[int] = frozenset()
    """Tokens that end it, besides those of the model's generation config."""


@dataclass(frozen=True)
class Answer:
    """New tokens of one prompt."""

    tokens: tuple[int, ...]
    """The end token included, where one ended it."""
    before: tuple[int, ...]
    """Decoder tokens that stood before them (encoder-decoders)."""
    finish: str
    """"stop" where the rule or an end token ended it, "length" where its limit cut it."""
    tied_steps: int
    """Steps whose two highest logits were equal in the dtype the model computed them in."""
    non_finite: bool
    """Whether the highest logit of a step was NaN or infinite: such an answer is none."""


@torch.no_grad()
def generate(
    model: Any,
    requests: Sequence[Request],
    *,
    pad: int,
    batch_size: int | str,
    max_batch_size: int,
    device: torch.device,
    done: Callable[[int, Answer], None],
) -> None:
    """Answer requests greedily.

    With a batch size of 1 every forward is stock's. Otherwise rows are grouped anew, which in float32 leaves the
    texts as they are.

    Args:
        model: A transformers model, causal or encoder-decoder, in eval mode.
        requests: What to answer.
        pad: Token id for padding.
        batch_size: Most prompts of one forward, or "auto".
        max_batch_size: Most prompts of an `auto` batch.
        device: Where the model reads its prompts.
        done: Called with the number of a request and its answer, as soon as it is there.

    Raises:
        CannotRunError: Where this loop cannot run the model; requests that are not done are then as they were.
    """
    if not requests:
        return
    order = sorted(range(len(requests)), key=lambda n: (-len(requests[n].tokens), requests[n].tokens))
    needs = {n: len(requests[n].tokens) + requests[n].limit for n in order}
    size = batch_rows(needs[order[0]], batch_size, max_batch_size)
    # A row that joins late is padded to the oldest one: up to one answer wider than its own need.
    room = size * (max(needs.values()) + max(request.limit for request in requests))
    encoder = getattr(model.config, "is_encoder_decoder", False)
    tight = size > 1 and not encoder and device.type == "cpu"
    switch = switch_length(model.config)
    together = [n for n in order if switch is None or needs[n] <= switch]
    lengths = [len(requests[n].tokens) for n in together]
    fill, least = (CPU_LEAST_FILL, 1) if tight else (LEAST_FILL, (size + 1) // 2)
    alone = deque([n] for n in order if switch is not None and needs[n] > switch)
    padded = size == 1 or may_be_padded(model, requests[order[0]].tokens, pad=pad, device=device)
    groups = like_length(together, lengths, batch_size, max_batch_size, least_fill=fill if padded else 1.0)
    waiting: deque[list[int]] = deque()
    (waiting if padded else alone).extend(groups)  # batches that stand alone are never joined, and so never padded

    def start(numbers: list[int]) -> Batch:
        chosen = [requests[n] for n in numbers]
        return _start(model, numbers, chosen, pad, device, "right" if encoder else "left", deliver)

    def deliver(rows: Sequence[Row]) -> None:
        for row in rows:
            assert row.finish is not None
            done(row.key, Answer(tuple(row.tokens), row.before, row.finish, row.tied, row.non_finite))

    with turned_head(model):
        while alone:
            _finish(start(alone.popleft()), deliver)
        open_ones: list[Batch] = []
        while waiting or open_ones:
            while waiting and (not open_ones or (size > 1 and open_ones[0].joinable)):
                group = waiting.popleft()
                count = _places(open_ones, max(needs[n] for n in group), room, len(group)) if open_ones else len(group)
                if count < min(len(group), least):
                    waiting.appendleft(group)
                    break
                if count < len(group):
                    waiting.appendleft(group[count:])
                fresh = start(group[:count])
                open_ones += [fresh] if fresh.rows else []
            if open_ones:
                pool = open_ones[0]
                pool.join(open_ones[1:], pad)
                deliver(pool.step())
                open_ones = [pool] if pool.rows else []


def _places(batches: Sequence[Batch], need: int, room: int, wanted: int) -> int:
    """Return how many more rows have room, padded to the widest."""
    rows = sum(len(batch.rows) for batch in batches)
    widest = max(need, *(batch.area // len(batch.rows) for batch in batches))
    return max(0, min(wanted, room // widest - rows))


def _start(
    model: Any,
    numbers: Sequence[int],
    requests: Sequence[Request],
    pad: int,
    device: torch.device,
    side: str,
    deliver: Callable[[Sequence[Row]], None],
) -> Batch:
    width = max(len(request.tokens) for request in requests)
    ids = torch.full((len(requests), width), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    rows = []
    for line, (number, request) in enumerate(zip(numbers, requests, strict=True)):
        padding = width - len(request.tokens)
        where = slice(padding, width) if side == "left" else slice(0, len(request.tokens))
        ids[line, where] = torch.tensor(request.tokens)
        mask[line, where] = 1
        rows.append(Row(number, request.rule, request.limit, padding, request.ends, request.unseen))
    limit = max(request.limit for request in requests)
    batch = begin(model, ids.to(device), mask.to(device), limit=limit, pad=pad)
    deliver(batch.first(rows))
    return batch


def _finish(batch: Batch, deliver: Callable[[Sequence[Row]], None]) -> None:
    while batch.rows:
        deliver(batch.step())
