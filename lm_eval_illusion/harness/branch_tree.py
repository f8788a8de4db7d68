"""Continuations of one prompt as a tree in one row: the prompt's keys and values are there once for all of them.

Each step runs the newest token of every continuation as one sequence. A mask lets it see the prompt and its own
forebears alone, positions count along its own path. With a cache a row, as transformers' generate has it, each of 21
continuations would carry a copy of the prompt, read and moved at every step: half the time of a small model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from lm_eval_illusion.harness.generation_cache import CannotRunError, cache_argument, last_logits_only, positions_taken

_NAMES = {DynamicLayer: "full_attention", DynamicSlidingWindowLayer: "sliding_attention"}
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
"""Difference allowed between a tree and whole texts, in nats of a token's log-probability, by dtype."""
_HALF_TOLERANCE = 0.5
"""The same in half precision, where logits of 16 to 32 are 1/8 apart."""
_LOOKED_AT = 5
"""Likeliest tokens that are compared."""


class Tree:
    """The open continuations of a prompt.

    Args:
        model: A causal transformers model in eval mode.
        prompt: The prompt's tokens, at least one.
        device: Where the model reads its tokens.

    Raises:
        CannotRunError: Where the model's layers keep other things than keys and values, or take no mask.
    """

    def __init__(self, model: Any, prompt: Sequence[int], device: Any) -> None:
        self._windows = _windows(model)
        self._model = model
        self._device = device
        self._additive = _takes_additive(model)
        self._cache_name = cache_argument(model)
        self._cache = DynamicCache()
        self._position = len(prompt)
        """That of the next tokens."""
        self._prompt = torch.tensor([list(prompt)], device=device)
        self._seen = torch.ones(1, len(prompt), dtype=torch.bool, device=device)
        """(continuations, tokens in the cache): what each of them stands on."""
        self._positions = torch.arange(len(prompt), device=device)
        """(tokens in the cache,)"""

    def logits(self) -> torch.Tensor:
        """Run the prompt; return the logits (1, vocabulary) of the first new token."""
        out = self._run(self._prompt, self._positions, torch.ones_like(self._prompt), **last_logits_only(self._model))
        return out[-1:]

    def follow(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        """See `Branches`."""
        count = len(tokens)
        self._seen = self._seen[torch.tensor(parents, device=self._device)]
        self._forget()
        self._seen = torch.cat([self._seen, torch.eye(count, dtype=torch.bool, device=self._device)], dim=1)
        positions = torch.full((count,), self._position, device=self._device)
        self._positions = torch.cat([self._positions, positions])
        self._position += 1
        return self._run(torch.tensor([list(tokens)], device=self._device), positions, self._masks())

    def _run(self, ids: torch.Tensor, positions: torch.Tensor, mask: Any, **told: int) -> torch.Tensor:
        out = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions[None],
            use_cache=True,
            return_dict=True,
            **{self._cache_name: self._cache},
            **told,
        )
        logits: torch.Tensor = out.logits[0]
        return logits

    def _forget(self) -> None:
        """Drop tokens that no open continuation stands on, once they are more than those that are stood on."""
        needed = self._seen.any(dim=0)
        if 2 * int(needed.sum()) > len(needed):
            return
        columns = needed.nonzero()[:, 0]
        self._seen, self._positions = self._seen[:, columns], self._positions[columns]
        for layer in self._cache.layers:
            here = columns.to(layer.keys.device)
            layer.keys, layer.values = layer.keys[..., here, :], layer.values[..., here, :]

    def _masks(self) -> Any:
        """Return the mask of the newest tokens, or one for each kind of layer."""
        masks = {}
        for name, window in self._windows.items():
            seen = self._seen
            if window is not None:
                seen = seen & (self._positions > self._position - 1 - window)
            mask = seen[None, None]
            if self._additive:
                dtype = self._model.dtype
                mask = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(
                    ~mask, torch.finfo(dtype).min
                )
            masks[name] = mask
        return masks if len(masks) > 1 else next(iter(masks.values()))


def _windows(model: Any) -> dict[str, int | None]:
    """Return the kinds of layer and how far back each sees; transformers' own names.

    Raises:
        CannotRunError: Where some layer is of another kind.
    """
    config = model.config.get_text_config(decoder=True)
    if getattr(model.config, "is_encoder_decoder", False):
        raise CannotRunError("it is an encoder-decoder")
    if not positions_taken(model):
        raise CannotRunError("it takes no positions")
    layers = DynamicCache(config=config).layers
    foreign = next((layer for layer in layers if type(layer) not in _NAMES), None)
    named = set(getattr(config, "layer_types", None) or ())
    if not layers or foreign is not None:
        raise CannotRunError(f"its cache has a {type(foreign).__name__}" if layers else "its cache has no layers")
    if named - set(_NAMES.values()) or getattr(config, "attention_chunk_size", None):
        raise CannotRunError(f"it has {', '.join(sorted(named - set(_NAMES.values()))) or 'chunked attention'}")
    found = {(_NAMES[type(layer)], getattr(layer, "sliding_window", None)) for layer in layers}
    if len(dict(found)) < len(found):
        raise CannotRunError("its layers have windows of several lengths")
    return dict(found)


def _takes_additive(model: Any) -> bool:
    """Say whether masks are added to the scores; they are truth values under sdpa."""
    kind = model.config.get_text_config(decoder=True)._attn_implementation
    if kind not in ("eager", "sdpa"):
        raise CannotRunError(f"its attention is {kind}")
    return bool(kind == "eager")


def require_tree(model: Any, prompt: Sequence[int], plain: Any, device: Any) -> None:
    """Check that a tree says of two short continuations what the whole texts say.

    Args:
        model: A causal transformers model in eval mode.
        prompt: A prompt's tokens; a long one shows more, since some layers see a window only.
        plain: Branches of the same prompt that run whole texts.
        device: Where the model reads its tokens.

    Raises:
        CannotRunError: Where they differ, or the model cannot be run so.
    """
    try:
        tree = Tree(model, prompt, device)
        first, second, third = tree.logits()[0].topk(3).indices.tolist()
        for parents, tokens in (((0, 0), (first, second)), ((1, 0, 1), (third, first, second))):
            found, expected = (one.follow(parents, tokens).float().log_softmax(-1) for one in (tree, plain))
            if not bool(torch.isfinite(expected.amax(-1)).all()):
                return  # there is nothing to compare with, and what is read of such a model says so
            likeliest = expected.topk(_LOOKED_AT, dim=-1)
            apart = float((found.gather(-1, likeliest.indices) - likeliest.values).abs().max())
            if not apart <= _TOLERANCE.get(model.dtype, _HALF_TOLERANCE):
                raise CannotRunError(f"under a mask of its own it is {apart:.2g} nats off")
    except CannotRunError:
        raise
    except torch.OutOfMemoryError as error:
        raise CannotRunError("there is no memory to try a mask of its own") from error
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise CannotRunError(f"it takes no mask of its own ({type(error).__name__})") from error
