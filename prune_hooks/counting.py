"""Turns what a block's modules read into statistics, each token counted under its language where that is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from prune_hooks.batches import make_labels
from prune_hooks.capture import Batch
from prune_hooks.errors import PruneError
from prune_hooks.fused import expert_inputs, expert_tokens, is_experts
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.targets import Targets
from prune_hooks.walk import Step
from prune_hooks.weights import HookPoint, Weight


@dataclass(frozen=True)
class Labels:
    """Which language each token of the calibration batches is in."""

    languages: tuple[str, ...]
    batches: Sequence[Batch]
    """As the model's own inputs, with the number of the token's language in place of its id."""
    first_stack: str
    """The stack that reads `input_ids`; the others of an encoder-decoder read `decoder_input_ids`."""

    @classmethod
    def of(
        cls, languages: tuple[str, ...], table: torch.Tensor, model: nn.Module, targets: Targets, batch_rows: int
    ) -> Labels:
        """Returns the labels of batches made with `make_batches`.

        Args:
            languages: codes.
            table: (n, length) int64, the place of each token's language among them.
            model: the model.
            targets: its blocks.
            batch_rows: rows of a batch.
        """
        return cls(languages, make_labels(model, table, batch_rows), targets.blocks[0].stack)


@dataclass(frozen=True)
class Counting:
    """What is counted of one block's inputs."""

    step: Step
    needs: Needs
    labels: Labels | None = None

    def new(self, group: tuple[Weight, ...]) -> Statistics:
        """Returns empty statistics for weights that read the same input."""
        matrix = group[0].matrix()
        languages = len(self.labels.languages) if self.labels else 1
        return Statistics(group[0].name, matrix.shape[1], self.needs, matrix.device, languages)

    def add(
        self,
        statistics: Sequence[Statistics],
        point: HookPoint,
        number: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        batch: int,
    ) -> None:
        """Counts one batch of inputs of a module's stage.

        Args:
            statistics: one for each group of the stage.
            point: the module, about to run.
            number: of the stage.
            args: what the module is called with.
            kwargs: likewise.
            batch: number of the batch.
        """
        labels = self._labels(point, args, batch)
        routed = is_experts(point.module)
        tensors = expert_inputs(point.name, point.module, args, kwargs, number) if routed else iter((args[0],))
        if labels is None:
            for one, tensor in zip(statistics, tensors, strict=True):
                one.update(tensor)
            return
        apart = _by_expert(point, args, kwargs, labels) if routed else iter((labels,))
        for one, tensor, own in zip(statistics, tensors, apart, strict=True):
            if own.shape[0] != tensor.numel() // tensor.shape[-1]:
                raise PruneError(
                    f"{point.name} reads {tensor.numel() // tensor.shape[-1]} tokens of a batch of {own.shape[0]}: "
                    "expected one for each, since statistics by language tell tokens apart; use method=wanda and "
                    "allocation=uniform or owl"
                )
            one.update(tensor, own)

    def _labels(self, point: HookPoint, args: tuple[Any, ...], batch: int) -> torch.Tensor | None:
        """Returns the languages of the tokens that a module reads, (tokens,), on the weights' device."""
        if self.labels is None:
            return None
        inputs = self.labels.batches[batch]
        decoder = len(inputs) > 1 and self.step.block.stack != self.labels.first_stack
        crossed = decoder and bool(args) and self.step.given(batch, args[0])
        table = inputs["decoder_input_ids" if decoder and not crossed else "input_ids"]
        return table.reshape(-1).to(point.stages[0].groups[0][0].device)


def _by_expert(
    point: HookPoint, args: tuple[Any, ...], kwargs: dict[str, Any], labels: torch.Tensor
) -> Iterator[torch.Tensor]:
    _, chosen = expert_tokens(point.name, args, kwargs)
    for expert in range(len(point.stages[0].groups)):
        yield labels[(chosen == expert).any(dim=1)]
