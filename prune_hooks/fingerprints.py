"""Whether files have changed since something was made from them."""

from __future__ import annotations

from pathlib import Path


def fingerprints(path: Path) -> dict[str, list[int]]:
    """Returns name -> [size, time of change in ns] of a file, or of a folder's files; {} where there is neither."""
    found = [path] if path.is_file() else sorted(p for p in path.glob("**/*") if p.is_file()) if path.is_dir() else []
    return {str(p.relative_to(path.parent)): [p.stat().st_size, p.stat().st_mtime_ns] for p in found}
