"""Files that the options of a run name: what is in them is part of what the run was made from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prune_hooks.fingerprints import code_fingerprints, fingerprints
from prune_hooks.options import parse_options

PATHS = ("calibration", "mask", "tokenizer", "peft", "delta")
"""Model arguments that may be a file or folder."""
TABLE = "file:"
"""What stands before the path of an allocation's table."""


def files_named(model_args: Mapping[str, Any], paths: tuple[str | None, ...]) -> dict[str, dict[str, list[int]]]:
    """Return every path or module that is named, with the size and time of change of each of its files.

    Args:
        model_args: `--model_args` as they are planned.
        paths: What else is named; None is passed over.
    """
    named = [*paths, *(model_args.get(name) for name in PATHS)]
    named += [_after(part, "mbs:") for part in str(model_args.get("calibration_languages") or "").split("+")]
    options = {name: _options(model_args, name) for name in ("method_options", "allocation_options")}
    named += [_after(model_args.get("allocation"), TABLE), options["allocation_options"].get("path")]
    found = {str(path): fingerprints(Path(str(path)).expanduser()) for path in named if path is not None}
    chosen = [model_args.get("method"), model_args.get("allocation"), *options["method_options"].values()]
    for address in chosen:
        if isinstance(address, str) and ":" in address and not address.startswith(TABLE):
            found[address] = code_fingerprints(address)
    return found


def _options(model_args: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    given = model_args.get(field)
    return parse_options(field, given) if given else {}


def _after(value: Any, prefix: str) -> str | None:
    """Return what follows a prefix, None where the value does not begin with it."""
    return value.removeprefix(prefix) if isinstance(value, str) and value.startswith(prefix) else None
