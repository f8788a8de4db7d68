"""Rows of key-value caches: some leave, others join, and columns that are padding in all of them go.

Only the two layers that ordinary transformers grow are handled (full and sliding attention): rows of any other state
(linear attention, state spaces, static or quantised buffers) cannot be taken apart here, and say so.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer


class CannotRunError(RuntimeError):
    """The decode loop cannot run this model; the message says why, for one line of the log."""


def cache_argument(model: Any) -> str:
    """Return what a causal model's forward calls its cache, taken and given: renamed in transformers 5.2x."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def positions_taken(model: Any) -> bool:
    """Say whether a model's forward takes the positions of its tokens, so that padding need not move them."""
    return "position_ids" in inspect.signature(model.forward).parameters


def last_logits_only(model: Any) -> dict[str, int]:
    """Return the argument that asks a model's forward for the logits of the last position alone, where it takes one."""
    return {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}


def require_rows(cache: Any) -> None:
    """Check that rows can leave this cache.

    Raises:
        CannotRunError: Where they cannot.
    """
    parts = _parts(cache)
    if parts is None:
        raise CannotRunError(f"its cache is a {type(cache).__name__}")
    for part in parts:
        foreign = next(
            (layer for layer in part.layers if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer)), 0
        )
        if foreign:
            raise CannotRunError(f"its cache has a {type(foreign).__name__}")
        if getattr(part, "offloading", False):
            raise CannotRunError("its cache is offloaded")


def _parts(cache: Any) -> list[Any] | None:
    if type(cache) is EncoderDecoderCache:
        inner = [cache.self_attention_cache, cache.cross_attention_cache]
        return inner if all(type(part) is DynamicCache for part in inner) else None
    return [cache] if type(cache) is DynamicCache else None


def keep_rows(cache: Any, rows: torch.Tensor) -> None:
    """Leave only these rows in the cache, in this order.

    Args:
        cache: A cache that `require_rows` accepts.
        rows: Row numbers, int64 (rows,).
    """
    cache.reorder_cache(rows)


def branched(cache: Any, rows: torch.Tensor) -> Any:
    """Return a cache whose rows are copies of these; the one given stays as it is.

    Only what the new rows need is copied where layers keep keys and values alone; any other cache is copied whole.

    Args:
        cache: A decoder's cache.
        rows: Row numbers, int64 (new rows,).
    """
    plain = type(cache) is DynamicCache and all(
        type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers
    )
    if plain and not getattr(cache, "offloading", False):
        twin = copy.copy(cache)
        twin.layers = [copy.copy(layer) for layer in cache.layers]
    else:
        twin = copy.deepcopy(cache)
    twin.reorder_cache(rows)
    return twin


def drop_columns(cache: Any, count: int) -> None:
    """Forget the first `count` positions of a decoder's cache, which are padding in every row."""
    for layer in cache.layers:
        if not layer.is_initialized:
            continue
        length = layer.get_seq_length() - count
        kept = length
        if isinstance(layer, DynamicSlidingWindowLayer):
            layer.cumulative_length = length
            kept = min(length, layer.sliding_window - 1)
        start = layer.keys.shape[-2] - kept
        layer.keys, layer.values = layer.keys[..., start:, :], layer.values[..., start:, :]


def join(caches: Sequence[Any], lengths: Sequence[int]) -> Any:
    """Put the rows of several decoder caches under each other, padded on the left to the longest.

    Args:
        caches: Caches of one model; the first one is filled and returned, the others are emptied.
        lengths: Positions in each.
    """
    longest = max(lengths)
    first = caches[0]
    for number, layer in enumerate(first.layers):
        peers = [cache.layers[number] for cache in caches]
        if not layer.is_initialized:
            continue
        width = longest
        if isinstance(layer, DynamicSlidingWindowLayer):
            layer.cumulative_length = longest
            width = min(longest, layer.sliding_window - 1)
        layer.keys = _under_each_other([peer.keys for peer in peers], width)
        layer.values = _under_each_other([peer.values for peer in peers], width)
        for peer in peers[1:]:
            peer.keys = peer.values = None
    return first


def _under_each_other(states: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    """Join (rows, heads, positions, size) tensors along rows, zeros to the left where positions are missing."""
    return torch.cat([pad(state, (0, 0, width - state.shape[-2], 0)) for state in states])
