"""Calibration from token rows that the caller has made, with or without their languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from prune_hooks.calibration.packing import CalibrationSet, rows_digest
from prune_hooks.errors import PruneError


def label_rows(rows: torch.Tensor | Sequence[Sequence[int]], languages: Sequence[str]) -> CalibrationSet:
    """Return token rows (n, length) that know their languages, to be passed as `calibration`.

    Args:
        rows: as for `PruneSpec.calibration`.
        languages: the code of each row.

    Raises:
        PruneError: if there is not one code for each row.
    """
    table = _as_tensor(rows)
    if len(languages) != table.shape[0]:
        raise PruneError(f"{len(languages)} languages for {table.shape[0]} calibration rows: give one for each")
    known = tuple(sorted(set(languages)))
    labels = torch.tensor([known.index(code) for code in languages])[:, None].expand(table.shape).contiguous()
    return _counted(CalibrationSet(table, "token rows", "", {}, [], (), known, labels))


def _counted(given: CalibrationSet) -> CalibrationSet:
    """Return a set whose digest and counts are those of its rows."""
    assert given.labels is not None
    counts = {code: int((given.labels == place).sum()) for place, code in enumerate(given.languages)}
    return replace(given, digest=rows_digest(given.rows), tokens_per_language=counts)


def ready_rows(
    given: CalibrationSet | torch.Tensor | Sequence[Sequence[int]],
    tokenizer: Any,
    *,
    samples: int | None,
    length: int | None,
) -> CalibrationSet:
    """Check token rows (n, length) and take the first `samples` of them, as they are (no BOS is added).

    Raises:
        PruneError: no rows, unequal lengths, ids that are not integers or outside the vocabulary, or other counts
            than `samples` and `length` ask for.
    """
    rows = _as_tensor(given.rows if isinstance(given, CalibrationSet) else given)
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
    if isinstance(given, CalibrationSet) and given.labels is not None:
        whole = replace(given, rows=rows, labels=given.labels[:samples])
        return whole if rows.shape[0] == count else _counted(whole)
    return CalibrationSet(rows, "token rows", rows_digest(rows), {"und": rows.numel()}, [])


def _as_tensor(given: torch.Tensor | Sequence[Sequence[int]]) -> torch.Tensor:
    rows = given if isinstance(given, torch.Tensor) else _from_lists(given)
    if rows.dim() != 2 or rows.numel() == 0:
        raise PruneError(f"calibration rows have shape {tuple(rows.shape)}: expected (rows, tokens), none of them 0")
    if rows.is_floating_point() or rows.is_complex() or rows.dtype == torch.bool:
        raise PruneError(f"calibration rows are {rows.dtype}: expected token ids as integers (torch.int64)")
    return rows.detach().to("cpu", torch.int64)


def _from_lists(given: Sequence[Sequence[int]]) -> torch.Tensor:
    try:
        lengths = [len(row) for row in given]
        odd = next((k for k, length in enumerate(lengths) if length != lengths[0]), None)
        if odd is None:
            return torch.tensor([list(row) for row in given])
    except (TypeError, ValueError, RuntimeError) as error:
        raise PruneError(
            f"calibration is a {type(given).__name__} that is no table of token ids ({error}): expected a name, path, "
            "or rows of integers, equally long"
        ) from error
    raise PruneError(f"calibration row {odd} has {lengths[odd]} tokens, row 0 has {lengths[0]}: make them equally long")
