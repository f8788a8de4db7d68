"""The token that an encoder-decoder's decoder begins with.

Scores follow stock HFLM, which hands the continuation over as labels and leaves it to the model what stands before
them; answers, and what is compared with them, begin as transformers' `generate` does. Most models begin both alike.
mBART puts the last label first: no one token stands before all continuations, and `prefix_check` finds that out.
"""

from __future__ import annotations

from typing import Any


def label_start(model: Any) -> int:
    """Return the token that stands before labels in most models: the decoder's start, else padding."""
    start = getattr(model.config, "decoder_start_token_id", None)
    if start is None:
        start = getattr(model.generation_config, "decoder_start_token_id", None)
    return int(model.config.pad_token_id if start is None else start)


def answer_start(model: Any) -> int:
    """Return the token that `generate` begins answers with: the decoder's start, else the beginning of text."""
    config = model.generation_config
    start = getattr(config, "decoder_start_token_id", None)
    if start is None:
        start = getattr(config, "bos_token_id", None)
    return label_start(model) if start is None else int(start)
