"""Keeps `--use_cache` honest: the harness keys cached answers on the request alone, not on the model.

A pruned run that shares the file with a dense one would be given the dense answers. The file is therefore marked with
the model it was filled by, and refused for any other.
"""

from __future__ import annotations

from typing import Any

from lm_eval_illusion.errors import IllusionError

KEY = "lm_eval_illusion:model"


def check(cache_hook: Any, fingerprint: str) -> None:
    """Mark a cache with the model's fingerprint, or raise where it holds another's answers.

    Args:
        cache_hook: The harness's `CacheHook`; its `dbdict` is None where no cache is used.
        fingerprint: What tells this model from others.

    Raises:
        IllusionError: If the cache was filled by another model, or by one that left no mark.
    """
    store = getattr(cache_hook, "dbdict", None)
    if store is None:
        return
    found = store.get(KEY)
    if found is None and len(store) == 0:
        store[KEY] = fingerprint
        store.commit()
    elif found != fingerprint:
        where = getattr(store, "filename", "the cache file")
        filled = found or "a model that left no mark"
        raise IllusionError(
            f"--use_cache {where}: filled by {filled}; this model is {fingerprint}. "
            "The harness's cache knows requests, not models: give every model its own --use_cache path"
        )
