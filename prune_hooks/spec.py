"""What to prune, how much and on which text: one frozen value that checks itself. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from prune_hooks.errors import PruneError
from prune_hooks.mask_header import read_header
from prune_hooks.options import Value, parse_options
from prune_hooks.spec_values import (
    UNSTRUCTURED,
    describe_rows,
    parse_pattern,
    read_calibration,
    read_fraction,
    read_languages,
    read_path,
    read_whole,
)

SEQUENTIAL = ("weight", "block")
MASK = "mask"
"""Name of the method that puts a saved mask onto a model."""
REFINES = "dsnot"
"""Name of the method that may start from a saved mask."""
CALIBRATION_DTYPES = ("model", "bfloat16", "float32")
_ADDED = ("method_options", "allocation_options", "mask")
"""Fields absent from what is written and digested while they are empty, so that digests made before them still hold."""


def rests_on_mask(method: object, options: Mapping[str, Value]) -> bool:
    """Returns whether a method with these options takes the file `mask`: "mask" itself, or "dsnot" with start:mask."""
    return method == MASK or (method == REFINES and options.get("start") == MASK)


@dataclass(frozen=True, eq=False)
class PruneSpec:
    """A complete instruction to prune; two specs are equal when their digests are."""

    method: str = "wanda"
    """Name of a registered method, or "module:attribute" of one's own."""
    sparsity: float = None  # type: ignore[assignment]  # resolved below: 0.5, or what the pattern says
    """Share of the block weights to remove, 0 to below 1. Default 0.5, or 1 - n/m with an n:m pattern."""
    pattern: str = UNSTRUCTURED
    """"unstructured", or "n:m": n kept in every run of m consecutive input columns."""
    allocation: str = "uniform"
    """Rule that spreads the sparsity over the blocks."""
    calibration: Any = "builtin"
    """"builtin", "c4", "mc4", a path (text, JSONL, folder), token rows (n, length): int64 tensor or lists, or rows that
    know their languages: what `prune_hooks.calibration` makes."""
    calibration_languages: tuple[str, ...] = ()
    """Languages of the calibration text, in equal shares of tokens unless weights are given: `shares` says how. Empty:
    all that the source has."""
    calibration_samples: int | None = None
    """Rows of calibration tokens; None: 128, or what the built-in text holds."""
    calibration_length: int | None = None
    """Tokens a row; None: 2,048, or the built-in text's. Never read from the model's configuration."""
    calibration_dtype: str = "model"
    """Of the calibration forward: the model's own, "bfloat16" (weights stay as they are), or "float32". Statistics are
    float32 in any case."""
    sequential: str = "weight"
    """"weight": each weight sees all earlier ones pruned; "block": the published protocol, statistics of the dense
    block."""
    prune_seed: int = 0
    """Seed of everything random in pruning."""
    method_options: Mapping[str, Value] = field(default_factory=dict)
    """Options of the method: a mapping, or text such as "cycles:20+start:magnitude"; the method declares what it
    knows."""
    allocation_options: Mapping[str, Value] = field(default_factory=dict)
    """Options of the allocation rule, likewise."""
    mask: str = ""
    """For the method "mask", and "dsnot" with start:mask: the file with the mask, which also says the sparsity."""
    save_mask: str = field(default="", metadata={"output": True})
    """File to write the mask to, once pruned; changes no weight, so it is in no digest."""

    def __post_init__(self) -> None:
        shape = parse_pattern(self.pattern)
        implied = 0.5 if shape is None else 1 - shape[0] / shape[1]
        for name in ("mask", "save_mask"):
            object.__setattr__(self, name, read_path(name, getattr(self, name)))
        for name in ("method_options", "allocation_options"):
            object.__setattr__(self, name, parse_options(name, getattr(self, name)))
        if self.mask or rests_on_mask(self.method, self.method_options):
            implied = self._sparsity_of_mask(shape)
        if self.sparsity is None:
            object.__setattr__(self, "sparsity", implied)
        object.__setattr__(self, "sparsity", read_fraction(self.sparsity))
        if shape is not None and not math.isclose(self.sparsity, implied):
            raise PruneError(
                f"sparsity {self.sparsity} with pattern {self.pattern!r}: the pattern itself means {implied:g}; "
                f"leave sparsity out or pass {implied:g}"
            )
        for name in ("method", "allocation", "sequential"):
            if not (isinstance(getattr(self, name), str) and getattr(self, name)):
                raise PruneError(f"{name} is {getattr(self, name)!r}: expected a name")
        if self.sequential not in SEQUENTIAL:
            raise PruneError(f"sequential is {self.sequential!r}: expected {' or '.join(SEQUENTIAL)}")
        if self.calibration_dtype not in CALIBRATION_DTYPES:
            raise PruneError(
                f"calibration_dtype is {self.calibration_dtype!r}: expected {', '.join(CALIBRATION_DTYPES[:-1])} or "
                f"{CALIBRATION_DTYPES[-1]}"
            )
        object.__setattr__(self, "calibration_languages", read_languages(self.calibration_languages))
        object.__setattr__(self, "calibration", read_calibration(self.calibration))
        for name in ("calibration_samples", "calibration_length"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read_whole(name, getattr(self, name), least=1))
        object.__setattr__(self, "prune_seed", read_whole("prune_seed", self.prune_seed, least=0))
        if self.save_mask and (self.method == "none" or not self.sparsity):
            raise PruneError(
                f"save_mask is {self.save_mask!r}, but nothing is pruned (method {self.method!r}, sparsity "
                f"{self.sparsity:g}): expected a method that leaves a mask; leave save_mask out"
            )

    def _sparsity_of_mask(self, shape: tuple[int, int] | None) -> float:
        """Returns the sparsity that the mask file means, having checked what goes with one."""
        if not self.mask:
            start = "" if self.method == MASK else " with start:mask"
            raise PruneError(
                f"method {self.method!r}{start} was given no mask: expected mask=PATH, a file written by save_mask"
            )
        if not rests_on_mask(self.method, self.method_options):
            raise PruneError(
                f"mask is {self.mask!r}, but method is {self.method!r}: expected method=mask with it, or "
                "method=dsnot with method_options=start:mask"
            )
        if shape is not None or self.allocation != "uniform":
            raise PruneError(
                f"method {self.method!r} with a mask, pattern {self.pattern!r} and allocation {self.allocation!r}: the "
                "file says which weights go; leave both out"
            )
        share = read_header(Path(self.mask)).sparsity
        if self.sparsity is not None and not math.isclose(read_fraction(self.sparsity), share, abs_tol=1e-6):
            raise PruneError(
                f"sparsity {self.sparsity} with mask {self.mask!r}: the mask itself removes {share:.4f}; leave "
                "sparsity out"
            )
        return share

    @classmethod
    def option_names(cls) -> frozenset[str]:
        """Returns the names of all options, as `--model_args` spells them."""
        return frozenset(item.name for item in fields(cls))

    @classmethod
    def from_model_args(cls, kwargs: Mapping[str, Any]) -> tuple[PruneSpec, dict[str, Any]]:
        """Takes this project's options out of the harness's model arguments.

        Args:
            kwargs: strings or typed values; lists joined with "+". A method of None means "none" (the harness turns
                the word into None); any other None means the default.

        Returns:
            The spec, and what is left for the model.
        """
        own = {name: kwargs[name] for name in cls.option_names() if name in kwargs}
        rest = {name: value for name, value in kwargs.items() if name not in own}
        if "method" in own and own["method"] is None:
            own["method"] = "none"
        return cls(**{name: value for name, value in own.items() if value is not None}), rest

    @property
    def kept(self) -> tuple[int, int] | None:
        """(n, m) of an n:m pattern, None when unstructured."""
        return parse_pattern(self.pattern)

    def to_dict(self) -> dict[str, Any]:
        """Returns the options as JSON-able values; token rows appear as shape and SHA-256."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if not item.metadata}
        values = {name: value for name, value in values.items() if name not in _ADDED or value}
        values["calibration_languages"] = list(self.calibration_languages)
        if not isinstance(self.calibration, str):
            values["calibration"] = describe_rows(self.calibration)
        return values

    def digest(self) -> str:
        """Returns the SHA-256 (hex) of the options, token rows included."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PruneSpec) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())
