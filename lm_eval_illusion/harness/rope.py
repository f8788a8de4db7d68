"""Rotary positions that depend on the length of the text."""

from __future__ import annotations

from typing import Any


def switch_length(config: Any) -> int | None:
    """Return the length from which rotary positions depend on the longest row of a batch, or None.

    Such rows (dynamic scaling, long RoPE) run alone: a longer neighbour would change their numbers, and what a cache
    holds of a shorter text would not be what the whole text has there.
    """
    config = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    parameters = getattr(config, "rope_parameters", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    if not any(kind.get("rope_type") in ("dynamic", "longrope") for kind in kinds):
        return None
    limits = [kind.get("original_max_position_embeddings") for kind in kinds]
    limits += [getattr(config, name, None) for name in ("original_max_position_embeddings", "max_position_embeddings")]
    return min((int(limit) for limit in limits if limit), default=None)
