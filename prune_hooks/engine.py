"""Applies a method to all targets: at once where it needs no inputs, block by block along the walk where it does.

Before that, if the allocation rule wants it, one walk through the dense model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import nn
from tqdm import tqdm

from prune_hooks.capture import Batch
from prune_hooks.counting import Labels
from prune_hooks.errors import PruneError
from prune_hooks.precision import Precision
from prune_hooks.registry import Group, Method, Outcome
from prune_hooks.reuse import Reuse
from prune_hooks.sequential import prune_block, watch_block
from prune_hooks.spec import PruneSpec
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.targets import Targets
from prune_hooks.walk import walk
from prune_hooks.weights import Weight


@dataclass
class Done:
    """What became of each weight."""

    outcomes: dict[Weight, Outcome] = field(default_factory=dict)
    starved: set[Weight] = field(default_factory=set)
    """Weights that no calibration token reached."""

    def note(self, method: Method, group: tuple[Weight, ...], outcomes: Sequence[Outcome]) -> None:
        """Enters a method's outcomes for a group."""
        if len(outcomes) != len(group):
            raise PruneError(
                f"method {method.name!r} returned {len(outcomes)} outcomes for {len(group)} weights "
                f"({group[0].name}, ...): expected one Outcome a weight, in order"
            )
        self.outcomes.update(zip(group, outcomes, strict=True))


def prune_without_inputs(method: Method, spec: PruneSpec, targets: Targets, shares: Sequence[float]) -> Done:
    """Prunes weight by weight, or all in one group for a method that compares the whole model."""
    done = Done()
    options = method.resolve(spec.method_options)
    if method.whole_model:
        if len(set(shares)) > 1:
            raise PruneError(
                f"method {method.name!r} compares the whole model, but allocation {spec.allocation!r} gives blocks "
                "different sparsities: expected allocation=uniform"
            )
        if targets.offloaded:
            raise PruneError(
                f"method {method.name!r} compares the whole model, part of which is offloaded: expected all weights in "
                "memory; use method=magnitude, or load the model without offloading"
            )
        group = targets.weights()
        done.note(method, group, method.prune(Group(group, None, shares[0], spec.kept, spec.prune_seed, options)))
        return done
    for block, share in zip(targets.blocks, shares, strict=True):
        with block.opened(write=True):
            for weight in block.weights():
                alone = Group((weight,), None, share, spec.kept, spec.prune_seed, options)
                done.note(method, (weight,), method.prune(alone))
    return done


def prune_along_walk(
    model: nn.Module,
    method: Method,
    spec: PruneSpec,
    targets: Targets,
    shares: Sequence[float],
    batches: Sequence[Batch],
    precision: Precision,
    progress: bool,
    reuse: Reuse | None = None,
    labels: Labels | None = None,
) -> Done:
    """Prunes block by block with the statistics of each weight's inputs."""
    done = Done()
    options = method.resolve(spec.method_options)
    needs = method.needs_with(options)
    steps = walk(model, targets, batches, precision)
    for step in tqdm(steps, "pruning", len(targets.blocks), unit="block", disable=not progress):
        share = shares[step.index]

        def prune(group: tuple[Weight, ...], statistics: Statistics, share: float = share) -> None:
            together = Group(group, statistics, share, spec.kept, spec.prune_seed, options)
            done.note(method, group, method.prune(together))
            precision.settle(group)
            if statistics.starved:
                done.starved.update(group)

        with step.block.opened(write=True):
            kept = reuse.first_block(spec, needs, step.block, batches) if reuse and step.index == 0 else None
            with precision.at_hand(step.block):
                prune_block(step, needs, spec.sequential, prune, kept, labels)
    return done


def watch_dense(
    model: nn.Module,
    needs: Needs,
    targets: Targets,
    batches: Sequence[Batch],
    precision: Precision,
    progress: bool,
    labels: Labels | None = None,
) -> Iterator[list[tuple[tuple[Weight, ...], Statistics]]]:
    """Yields, block by block, the statistics of the dense model's inputs with the weights that read each.

    A block's weights are in memory and as its forward needs them while its statistics are looked at.
    """
    steps = walk(model, targets, batches, precision)
    for step in tqdm(steps, "allocation", len(targets.blocks), unit="block", disable=not progress):
        with step.block.opened(), precision.at_hand(step.block):
            yield watch_block(step, needs, labels)
