"""One weight matrix, and where in a model it is applied: a view, a stage, a hook point, a block."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import nn

from prune_hooks.errors import PruneError
from prune_hooks.finite import all_finite
from prune_hooks.offload import brought_in


@dataclass(frozen=True, eq=False)
class Weight:
    """One logical weight matrix (out, in), a view into a parameter."""

    name: str
    """Parameter name, with [part] and [expert] where the parameter is fused."""
    module: nn.Module
    """The module that holds the parameter."""
    key: str
    """The parameter's own name in it."""
    transposed: bool = False
    """True if the parameter stores (in, out)."""
    rows: tuple[int, int] | None = None
    """First and last-plus-one output row of this part; None: all."""
    expert: int | None = None
    """Index into the leading dimension of a fused expert tensor; None: the parameter is a matrix."""
    home: torch.device | None = None
    """Where an offloaded weight is used; None: it stays where it is."""

    @property
    def parameter(self) -> nn.Parameter:
        """The parameter as the module holds it now: on the meta device while it is offloaded."""
        parameter: nn.Parameter = getattr(self.module, self.key)
        return parameter

    @property
    def device(self) -> torch.device:
        """Where the weight is used."""
        return self.home or self.parameter.device

    def matrix(self) -> torch.Tensor:
        """Returns the (out, in) view: what is written into it is written into the model.

        An offloaded weight has only a shape, unless its block is brought in (`Targets.opened`).
        """
        stored = self.parameter.detach()
        if self.expert is not None:
            stored = stored[self.expert]
        if self.transposed:
            stored = stored.T
        return stored if self.rows is None else stored[self.rows[0] : self.rows[1]]


@dataclass(frozen=True, eq=False)
class Stage:
    """Weights of one module that are applied at the same moment; one tuple for each input they read."""

    groups: tuple[tuple[Weight, ...], ...]

    @property
    def name(self) -> str:
        """Name of the first weight, for messages and order."""
        return self.groups[0][0].name


@dataclass(frozen=True, eq=False)
class HookPoint:
    """A module whose forward applies prunable weights: one stage for Linear and Conv1D, two (in, out) for experts."""

    name: str
    module: nn.Module
    stages: tuple[Stage, ...]


@dataclass(frozen=True, eq=False)
class Block:
    """One decoder or encoder block."""

    name: str
    module: nn.Module
    stack: str
    """Name of the list of blocks this one belongs to."""
    points: tuple[HookPoint, ...]

    def weights(self) -> tuple[Weight, ...]:
        """Returns the block's prunable matrices in definition order."""
        return tuple(w for point in self.points for stage in point.stages for group in stage.groups for w in group)

    def opened(self, write: bool = False) -> AbstractContextManager[None]:
        """Holds an offloaded block in memory for a while; with `write` its prunable weights are written back."""
        places = {(id(weight.module), weight.key) for weight in self.weights()} if write else ()
        return brought_in(self.module, places)


def require_finite(weights: Iterable[Weight]) -> None:
    """Raises PruneError, by name, for NaN or infinite weights."""
    for weight in weights:
        if not all_finite(weight.matrix()):
            raise PruneError(
                f"{weight.name} holds NaN or infinite weights: expected finite ones; the checkpoint is damaged or was "
                "converted to a dtype too small for it"
            )
