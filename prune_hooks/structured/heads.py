"""Method "heads": attention heads (whole key-value groups) and MLP channels go, by scores in the manner of Wanda.

A channel j that the output projection W reads as x_j scores norm(W[:, j]) * sqrt(mean over tokens of x_j^2); a
key-value group scores the root of the sum of its channels' squared scores. Every block loses as many. What is left is
not updated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tqdm import tqdm

from prune_hooks.errors import PruneError
from prune_hooks.options import Option
from prune_hooks.spec import SEQUENTIAL
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.structured.counts import counts_to_remove, lowest, require_some
from prune_hooks.structured.cut import cut_part, settle
from prune_hooks.structured.families import FAMILIES, Family, Part, attention_part, matrix, mlp_part, model_type
from prune_hooks.structured.registry import Job, StructuredOutcome, register_structured
from prune_hooks.walk import Step, walk


def _further(options: Mapping[str, Any]) -> Needs:
    if not (options["heads"] or options["mlp"]):
        raise PruneError(
            "method 'heads' with heads:0+mlp:0: nothing is left that may go; expected heads:1 or mlp:1 in "
            "method_options"
        )
    return Needs.NORMS


@register_structured(
    "heads",
    tuple(FAMILIES),
    options={
        "heads": Option(1, least=0, most=1, about="1: key-value groups may go, with their query heads"),
        "mlp": Option(1, least=0, most=1, about="1: MLP channels may go"),
    },
    orders=SEQUENTIAL,
    further=_further,
)
def heads(job: Job) -> StructuredOutcome:
    """Removes the lowest groups and channels of each block, block after block, each seeing all earlier ones cut."""
    family = FAMILIES[model_type(job.model)]
    dense_config = job.model.config.to_dict()
    use = (bool(job.options["heads"]), bool(job.options["mlp"]))
    for block in job.targets.blocks:
        _require_some(family, block.module, job.spec.sparsity, use)
    plans = [plan(family, block.module, job.spec.sparsity, use) for block in job.targets.blocks]
    layers: list[dict[str, Any]] = []
    steps = walk(job.model, job.targets, job.batches(), job.precision)
    for step, (groups, channels) in tqdm(
        zip(steps, plans, strict=True), "cutting", len(plans), unit="block", disable=not job.progress
    ):
        module = step.block.module
        wanted = [(attention_part(family, module), groups), (mlp_part(family, module), channels)]
        wanted = [(part, count) for part, count in wanted if count]
        turns = [wanted] if job.spec.sequential == "block" else [[one] for one in wanted]
        gone: dict[str, list[int]] = {}
        for turn in turns:
            found = _collect(job, step, [part for part, _ in turn])
            for (part, count), statistics in zip(turn, found, strict=True):
                kept = lowest(scores(module, part, statistics.mean_square()), count)
                cut_part(family, module, part, kept)
                gone[part.out] = sorted(set(range(part.units)) - set(kept))
        layers.append(
            {
                "block": step.block.name,
                "groups": gone.get(family.attention_out, []),
                "channels": gone.get(family.mlp_out, []),
            }
        )
        with job.precision.at_hand(step.block):
            for batch in step.batches:
                step.advance(batch)
    return StructuredOutcome(layers, settle(job.model, family, dense_config))


def plan(family: Family, block: Any, sparsity: float, use: tuple[bool, bool]) -> tuple[int, int]:
    """Returns how many key-value groups and channels a block is to lose; see `counts_to_remove`."""
    attention, mlp = attention_part(family, block), mlp_part(family, block)
    size = sum(parameter.numel() for parameter in block.parameters())
    sizes = (attention.size(block), mlp.size(block))
    return counts_to_remove((attention.units, mlp.units), sizes, size, sparsity, use)


def _require_some(family: Family, block: Any, sparsity: float, use: tuple[bool, bool]) -> None:
    parts = zip((attention_part(family, block), mlp_part(family, block)), use, strict=True)
    sizes = [part.size(block) for part, used in parts if used and part.units > 1]
    whole = sum(parameter.numel() for parameter in block.parameters())
    require_some("heads", sparsity, sizes, whole, "block")


def scores(block: Any, part: Part, mean_square: torch.Tensor) -> torch.Tensor:
    """Returns the score of each unit, (units,) float32.

    Args:
        block: the block.
        part: which units.
        mean_square: mean over tokens of the squared inputs of the part's output projection, (in,).
    """
    columns: torch.Tensor = matrix(block.get_submodule(part.out)).float().norm(dim=0) * mean_square.sqrt()
    if part.columns.shape[1] == 1:
        return columns
    grouped: torch.Tensor = columns[part.columns.to(columns.device)].square().sum(dim=1)
    return grouped.sqrt()


def _collect(job: Job, step: Step, parts: Sequence[Part]) -> list[Statistics]:
    """Returns the statistics of what each part's output projection reads, from one forward over all batches."""
    found, handles = [], []
    for part in parts:
        module: Any = step.block.module.get_submodule(part.out)
        statistics = Statistics(f"{step.block.name}.{part.out}", matrix(module).shape[1], Needs.NORMS, job.device)
        handles.append(module.register_forward_pre_hook(lambda _, args, held=statistics: held.update(args[0])))
        found.append(statistics)
    try:
        with job.precision.at_hand(step.block):
            for batch in step.batches:
                step.run(batch)
    finally:
        for handle in handles:
            handle.remove()
    return found
