"""Rule "file": sparsities of the blocks from a JSON or YAML file.

{"model.layers.0": 0.4, "model.layers.1": 0.6}, or the blocks' numbers in model order: {0: 0.4, 1: 0.6}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prune_hooks.allocation.spread import sizes_of, weighted_mean
from prune_hooks.errors import PruneError
from prune_hooks.options import Option
from prune_hooks.registry import FILE, register_allocation
from prune_hooks.shares import read_mapping
from prune_hooks.targets import Targets

TOLERANCE = 1e-3
"""By how much the file's mean may miss the asked sparsity."""
_EXPECTED = "expected one sparsity from 0 to below 1 for every block, by name or number"


@register_allocation(FILE, options={"path": Option("", about="JSON or YAML file: block name or number, sparsity")})
def by_file(targets: Targets, sparsity: float, options: Mapping[str, Any]) -> list[float]:
    """Returns the file's sparsities in the order of the blocks.

    Raises:
        PruneError: no such file, blocks that are missing or unknown or named twice, values that are no sparsities, or a
            mean that misses the asked sparsity.
    """
    if not options["path"]:
        raise PruneError("allocation 'file' was given no path: expected allocation=file:PATH, or its option path")
    path = Path(options["path"]).expanduser()
    if not path.is_file():
        raise PruneError(f"allocation 'file' names {path}, which is no file: {_EXPECTED}")
    names = [block.name for block in targets.blocks]
    shares: dict[str, float] = {}
    for key, value in read_mapping(path, _EXPECTED).items():
        name = _name(path, key, names)
        if name in shares:
            raise PruneError(f"{path} gives {name} twice, by name and by number: {_EXPECTED}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise PruneError(f"{path} gives {name} the sparsity {value!r}: {_EXPECTED}")
        shares[name] = float(value)
    missing = [name for name in names if name not in shares]
    if missing:
        raise PruneError(f"{path} has no sparsity for {', '.join(missing[:5])} ({len(missing)} blocks): {_EXPECTED}")
    found = [shares[name] for name in names]
    mean = weighted_mean(found, sizes_of(targets))
    if abs(mean - sparsity) > TOLERANCE:
        raise PruneError(
            f"{path} means a sparsity of {mean:.4f} (blocks weighted by their weights), asked is {sparsity:g}: "
            f"expected both within {TOLERANCE:g}; set sparsity={mean:.4f}, or change the file"
        )
    return found


def _name(path: Path, key: object, names: list[str]) -> str:
    if key in names:
        return str(key)
    text = str(key)
    if text.isascii() and text.isdigit() and int(text) < len(names):
        return names[int(text)]
    raise PruneError(
        f"{path} names the block {key!r}, which the model has not: expected {names[0]} to {names[-1]}, or 0 to "
        f"{len(names) - 1}"
    )
