"""Name -> structured method: what removes whole blocks, heads, channels or directions instead of single weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from prune_hooks import registry
from prune_hooks.batches import make_batches, rows_at_once
from prune_hooks.capture import Batch
from prune_hooks.errors import PruneError
from prune_hooks.options import Option
from prune_hooks.precision import Precision
from prune_hooks.registry import Method, Outcome
from prune_hooks.spec import SEQUENTIAL, PruneSpec
from prune_hooks.spec_values import UNSTRUCTURED
from prune_hooks.statistics import Needs
from prune_hooks.targets import Targets


@dataclass(frozen=True, eq=False)
class Job:
    """What a structured method is given."""

    model: Any
    """Dense, in evaluation mode, in memory."""
    tokenizer: Any
    spec: PruneSpec
    options: Mapping[str, Any]
    """Every option the method declares, with its value."""
    targets: Targets
    rows: torch.Tensor
    """Calibration rows (n, length) int64."""
    precision: Precision
    batch_rows: int | None = None
    """Rows that go through a block at once; None: as many as the memory budget holds."""
    progress: bool = False

    def batches(self) -> list[Batch]:
        """Returns the calibration rows as model inputs."""
        shape = (self.rows.shape[0], self.rows.shape[1])
        fit = self.batch_rows or rows_at_once(self.model, self.targets, shape, self.device, "block")
        return make_batches(self.model, self.rows, min(fit, shape[0]))

    @property
    def device(self) -> torch.device:
        """Where the first block's weights are."""
        return self.targets.weights()[0].device


@dataclass(frozen=True)
class StructuredOutcome:
    """What a structured method did; how many parameters are gone is counted by whoever called it."""

    layers: Sequence[Mapping[str, Any]]
    """What went, block by block, as JSON-able values."""
    reload: str
    """"from_pretrained" or "load_sliced": what brings the saved model back."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """More for the receipt, as JSON-able values."""


StructuredFunction = Callable[[Job], StructuredOutcome]


@dataclass(frozen=True)
class StructuredMethod(Method):
    """A method that changes the model's shape."""

    run: StructuredFunction = field(kw_only=True)
    families: tuple[str, ...] = field(kw_only=True)
    """Every `config.model_type` it can be used on."""
    orders: tuple[str, ...] = (SEQUENTIAL[0],)
    """Values of `PruneSpec.sequential` that it tells apart; the first alone where the order is nothing to it."""

    def require_plain(self, spec: PruneSpec) -> None:
        """Raises PruneError for options of single weights, which say nothing to what removes structures."""
        if spec.pattern != UNSTRUCTURED:
            raise PruneError(
                f"method {self.name!r} with pattern {spec.pattern!r}: a pattern says which single weights stay, and "
                "this method removes whole structures; expected pattern=unstructured"
            )
        if spec.allocation != "uniform":
            raise PruneError(
                f"method {self.name!r} with allocation {spec.allocation!r}: it decides by itself what each block "
                "loses; expected allocation=uniform"
            )
        if spec.sequential not in self.orders:
            raise PruneError(
                f"method {self.name!r} with sequential={spec.sequential}: it knows no order of matrices within a "
                "block; expected sequential=weight, the default; leave it out"
            )

    def require_family(self, model: nn.Module) -> None:
        """Raises PruneError, by name, for an architecture the method does not know."""
        kind = str(getattr(getattr(model, "config", None), "model_type", "") or type(model).__name__)
        if kind not in self.families:
            raise PruneError(
                f"method {self.name!r} does not know {kind} models ({type(model).__name__}): expected one of "
                f"{', '.join(sorted(self.families))}; method=wanda takes any architecture"
                + (f"; {REASONS[self.name, kind]}" if (self.name, kind) in REASONS else "")
            )


REASONS: dict[tuple[str, str], str] = {}
"""(method, model_type) -> why that family is left out, for the message."""


def register_structured(
    name: str,
    families: Sequence[str],
    options: Mapping[str, Option] | None = None,
    reasons: Mapping[str, str] | None = None,
    orders: Sequence[str] = (SEQUENTIAL[0],),
    further: Callable[[Mapping[str, Any]], Needs] | None = None,
) -> Callable[[StructuredFunction], StructuredMethod]:
    """Makes a function a `StructuredMethod` and enters it among the methods; a taken name is a PruneError.

    Args:
        name: the method's name, as `PruneSpec.method` spells it.
        families: every `config.model_type` it can be used on.
        options: the options it knows.
        reasons: model_type -> why it is refused, where there is more to say than that it is unknown.
        orders: values of `PruneSpec.sequential` that it tells apart.
        further: as for `register_method`; where options that cannot be are refused.
    """

    def enter(function: StructuredFunction) -> StructuredMethod:
        if name in registry._METHODS:
            raise PruneError(f"method {name!r} is registered twice: expected a new name")
        method = StructuredMethod(
            name,
            Needs.NORMS,
            _no_group,
            options=dict(options or {}),
            further=further,
            run=function,
            families=tuple(families),
            orders=tuple(orders),
        )
        registry._METHODS[name] = method
        REASONS.update({(name, kind): reason for kind, reason in (reasons or {}).items()})
        return method

    return enter


def _no_group(group: registry.Group) -> list[Outcome]:
    raise PruneError(
        f"a structured method was asked to prune {group.weights[0].name} alone: expected a whole model; call "
        "prune_hooks.prune"
    )
