"""Whether the output head is the input embedding, told from what is stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lm_eval_illusion.harness.checkpoint.files import Stored
from lm_eval_illusion.harness.checkpoint.formats import FLOATS

_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte|embed_in|word_embeddings|shared|token_embd|tok_embeddings)\.weight$")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output)\.weight$")


@dataclass(frozen=True)
class Tied:
    """Input embedding and output head."""

    state: str
    """"tied" (the head is not stored), "stored twice" (both, with the same values), "untied", or "unknown"."""
    embedding: str | None
    head: str | None
    """Names of the tensors stored; None for one that is not there, or has no name known here."""
    said: bool | None
    """`tie_word_embeddings` in the configuration; None where it says nothing."""


def tied_of(files: Any, config: Mapping[str, Any]) -> Tied:
    """Compare what is stored with what the configuration says.

    Args:
        files: The checkpoint's files.
        config: Its config.json.
    """
    tensors: Mapping[str, Stored] = files.tensors
    embedding = next((name for name in sorted(tensors) if _EMBEDDING.search(name)), None)
    head = next((name for name in sorted(tensors) if _HEAD.search(name) and len(tensors[name].shape) > 1), None)
    text = config.get("text_config")
    told = config.get("tie_word_embeddings", text.get("tie_word_embeddings") if isinstance(text, Mapping) else None)
    said = told if isinstance(told, bool) else None
    if embedding is None:
        return Tied("unknown", None, head, said)
    if head is None:
        return Tied("unknown" if said is False else "tied", embedding, None, said)
    one, two = tensors[embedding], tensors[head]
    if (one.shape, one.dtype) != (two.shape, two.dtype):
        return Tied("untied", embedding, head, said)
    if one.dtype not in FLOATS:
        return Tied("unknown", embedding, head, said)
    return Tied("stored twice" if _equal(files, embedding, head) else "untied", embedding, head, said)


def _equal(files: Any, one: str, two: str) -> bool:
    pairs = zip(files.chunks(one), files.chunks(two), strict=True)
    return all(bool((a == b).all()) for a, b in pairs)
