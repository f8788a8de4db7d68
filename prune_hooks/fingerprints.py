"""Whether files have changed since something was made from them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def fingerprints(path: Path, names: str = "*") -> dict[str, list[int]]:
    """Returns name -> [size, time of change in ns] of a file, or of a folder's files; {} where there is neither.

    Args:
        path: file or folder.
        names: pattern of the names of a folder's files.
    """
    if path.is_dir():
        found = sorted(p for p in path.glob(f"**/{names}") if p.is_file())
    else:
        found = [path] if path.is_file() else []
    return {str(p.relative_to(path.parent)): [p.stat().st_size, p.stat().st_mtime_ns] for p in found}


def code_fingerprints(address: str) -> dict[str, list[int]]:
    """Returns the fingerprints of the code behind "module:attribute"; {} where no such module is found.

    A module in a package may use any other of it: all Python files of the package count. Nothing is imported.
    """
    try:
        spec = find_spec(address.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        return {}
    if spec is None:
        return {}
    if spec.submodule_search_locations is not None:
        folders = [fingerprints(Path(folder), "*.py") for folder in spec.submodule_search_locations]
        return {name: mark for folder in folders for name, mark in folder.items()}
    return fingerprints(Path(spec.origin)) if spec.has_location and spec.origin else {}
