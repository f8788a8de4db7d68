"""Method "l0": which heads and MLP channels go is learned, the weights staying as they are.

Hard-concrete gates (Louizos et al. 2018) stand over the key-value groups and MLP channels and are trained on the
calibration text by the language-model loss, their expected sparsity held to a target that ends at the asked one (see
`gate_training`). The highest gate of each part stays open. In the end the gates with the lowest locations are closed,
until the share of parameters asked for is met as nearly as they allow, and what they guard is removed as by method
"heads".
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from prune_hooks.errors import PruneError
from prune_hooks.options import Option
from prune_hooks.structured.counts import fill, require_some
from prune_hooks.structured.cut import cut_part, settle
from prune_hooks.structured.families import FAMILIES, Family, attention_part, mlp_part, model_type
from prune_hooks.structured.gate_training import Gated, seeded, train
from prune_hooks.structured.registry import Job, StructuredOutcome, register_structured

log = logging.getLogger(__name__)

START = 2.0
"""Location of every gate at first: open with a probability of 0.97."""


@register_structured(
    "l0",
    tuple(FAMILIES),
    options={
        "steps": Option(200, least=1, about="training steps"),
        "rate": Option(0.1, least=1e-9, about="learning rate of the gates (Adam)"),
        "rows": Option(1, least=1, about="calibration rows a step"),
    },
)
def l0(job: Job) -> StructuredOutcome:
    """Trains gates, closes the lowest, and removes what they guard; at least one unit of each kind stays a block."""
    if job.precision.dtype is torch.float32 and job.targets.weights()[0].parameter.dtype is not torch.float32:
        raise PruneError(
            "method 'l0' with calibration_dtype='float32' on a model in half precision: it trains through the whole "
            "model at once; expected calibration_dtype=model or bfloat16, or a model loaded with dtype=float32"
        )
    family = FAMILIES[model_type(job.model)]
    dense_config = job.model.config.to_dict()
    gated = make_gates(job, family)
    total = sum(p.numel() for block in job.targets.blocks for p in block.module.parameters())
    _require_reach(gated, total, job.spec.sparsity)
    trained = train(job, gated, total)
    closed = choose(gated, job.spec.sparsity * total)
    layers: dict[str, dict[str, Any]] = {}
    for gates, gone in zip(gated, closed, strict=True):
        kept = sorted(set(range(gates.part.units)) - set(gone))
        layer = layers.setdefault(gates.name, {"block": gates.name})
        layer["groups" if gates.part.out == family.attention_out else "channels"] = gone
        if gone:
            cut_part(family, gates.block, gates.part, kept)
    steps, rows, length = job.options["steps"], min(job.options["rows"], job.rows.shape[0]), job.rows.shape[1]
    facts = {
        "steps": steps,
        "tokens": steps * rows * length,
        "training_seconds": trained.seconds,
        "expected_sparsity": trained.expected_sparsity,
        "undecided_gates": trained.undecided,
    }
    return StructuredOutcome(list(layers.values()), settle(job.model, family, dense_config), facts)


def make_gates(job: Job, family: Family) -> list[Gated]:
    """Returns the gates of every block, nearly open; their small differences depend on names and seed only."""
    made = []
    for block in job.targets.blocks:
        for part in (attention_part(family, block.module), mlp_part(family, block.module)):
            module: Any = block.module.get_submodule(part.out)
            noise = torch.randn(part.units, generator=seeded(f"{block.name}.{part.out}", job.spec.prune_seed))
            log_alpha = (START + 0.01 * noise).to(module.weight.device).requires_grad_()
            owners = torch.empty(part.columns.numel(), dtype=torch.long)
            owners[part.columns.flatten()] = torch.arange(part.units).repeat_interleave(part.columns.shape[1])
            size = part.size(block.module)
            made.append(
                Gated(block.name, block.module, part, size, log_alpha, owners.to(module.weight.device)),
            )
    return made


def choose(gated: Sequence[Gated], target: float) -> list[list[int]]:
    """Returns the units to remove of each gated part, ascending: the lowest locations of all, up to a sum of sizes.

    Of equal locations the first goes; the highest of a part stays.

    Args:
        gated: the gates.
        target: parameters to remove; see `fill`.
    """
    entries = []
    for number, gates in enumerate(gated):
        values = gates.log_alpha.detach().cpu()
        stays = int(values.argmax())
        entries += [(float(value), number, unit) for unit, value in enumerate(values) if unit != stays]
    entries.sort()
    sizes = [gated[number].size for _, number, _ in entries]
    closed: list[list[int]] = [[] for _ in gated]
    for place in fill(sizes, target):
        _, number, unit = entries[place]
        closed[number].append(unit)
    return [sorted(units) for units in closed]


def _require_reach(gated: Sequence[Gated], total: int, sparsity: float) -> None:
    sizes = [gates.size for gates in gated if gates.part.units > 1]
    require_some("l0", sparsity, sizes, total, "blocks")
    reach = sum(gates.size * (gates.part.units - 1) for gates in gated) / total
    if sparsity > reach:
        raise PruneError(
            f"sparsity {sparsity:g}: at most {reach:.3f} of the block parameters can go with one head group and "
            "one channel left in each block; expected less; lower sparsity"
        )
