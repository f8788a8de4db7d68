"""Name -> method and name -> allocation rule: explicit tables, open to a user's own by "module:attribute"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import torch

from prune_hooks import masks
from prune_hooks.errors import PruneError
from prune_hooks.options import Option, Value, resolve_options
from prune_hooks.spec import PruneSpec
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.targets import Targets
from prune_hooks.weights import Weight


@dataclass(frozen=True)
class Group:
    """Weights to prune in one call: all read the same input, or (whole_model methods) all there are."""

    weights: tuple[Weight, ...]
    statistics: Statistics | None
    """Of the shared input; None if the method needs nothing."""
    sparsity: float
    kept: tuple[int, int] | None
    """(n, m) of an n:m pattern, None when unstructured."""
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Every option the method declares, with its value."""

    def choose(self, score: torch.Tensor, within: str) -> torch.Tensor:
        """Returns the mask for a score (out, in): the pattern if there is one, else the lowest by "row" or "matrix"."""
        if self.kept is not None:
            return masks.run_mask(score, *self.kept)
        rule = {"row": masks.row_mask, "matrix": masks.matrix_mask}[within]
        return rule(score, self.sparsity)


@dataclass(frozen=True)
class Outcome:
    """What a method did to one weight."""

    masked: int
    """Entries in the mask."""
    damping: float | None = None
    """Share of the mean Hessian diagonal that had to be added, where a Hessian was used."""


Look = Iterable["Sequence[tuple[tuple[Weight, ...], Statistics]]"]
"""What an allocation rule sees of the dense model: for each block in turn the statistics of each input, with the
weights that read it. To be gone through once; a block's weights are in memory at its turn."""


@dataclass(frozen=True)
class Allotment:
    """What an allocation rule decided, and from which measurements."""

    shares: Sequence[float]
    """One sparsity a block."""
    measured: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Name -> one number a block, for the receipt's table."""


PruneFunction = Callable[[Group], "list[Outcome]"]
Plan = Sequence[tuple[Weight, float]]
"""Every weight to prune, with the sparsity it is to get."""
AllocationRule = Callable[..., "Sequence[float] | Allotment"]
"""Targets and the asked sparsity -> one sparsity a block, whose mean weighted by weights is the asked one. A rule that
declares options takes them as a third argument, a mapping; one that needs statistics takes options and a `Look`."""


@dataclass(frozen=True)
class Method:
    """A pruning method: what it needs to know, and how it changes a group of weights in place."""

    name: str
    needs: Needs
    prune: PruneFunction
    """Writes zeros (and updates) into the weights' matrices; one outcome a weight, in order."""
    whole_model: bool = False
    """True if it must see all weights in one group."""
    seeded: bool = True
    """False if the seed changes nothing: no random choice, and no calibration text for it to choose."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """The options it knows, by name."""
    further: Callable[[Mapping[str, Any]], Needs] | None = None
    """What else it needs with these options; a PruneError for options that cannot be."""
    check: Callable[[Plan, Mapping[str, Any]], None] | None = None
    """Called before any weight is touched; a PruneError for what is out of reach."""
    check_text: Callable[[Mapping[str, int], Mapping[str, Any]], None] | None = None
    """Called with the calibration tokens of each language and the options, before the first forward; a PruneError for
    text that the method can do nothing with."""
    bind: Callable[[PruneSpec], Method] | None = None
    """The method as it is to be used for one spec, where it rests on more of it than its options."""

    def resolve(self, given: Mapping[str, Value]) -> dict[str, Any]:
        """Returns all its options with given or default values; an unknown or impossible one is a PruneError."""
        return resolve_options(f"method {self.name!r}", "method_options", self.options, given)

    def needs_with(self, options: Mapping[str, Any]) -> Needs:
        """Returns what it needs to know with these options."""
        return self.needs if self.further is None else self.needs | self.further(options)


@dataclass(frozen=True)
class Allocation:
    """A rule that spreads the asked sparsity over the blocks."""

    name: str
    rule: AllocationRule
    options: Mapping[str, Option] = field(default_factory=dict)
    """The options it knows, by name."""
    needs: Needs = Needs.NOTHING
    """What it wants to know of the dense model's inputs."""

    def resolve(self, given: Mapping[str, Value]) -> dict[str, Any]:
        """Returns all its options with given or default values; an unknown or impossible one is a PruneError."""
        return resolve_options(f"allocation {self.name!r}", "allocation_options", self.options, given)

    def allot(
        self, targets: Targets, sparsity: float, given: Mapping[str, Value], look: Look | None = None
    ) -> Allotment:
        """Returns one sparsity a block.

        Args:
            targets: the blocks.
            sparsity: the asked one.
            given: options.
            look: at the dense model, for a rule that needs it.
        """
        values = self.resolve(given)
        if self.needs is not Needs.NOTHING:
            made = self.rule(targets, sparsity, values, look)
        else:
            made = self.rule(targets, sparsity, values) if self.options else self.rule(targets, sparsity)
        return made if isinstance(made, Allotment) else Allotment([float(share) for share in made])


FILE = "file"
"""Name of the rule that reads a table; "file:PATH" names its path as well."""

_METHODS: dict[str, Method] = {}
_ALLOCATIONS: dict[str, Allocation] = {}


def register_method(
    name: str,
    needs: Needs = Needs.NOTHING,
    whole_model: bool = False,
    seeded: bool = True,
    options: Mapping[str, Option] | None = None,
    further: Callable[[Mapping[str, Any]], Needs] | None = None,
    check: Callable[[Plan, Mapping[str, Any]], None] | None = None,
    check_text: Callable[[Mapping[str, int], Mapping[str, Any]], None] | None = None,
    bind: Callable[[PruneSpec], Method] | None = None,
) -> Callable[[PruneFunction], Method]:
    """Makes a function a `Method` with these properties and enters it under `name`; a taken name is a PruneError."""

    def enter(function: PruneFunction) -> Method:
        if name in _METHODS:
            raise PruneError(f"method {name!r} is registered twice: expected a new name besides {method_names()}")
        declared = dict(options or {})
        _METHODS[name] = Method(name, needs, function, whole_model, seeded, declared, further, check, check_text, bind)
        return _METHODS[name]

    return enter


def register_allocation(
    name: str, options: Mapping[str, Option] | None = None, needs: Needs = Needs.NOTHING
) -> Callable[[AllocationRule], Allocation]:
    """Makes a function an `Allocation` and enters it under `name`; a taken name is a PruneError."""

    def enter(rule: AllocationRule) -> Allocation:
        if name in _ALLOCATIONS:
            raise PruneError(f"allocation {name!r} is registered twice: expected a name besides {allocation_names()}")
        _ALLOCATIONS[name] = Allocation(name, rule, dict(options or {}), needs)
        return _ALLOCATIONS[name]

    return enter


def method_names() -> list[str]:
    """Returns the names of all registered methods, sorted."""
    import_module("prune_hooks.methods")
    import_module("prune_hooks.structured")
    return sorted(_METHODS)


def allocation_names() -> list[str]:
    """Returns the names of all registered allocation rules, sorted."""
    import_module("prune_hooks.allocation")
    return sorted(_ALLOCATIONS)


def get_method(name: str) -> Method:
    """Returns the method of that name, or the `Method` at "module:attribute"."""
    known = method_names()
    if name in known:
        return _METHODS[name]
    if ":" in name:
        method = _load(name)
        if isinstance(method, Method):
            return method
        raise PruneError(f"method {name!r} is a {type(method).__name__}: expected a function under @register_method")
    raise PruneError(
        f'unknown method {name!r}{_near(name, known)}: expected one of {", ".join(known)}, or "module:attribute"'
    )


def get_allocation(name: str) -> Allocation:
    """Returns the allocation of that name, the table at "file:PATH", or a rule at "module:attribute"."""
    known = allocation_names()
    if name in known:
        return _ALLOCATIONS[name]
    kind, colon, path = name.partition(":")
    if colon and kind == FILE:
        return replace(_ALLOCATIONS[FILE], name=name, options={"path": Option(path, about="JSON or YAML file")})
    if ":" in name:
        rule = _load(name)
        if isinstance(rule, Allocation):
            return rule
        if callable(rule):
            return Allocation(name, rule)
        raise PruneError(f"allocation {name!r} is a {type(rule).__name__}: expected a function (targets, sparsity)")
    raise PruneError(
        f'unknown allocation {name!r}{_near(name, known)}: expected one of {", ".join(known)}, or "module:attribute"'
    )


def _near(name: str, known: Sequence[str]) -> str:
    """Returns the known name that was probably meant, as a question."""
    alike = get_close_matches(name, known, n=1)
    return f" (did you mean {alike[0]!r}?)" if alike else ""


def _load(address: str) -> Any:
    module, _, attribute = address.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise PruneError(f"{address!r} cannot be loaded ({error}): expected an importable module:attribute") from error
