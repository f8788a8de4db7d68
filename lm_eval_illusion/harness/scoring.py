"""Log-likelihoods with one prefill per prompt and logits only where they are scored.

The harness encodes the whole prompt again for every option and takes logits over the vocabulary at every position.
Here the prompt runs once; its cache is copied to the options' rows, and only the options' tokens follow. The logits
that are scored are float32 in every dtype. In float32 the numbers are those of stock HFLM up to rounding.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lm_eval_illusion.harness.decoder_start import label_start
from lm_eval_illusion.harness.generation_cache import branched, cache_argument, positions_taken
from lm_eval_illusion.harness.head import ScoredHead
from lm_eval_illusion.harness.readout import token_logprobs
from lm_eval_illusion.harness.scoring_row import Row, Scored

MAX_LOGITS = 1 << 26
"""Most logits (scored positions x vocabulary) held at once: 256 MiB in float32."""
MAX_CACHE_BYTES = 1 << 29
"""Most bytes of prompts' caches copied to options' rows at once (512 MiB)."""
SPARE_TOKENS = 32
"""Padding tokens that cost less than one more forward over the weights."""


@dataclass(frozen=True)
class Prompt:
    """A prompt and the continuations to score after it, as token ids."""

    context: tuple[int, ...]
    continuations: tuple[tuple[int, ...], ...]
    golds: tuple[tuple[int, ...] | None, ...] = ()
    """For each continuation the gold one of its question, to be compared with it; empty for no comparison at all."""
    token_by_token: bool = False
    """Whether every token of the continuations is to be read for itself."""

    def gold_of(self, number: int) -> tuple[int, ...] | None:
        """Return the gold of a continuation, None where there is nothing to compare."""
        gold = self.golds[number] if self.golds else None
        return None if gold == self.continuations[number] else gold


def supports_shared_prefix(model: Any) -> bool:
    """Say whether `score` can run on this model: encoder-decoder, or causal with `logits_to_keep` and a cache."""
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        return hasattr(model, "get_encoder")
    return "logits_to_keep" in inspect.signature(model.forward).parameters


@torch.no_grad()
def score(
    model: Any, prompts: Sequence[Prompt], *, pad: int, device: Any = None, start: int | None = None
) -> list[list[Scored]]:
    """Score every continuation of every prompt of one batch.

    Args:
        model: A transformers causal or encoder-decoder model in eval mode.
        prompts: The batch; contexts and continuations are non-empty.
        pad: Token id for padding (its value does not reach a scored position).
        device: Where token ids go; the model's own by default (an offloaded model's says "meta").
        start: Token that an encoder-decoder's continuations stand behind; by default the one that labels stand behind.

    Returns:
        For each prompt one `Scored` a continuation, in the order given.
    """
    rows = [
        Row(b, k, cont, p.gold_of(k), p.token_by_token)
        for b, p in enumerate(prompts)
        for k, cont in enumerate(p.continuations)
    ]
    if getattr(model.config, "is_encoder_decoder", False):
        begin = label_start(model) if start is None else start
        _score_seq2seq(model, prompts, rows, pad, device or model.device, begin)
    else:
        _score_causal(model, prompts, rows, pad, device or model.device)
    done = {(row.prompt, row.number): row.scored() for row in rows}
    return [[done[b, k] for k in range(len(p.continuations))] for b, p in enumerate(prompts)]


def _read(rows: Sequence[Row], first: int, logits: torch.Tensor) -> None:
    """Read every row's tokens from number `first` on; logits (their sum, vocabulary), row after row."""
    tokens = [token for row in rows for token in row.tokens[first:]]
    logprobs, greedy = token_logprobs(logits, torch.tensor(tokens, device=logits.device))
    place = 0
    for row in rows:
        for token in range(first, len(row.tokens)):
            row.read(token, logits[place], logprobs[place], greedy[place])
            place += 1


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


def _score_causal(model: Any, prompts: Sequence[Prompt], rows: Sequence[Row], pad: int, device: Any) -> None:
    head = ScoredHead(model)
    ids, mask = _padded([p.context for p in prompts], pad, "left", device)
    takes_positions = positions_taken(model)
    cache_name = cache_argument(model)
    positions = {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if takes_positions else {}
    with head.at():
        out = model(input_ids=ids, attention_mask=mask, use_cache=True, logits_to_keep=1, **positions)
    first = out.logits[:, -1].float()
    vocabulary = first.shape[-1]
    norms, best = first.logsumexp(-1).tolist(), first.argmax(-1).tolist()
    for row in rows:
        token = row.tokens[0]
        logits = first[row.prompt]
        row.read(0, logits, float(logits[token]) - norms[row.prompt], best[row.prompt] == token)
    del out.logits
    lengths = mask.sum(-1)
    long = [row for row in rows if len(row.tokens) > 1]
    held = getattr(out, cache_name)
    chunks = list(chunked(long, 1, vocabulary, _bytes_of(held) // len(prompts)))
    for number, chunk in enumerate(chunks):
        owner = torch.tensor([row.prompt for row in chunk], device=device)
        if number < len(chunks) - 1:
            cache = branched(held, owner)
        else:
            cache = held
            cache.reorder_cache(owner)
        tokens, token_mask = _padded([row.tokens[:-1] for row in chunk], pad, "right", device)
        steps = torch.arange(tokens.shape[1], device=device)
        positions = {"position_ids": lengths[owner, None] + steps[None]} if takes_positions else {}
        wanted = token_mask.flatten().nonzero()[:, 0]
        with head.at(wanted):
            logits = model(
                input_ids=tokens,
                attention_mask=torch.cat([mask[owner], token_mask], dim=1),
                use_cache=True,
                **{cache_name: cache},
                **positions,
            ).logits
        _read(chunk, 1, head.select(logits, wanted))


def _score_seq2seq(
    model: Any, prompts: Sequence[Prompt], rows: Sequence[Row], pad: int, device: Any, start: int
) -> None:
    from transformers.modeling_outputs import BaseModelOutput

    head = ScoredHead(model)
    ids, mask = _padded([p.context for p in prompts], pad, "right", device)
    encoded = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
    for chunk in chunked(rows, 0, int(model.config.vocab_size), encoded.nbytes // len(prompts)):
        owner = torch.tensor([row.prompt for row in chunk], device=device)
        decoder_ids, decoder_mask = _padded([(start, *row.tokens[:-1]) for row in chunk], pad, "right", device)
        wanted = decoder_mask.flatten().nonzero()[:, 0]
        with head.at(wanted):
            logits = model(
                encoder_outputs=BaseModelOutput(last_hidden_state=encoded[owner]),
                attention_mask=mask[owner],
                decoder_input_ids=decoder_ids,
                use_cache=False,
            ).logits
        _read(chunk, 0, head.select(logits, wanted))


def _bytes_of(cache: Any) -> int:
    layers = getattr(cache, "layers", ())
    held = (getattr(layer, name, None) for layer in layers for name in ("keys", "values"))
    return sum(tensor.nbytes for tensor in held if isinstance(tensor, torch.Tensor))


def chunked(rows: Sequence[Row], skipped: int, vocabulary: int, row_bytes: int) -> Iterator[list[Row]]:
    """Cut rows into runs of like length, longest first, whose logits and cache copies stay within their limits.

    Args:
        rows: What to cut.
        skipped: Tokens at the front of each that need no further forward.
        vocabulary: Logits a position.
        row_bytes: Bytes of the prompt's cache that a row gets a copy of.
    """
    ordered = sorted(rows, key=lambda row: (-len(row.tokens), row.prompt, row.number))
    chunk: list[Row] = []
    scored = padding = 0
    for row in ordered:
        size = len(row.tokens) - skipped
        waste = len(chunk[0].tokens) - len(row.tokens) if chunk else 0
        over = (scored + size) * vocabulary > MAX_LOGITS or (len(chunk) + 1) * row_bytes > MAX_CACHE_BYTES
        if chunk and (over or padding + waste > max(SPARE_TOKENS, scored // 4)):
            yield chunk
            chunk, scored, padding, waste = [], 0, 0, 0
        chunk.append(row)
        scored, padding = scored + size, padding + waste
    if chunk:
        yield chunk
