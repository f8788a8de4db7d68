"""What each option of a spec may be: values are read, checked and described one by one. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prune_hooks.errors import PruneError
from prune_hooks.shares import parse_languages

UNSTRUCTURED = "unstructured"


def parse_pattern(pattern: object) -> tuple[int, int] | None:
    """Reads a pattern: None for "unstructured", else (n, m): n weights kept of every m consecutive input columns.

    Raises:
        PruneError: for anything else, a value that is no string included (unquoted YAML reads 2:4 as 124).
    """
    expected = 'expected "unstructured" or "n:m" with 0 < n < m, such as "2:4" (quoted in YAML)'
    if not isinstance(pattern, str):
        raise PruneError(f"pattern is {pattern!r} ({type(pattern).__name__}): {expected}")
    if pattern == UNSTRUCTURED:
        return None
    kept, colon, run = pattern.partition(":")
    if not (colon and kept.isascii() and kept.isdigit() and run.isascii() and run.isdigit()):
        raise PruneError(f"pattern is {pattern!r}: {expected}")
    n, m = int(kept), int(run)
    if not 0 < n < m:
        raise PruneError(f"pattern {pattern!r} keeps {n} of {m}: {expected}")
    return n, m


def read_fraction(value: object) -> float:
    """Reads a sparsity: 0 to below 1."""
    expected = "expected a number from 0 to below 1, the share of block weights to remove"
    try:
        number = float(value) if not isinstance(value, bool) else math.nan  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < 1:
        raise PruneError(f"sparsity is {value!r}: {expected}")
    return number


def read_whole(name: str, value: object, least: int) -> int:
    """Reads a whole number, given as one or as text."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and int(text) >= least):
        raise PruneError(f"{name} is {value!r}: expected a whole number of at least {least}")
    return int(text)


def read_languages(value: object) -> tuple[str, ...]:
    """Reads language codes, with their weights if any: text joined with "+", or a list."""
    expected = 'expected codes such as "en+sw" (quoted in YAML, where a bare no means false)'
    codes = value.split("+") if isinstance(value, str) else value
    if isinstance(value, str) and not value:
        codes = ()
    if not isinstance(codes, (list, tuple)) or not all(isinstance(code, str) and code.strip() for code in codes):
        raise PruneError(f"calibration_languages is {value!r}: {expected}")
    parse_languages(codes)
    return tuple(codes)


def read_path(name: str, value: object) -> str:
    """Reads the path of a file; "" where none is meant."""
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str):
        raise PruneError(f"{name} is {value!r} ({type(value).__name__}): expected the path of a file")
    return value


def read_calibration(value: object) -> Any:
    """Reads where calibration comes from: a name, a path, token rows of one length, or labelled rows."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str) and value:
        return value
    if hasattr(value, "shape") and len(value.shape) == 2 and 0 not in value.shape:
        return value
    if hasattr(value, "rows") and hasattr(value, "labels"):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        lengths = {len(row) if isinstance(row, Sequence) else 0 for row in value}
        if len(lengths) == 1 and 0 not in lengths:
            return value
    raise PruneError(
        f"calibration is {type(value).__name__} {str(value)[:40]!r}: expected builtin, c4, mc4, a path, or token rows "
        "of one length (a 2-D int64 tensor or a list of lists)"
    )


def describe_rows(rows: Any) -> dict[str, Any]:
    """Returns the shape and SHA-256 of token rows, and of their languages where they are known."""
    if hasattr(rows, "labels"):
        named = [list(rows.languages), None if rows.labels is None else rows.labels.tolist()]
        labels = hashlib.sha256(json.dumps(named).encode()).hexdigest()
        return {**describe_rows(rows.rows), "labels_sha256": labels}
    plain = rows.tolist() if hasattr(rows, "tolist") else [list(row) for row in rows]
    digest = hashlib.sha256(json.dumps(plain).encode()).hexdigest()
    return {"rows": len(plain), "length": len(plain[0]), "sha256": digest}
