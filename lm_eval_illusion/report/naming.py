"""Names of runs and lines: the method first, then only what tells it from the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["USUAL", "distinguish", "numbered", "pattern_family", "settings_of", "structured"]

USUAL = {"allocation": "uniform", "order": "weight", "dtype": "model"}
"""Settings that are left out: what a receipt that does not name them had."""
_ALWAYS = ("allocation", "order")

_FAMILY = re.compile(r"(\d{1,4}):(\d{1,4})")


def structured(pattern: str | None) -> tuple[int, int] | None:
    """(n, m) of an n:m pattern with 0 <= n <= m, m > 0; None of any other."""
    found = _FAMILY.fullmatch(pattern or "")
    if found is None:
        return None
    kept, group = int(found[1]), int(found[2])
    return (kept, group) if 0 <= kept <= group and group else None


def pattern_family(pattern: str | None) -> str:
    """`n:4` for 1:4, 2:4, 3:4; else the pattern itself, `unstructured` where nothing is said."""
    pair = structured(pattern)
    return f"n:{pair[1]}" if pair else pattern or "unstructured"


def settings_of(spec: Mapping[str, object], calibration: Mapping[str, object]) -> dict[str, str]:
    """Settings besides method, sparsity, pattern and seed that change what is pruned; usual and unsaid ones left out.

    Args:
        spec: The receipt's `spec`.
        calibration: The receipt's `calibration`, empty where the method needs none.
    """
    rows, length = calibration.get("rows"), calibration.get("length")
    languages = spec.get("calibration_languages")
    found = {"allocation": spec.get("allocation"), "order": spec.get("sequential")}
    for name, key in (("options", "method_options"), ("allocation options", "allocation_options")):
        options = spec.get(key)
        if isinstance(options, dict):
            found[name] = " ".join(f"{option}:{value}" for option, value in options.items())
    if calibration:
        found |= {
            "calibration": calibration.get("source"),
            "languages": "+".join(map(str, languages)) if isinstance(languages, list) else None,
            "rows": f"{rows} x {length}" if rows is not None else None,
            "dtype": spec.get("calibration_dtype"),
        }
    texts = {name: str(value) for name, value in found.items() if value not in (None, "")}
    return {name: text for name, text in texts.items() if text != USUAL.get(name)}


def distinguish(groups: Sequence[str], settings: Sequence[Mapping[str, str]]) -> list[str]:
    """What to append to each base name: allocation and order where unusual, else what differs among things of one name.

    Args:
        groups: Base name of each thing.
        settings: Settings of each thing, usual ones left out.

    Returns:
        One text a thing, empty where its base name says all.
    """
    result = []
    for group, mine in zip(groups, settings, strict=True):
        alike = [other for name, other in zip(groups, settings, strict=True) if name == group]
        parts = [
            _part(key, value)
            for key, value in mine.items()
            if key in _ALWAYS or len({other.get(key) for other in alike}) > 1
        ]
        result.append(" ".join(parts))
    return result


def numbered(names: Sequence[str]) -> list[str]:
    """The same names, a number behind each that occurred before: `wanda 0.5`, `wanda 0.5 #2`."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result


def _part(key: str, value: str) -> str:
    shown = "/".join(value.rstrip("/").split("/")[-2:]) if key == "calibration" else value
    return shown if key == "allocation" else f"{key} {shown}"
