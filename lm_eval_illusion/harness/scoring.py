"""Log-likelihoods with one prefill per prompt and logits only where they are scored.

The harness encodes the whole prompt again for every option and takes logits over the vocabulary at every position.
Here the prompt runs once; its cache is copied to the options' rows, and only the options' tokens follow. Same numbers
as stock HFLM up to rounding (2.6e-5 nats seen in float32).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

MAX_LOGITS = 1 << 28
"""Most logits (rows x positions x vocabulary) held at once: 1 GiB in float32."""


@dataclass(frozen=True)
class Scored:
    """One scored continuation."""

    logprob: float
    """Sum over its tokens of log p(token | prompt, earlier tokens), in nats; NaN where the model's logits are."""
    is_greedy: bool
    """Whether each of its tokens has the highest logit."""
    first_token_rank: int | None
    """1 + number of tokens with a higher logit at its first token; None where logits are not finite."""


@dataclass(frozen=True)
class Prompt:
    """A prompt and the continuations to score after it, as token ids."""

    context: tuple[int, ...]
    continuations: tuple[tuple[int, ...], ...]


def supports_shared_prefix(model: Any) -> bool:
    """Say whether `score` can run on this model: encoder-decoder, or causal with `logits_to_keep` and a cache."""
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        return hasattr(model, "get_encoder")
    return "logits_to_keep" in inspect.signature(model.forward).parameters


@torch.no_grad()
def score(model: Any, prompts: Sequence[Prompt], *, pad: int) -> list[list[Scored]]:
    """Score every continuation of every prompt of one batch.

    Args:
        model: A transformers causal or encoder-decoder model in eval mode.
        prompts: The batch; contexts and continuations are non-empty.
        pad: Token id for padding (its value does not reach a scored position).

    Returns:
        For each prompt one `Scored` a continuation, in the order given.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        return _score_seq2seq(model, prompts, pad)
    return _score_causal(model, prompts, pad)


def _padded(rows: Sequence[Sequence[int]], pad: int, side: str, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask, both int64 (rows, longest row)."""
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for index, row in enumerate(rows):
        where = slice(width - len(row), width) if side == "left" else slice(0, len(row))
        ids[index, where] = torch.tensor(row, dtype=torch.long)
        mask[index, where] = 1
    return ids.to(device), mask.to(device)


def _score_causal(model: Any, prompts: Sequence[Prompt], pad: int) -> list[list[Scored]]:
    device = model.device
    ids, mask = _padded([p.context for p in prompts], pad, "left", device)
    takes = inspect.signature(model.forward).parameters
    takes_positions = "position_ids" in takes
    cache_name = "cache" if "cache" in takes else "past_key_values"  # renamed in transformers 5.2x
    positions = {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if takes_positions else {}
    out = model(input_ids=ids, attention_mask=mask, use_cache=True, logits_to_keep=1, **positions)
    first = out.logits[:, -1].float()
    first_norm, first_best = first.logsumexp(-1), first.argmax(-1)
    lengths = mask.sum(-1)

    rows = [(b, k, cont) for b, p in enumerate(prompts) for k, cont in enumerate(p.continuations)]
    tails: dict[tuple[int, int], tuple[float, bool]] = {}
    chunks = list(_row_chunks([row for row in rows if len(row[2]) > 1], first.shape[-1]))
    for number, chunk in enumerate(chunks):
        cache = out.past_key_values if number == len(chunks) - 1 else copy.deepcopy(out.past_key_values)
        owner = torch.tensor([b for b, _, _ in chunk], device=device)
        cache.reorder_cache(owner)
        tokens, token_mask = _padded([cont[:-1] for _, _, cont in chunk], pad, "right", device)
        steps = torch.arange(tokens.shape[1], device=device)
        positions = {"position_ids": lengths[owner, None] + steps[None]} if takes_positions else {}
        logits = model(
            input_ids=tokens,
            attention_mask=torch.cat([mask[owner], token_mask], dim=1),
            use_cache=True,
            **{cache_name: cache},
            **positions,
        ).logits
        for (b, k, cont), row in zip(chunk, logits, strict=True):
            tails[b, k] = _sum_of(row[: len(cont) - 1].float(), torch.tensor(cont[1:], device=device))
    return _assemble(prompts, first, first_norm, first_best, tails)


def _score_seq2seq(model: Any, prompts: Sequence[Prompt], pad: int) -> list[list[Scored]]:
    from transformers.modeling_outputs import BaseModelOutput

    device = model.device
    start = model.config.decoder_start_token_id
    if start is None:
        start = getattr(model.generation_config, "decoder_start_token_id", None)
    if start is None:
        start = model.config.pad_token_id
    ids, mask = _padded([p.context for p in prompts], pad, "right", device)
    encoded = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
    vocabulary = int(model.config.vocab_size)
    rows = [(b, k, cont) for b, p in enumerate(prompts) for k, cont in enumerate(p.continuations)]
    results: dict[tuple[int, int], Scored] = {}
    for chunk in _row_chunks(rows, vocabulary):
        owner = torch.tensor([b for b, _, _ in chunk], device=device)
        decoder_ids, _ = _padded([(start, *cont[:-1]) for _, _, cont in chunk], pad, "right", device)
        logits = model(
            encoder_outputs=BaseModelOutput(last_hidden_state=encoded[owner]),
            attention_mask=mask[owner],
            decoder_input_ids=decoder_ids,
            use_cache=False,
        ).logits
        for (b, k, cont), row in zip(chunk, logits, strict=True):
            scored = row[: len(cont)].float()
            logprob, greedy = _sum_of(scored, torch.tensor(cont, device=device))
            results[b, k] = Scored(logprob, greedy, _rank(scored[0], cont[0]))
    return [[results[b, k] for k in range(len(p.continuations))] for b, p in enumerate(prompts)]


def _row_chunks(rows: list[tuple[int, int, tuple[int, ...]]], vocabulary: int) -> Iterator[list[Any]]:
    """Cut rows into runs whose padded logits stay under MAX_LOGITS, longest continuations together."""
    rows = sorted(rows, key=lambda row: (-len(row[2]), row[0], row[1]))
    start = 0
    while start < len(rows):
        count = max(1, MAX_LOGITS // (len(rows[start][2]) * vocabulary))
        yield rows[start : start + count]
        start += count


def _sum_of(logits: torch.Tensor, targets: torch.Tensor) -> tuple[float, bool]:
    """Return the summed log-probability of targets (length,) under logits (length, vocabulary), and greediness."""
    chosen = logits.gather(-1, targets[:, None])[:, 0] - logits.logsumexp(-1)
    return float(chosen.sum()), bool((logits.argmax(-1) == targets).all())


def _rank(logits: torch.Tensor, token: int) -> int | None:
    if not bool(torch.isfinite(logits[token])) or bool(torch.isnan(logits).any()):
        return None
    return int((logits > logits[token]).sum()) + 1


def _assemble(
    prompts: Sequence[Prompt],
    first: torch.Tensor,
    first_norm: torch.Tensor,
    first_best: torch.Tensor,
    tails: dict[tuple[int, int], tuple[float, bool]],
) -> list[list[Scored]]:
    results = []
    for b, prompt in enumerate(prompts):
        row = []
        for k, cont in enumerate(prompt.continuations):
            head = float(first[b, cont[0]] - first_norm[b])
            tail, tail_greedy = tails.get((b, k), (0.0, True))
            greedy = tail_greedy and int(first_best[b]) == cont[0]
            row.append(Scored(head + tail, greedy, _rank(first[b], cont[0])))
        results.append(row)
    return results
