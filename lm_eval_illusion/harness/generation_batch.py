"""A batch of greedy answers in the making: one step for all of them, and then the finished ones leave.

Forwards are prepared by the model's own `prepare_inputs_for_generation`; with one row each of them is, bit for bit,
what stock runs. `generation_start.begin` makes a batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from transformers.utils import ModelOutput

from lm_eval_illusion.harness import generation_cache
from lm_eval_illusion.harness.generation_cache import CannotRunError
from lm_eval_illusion.harness.generation_row import Row, choose

_MASKS = ("attention_mask", "decoder_attention_mask")
_POSITIONS = ("position_ids", "decoder_position_ids")


class Batch:
    """Open rows, what the model must be told of them, and their cache.

    Args:
        model: The model, as `generate` sees it.
        ids: Decoder tokens (rows, positions), int64.
        told: Keyword arguments of `prepare_inputs_for_generation`.
        ends: Tokens that end any answer.
    """

    def __init__(self, model: Any, ids: torch.Tensor, told: dict[str, Any], ends: frozenset[int]) -> None:
        self._model = model
        self._ids = ids
        self._told = told
        self._cache_name = next((name for name, value in told.items() if hasattr(value, "reorder_cache")), None)
        self._ends = ends
        self._decoder_only = not getattr(model.config, "is_encoder_decoder", False)
        self.rows: list[Row] = []
        self._check()

    def _check(self) -> None:
        if self._cache_name is None:
            raise CannotRunError("it is told of no cache")
        generation_cache.require_rows(self._told[self._cache_name])
        for name, value in self._told.items():
            if name in _POSITIONS and value.dim() != 2:
                raise CannotRunError(f"its {name} have {value.dim()} dimensions")
            if isinstance(value, torch.Tensor) and name not in (*_MASKS, *_POSITIONS):
                raise CannotRunError(f"its generation needs {name}")

    @property
    def joinable(self) -> bool:
        """Whether rows of another batch can be put under these."""
        return self._decoder_only

    @property
    def area(self) -> int:
        """Positions of cache that the rows may come to need."""
        left = max((row.limit - len(row.tokens) for row in self.rows), default=0)
        return len(self.rows) * (self._ids.shape[1] + left)

    def first(self, rows: Sequence[Row]) -> list[Row]:
        """Run the prompts; return the rows that end with their first token."""
        return self._advance(self.prompt(rows))

    def step(self) -> list[Row]:
        """Add one token to each row; return the rows that have ended, which are no longer here."""
        return self._advance(self._next())

    def prompt(self, rows: Sequence[Row]) -> torch.Tensor:
        """Run the prompts; return the logits (rows, vocabulary) of their first new tokens."""
        self.rows = list(rows)
        if not self._decoder_only:
            for row, before in zip(self.rows, self._ids.tolist(), strict=True):
                row.before = tuple(before)
        return self._read(self._forward(is_first_iteration=True))

    def follow(self, parents: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        """Let rows go on with tokens that the caller has chosen; a row may go on several ways, or not at all.

        Args:
            parents: For each new row the number of the row it goes on from.
            tokens: For each new row its next token.

        Returns:
            The logits (new rows, vocabulary) of the tokens after those.
        """
        if list(parents) != list(range(len(self.rows))):
            self._keep(list(parents))
        self._append(torch.tensor(tokens))
        return self._next()

    def _next(self) -> torch.Tensor:
        faster = getattr(self._model, "_optimize_model_for_decode", None)
        on_cpu = self._ids.device.type == "cpu"
        with faster() if faster is not None and not on_cpu else contextlib.nullcontext():
            return self._read(self._forward(next_sequence_length=1))

    def _forward(self, **how: Any) -> Any:
        inputs = self._model.prepare_inputs_for_generation(self._ids, **how, **self._told)
        return self._model(**inputs, return_dict=True)

    def _read(self, out: Any) -> torch.Tensor:
        self._told = self._model._update_model_kwargs_for_generation(
            out, self._told, is_encoder_decoder=not self._decoder_only
        )
        logits: torch.Tensor = out.logits[:, -1]
        return logits

    def _append(self, tokens: torch.Tensor) -> None:
        self._ids = torch.cat([self._ids, tokens.to(self._ids.device)[:, None]], dim=-1)

    def _advance(self, logits: torch.Tensor) -> list[Row]:
        tokens, tied, finite = choose(logits)
        self._append(tokens)
        for row, token, is_tied, is_finite in zip(
            self.rows, *torch.stack([tokens, tied.long(), finite.long()]).tolist(), strict=True
        ):
            row.tied += is_tied
            row.non_finite |= not is_finite
            row.add(token, self._ends)
        ended = [row for row in self.rows if row.finish is not None]
        if ended:
            self._keep([number for number, row in enumerate(self.rows) if row.finish is None])
        return ended

    def _keep(self, numbers: list[int]) -> None:
        self.rows = [self.rows[number] for number in numbers]
        if not numbers:
            self._told = {}  # the cache is free
            return
        chosen = torch.tensor(numbers, device=self._ids.device)
        self._ids = self._ids[chosen]
        assert self._cache_name is not None
        generation_cache.keep_rows(self._told[self._cache_name], chosen)
        for name, value in self._told.items():
            if isinstance(value, torch.Tensor):
                self._told[name] = value[chosen.to(value.device)]
            elif isinstance(value, ModelOutput):
                self._told[name] = type(value)(**{part: _rows_of(state, chosen) for part, state in value.items()})
        if self._decoder_only:
            self._trim()

    def _trim(self) -> None:
        """Drop columns that are padding in every row that is left; without any padding there need be no mask."""
        spare = min(row.padding for row in self.rows)
        if spare:
            self._ids = self._ids[:, spare:]
            self._told["attention_mask"] = self._told["attention_mask"][:, spare:]
            self._last_positions()
            generation_cache.drop_columns(self._told[str(self._cache_name)], spare)
            for row in self.rows:
                row.padding -= spare
        if not any(row.padding for row in self.rows):
            self._told["attention_mask"] = None

    def _last_positions(self) -> None:
        for name in _POSITIONS:
            if self._told.get(name) is not None:
                self._told[name] = self._told[name][:, -1:]

    def join(self, others: Sequence[Batch], pad: int) -> None:
        """Put the rows of other batches under these; the others are spent.

        Args:
            others: Batches of the same model, each with at least one step done and one row open.
            pad: Token id for padding.
        """
        if not others:
            return
        batches = [self, *others]
        widths = [batch._ids.shape[1] for batch in batches]
        masks = []
        for batch, width in zip(batches, widths, strict=True):
            batch._last_positions()
            mask = batch._told.get("attention_mask")
            mask = torch.ones_like(batch._ids) if mask is None else mask
            masks.append(_left(mask, max(widths), 0))
            batch._ids = _left(batch._ids, max(widths), pad)
            for row in batch.rows:
                row.padding += max(widths) - width
        name = str(self._cache_name)
        # The newest token is not in the cache yet.
        generation_cache.join([batch._told[name] for batch in batches], [width - 1 for width in widths])
        self._ids = torch.cat([batch._ids for batch in batches])
        self._told["attention_mask"] = torch.cat(masks)
        for positions in _POSITIONS:
            if self._told.get(positions) is not None:
                self._told[positions] = torch.cat([batch._told[positions] for batch in batches])
        self.rows = [row for batch in batches for row in batch.rows]
        self._trim()


def _left(tensor: torch.Tensor, width: int, value: int) -> torch.Tensor:
    return torch.nn.functional.pad(tensor, (width - tensor.shape[1], 0), value=value)


def _rows_of(state: Any, chosen: torch.Tensor) -> Any:
    if not isinstance(state, torch.Tensor):
        raise CannotRunError("its encoder says more than states")
    return state[chosen.to(state.device)]
