"""Calibration from token rows that the caller has made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from prune_hooks.calibration.packing import CalibrationSet, rows_digest
from prune_hooks.errors import PruneError


def ready_rows(
    given: torch.Tensor | Sequence[Sequence[int]], tokenizer: Any, *, samples: int | None, length: int | None
) -> CalibrationSet:
    """Check token rows (n, length) and take the first `samples` of them, as they are (no BOS is added).

    Raises:
        PruneError: no rows, unequal lengths, ids that are not integers or outside the vocabulary, or other counts
            than `samples` and `length` ask for.
    """
    rows = _as_tensor(given)
    count, width = rows.shape
    if length is not None and length != width:
        raise PruneError(f"calibration rows have {width} tokens, calibration_length is {length}: set it to {width}")
    if samples is not None and samples > count:
        raise PruneError(f"{count} calibration rows given, calibration_samples is {samples}: set it to {count} or less")
    if int(rows.min()) < 0:
        raise PruneError(f"calibration rows hold the token id {int(rows.min())}: ids start at 0")
    if tokenizer is not None and int(rows.max()) >= len(tokenizer):
        raise PruneError(
            f"calibration rows hold the token id {int(rows.max())}, the tokenizer has {len(tokenizer)} tokens: "
            "make the rows with the model's own tokenizer"
        )
    rows = rows[:samples].contiguous().clone()
    return CalibrationSet(rows, "token rows", rows_digest(rows), {"und": rows.numel()}, [])


def _as_tensor(given: torch.Tensor | Sequence[Sequence[int]]) -> torch.Tensor:
    if not isinstance(given, torch.Tensor):
        given = [list(row) for row in given]
        odd = next((k for k, row in enumerate(given) if len(row) != len(given[0])), None)
        if odd is not None:
            raise PruneError(
                f"calibration row {odd} has {len(given[odd])} tokens, row 0 has {len(given[0])}: make them equally long"
            )
        given = torch.tensor(given)
    if given.dim() != 2 or given.numel() == 0:
        raise PruneError(f"calibration rows have shape {tuple(given.shape)}: expected (rows, tokens), none of them 0")
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise PruneError(f"calibration rows are {given.dtype}: expected token ids as integers (torch.int64)")
    return given.detach().to("cpu", torch.int64)
