"""Method "l0": which heads and MLP channels go is learned, the weights staying as they are.

Hard-concrete gates (Louizos et al. 2018) stand over the key-value groups and MLP channels and are trained on the
calibration text by the language-model loss, with a Lagrangian that holds the expected sparsity e to a target t
(Wang et al. 2020): loss + a * (e - t) + b * (e - t)^2, the gates descending and the multipliers a, b ascending; t rises
from 0 over the first half of the steps. In the end the gates with the lowest locations are closed, however deep, until
the share of parameters asked for is met as nearly as they allow, and what they guard is removed as by method "heads".
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from prune_hooks.batches import make_batches
from prune_hooks.errors import PruneError
from prune_hooks.options import Option
from prune_hooks.structured.counts import fill
from prune_hooks.structured.cut import cut_part, settle
from prune_hooks.structured.families import FAMILIES, Family, Part, attention_part, mlp_part, model_type
from prune_hooks.structured.gates import open_probability, sample
from prune_hooks.structured.registry import Job, StructuredOutcome, register_structured

log = logging.getLogger(__name__)

START = 2.0
"""Location of every gate at first: open with a probability of 0.97."""
_EDGE = 1e-6
"""How near to 0 and 1 the uniform numbers come."""


@dataclass(eq=False)
class Gated:
    """The gates over one part of one block."""

    name: str
    """Of the block."""
    block: Any
    part: Part
    size: int
    """Parameters that go with one unit."""
    log_alpha: torch.Tensor
    """(units,) float32."""
    column_unit: torch.Tensor
    """(in,): the unit that each input column of the output projection belongs to."""
    opened: torch.Tensor | None = None
    """(in,): the gates of the current step, one a column."""


@register_structured(
    "l0",
    tuple(FAMILIES),
    options={
        "steps": Option(200, least=1, about="training steps"),
        "rate": Option(0.03, least=1e-9, about="learning rate of gates and multipliers (Adam)"),
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
    expected, seconds = train(job, gated, total)
    closed = choose(gated, job.spec.sparsity * total)
    _require_reach(gated, closed, total, job.spec.sparsity)
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
        "training_seconds": seconds,
        "expected_sparsity": expected,
    }
    return StructuredOutcome(list(layers.values()), settle(job.model, family, dense_config), facts)


def make_gates(job: Job, family: Family) -> list[Gated]:
    """Returns the gates of every block, nearly open; their small differences depend on names and seed only."""
    made = []
    for block in job.targets.blocks:
        for part in (attention_part(family, block.module), mlp_part(family, block.module)):
            module: Any = block.module.get_submodule(part.out)
            noise = torch.randn(part.units, generator=_generator(f"{block.name}.{part.out}", job.spec.prune_seed))
            log_alpha = (START + 0.01 * noise).to(module.weight.device).requires_grad_()
            owners = torch.empty(part.columns.numel(), dtype=torch.long)
            owners[part.columns.flatten()] = torch.arange(part.units).repeat_interleave(part.columns.shape[1])
            size = part.size(block.module)
            made.append(
                Gated(block.name, block.module, part, size, log_alpha, owners.to(module.weight.device)),
            )
    return made


def train(job: Job, gated: Sequence[Gated], total: int) -> tuple[float, float]:
    """Trains the gates; the model's weights get no gradient.

    Args:
        job: the model, its rows and the options.
        gated: the gates.
        total: parameters of all blocks.

    Returns:
        The expected sparsity after the last step, and the seconds it took.
    """
    steps, rows = int(job.options["steps"]), min(int(job.options["rows"]), job.rows.shape[0])
    cost = f"{steps} steps x {rows} x {job.rows.shape[1]} tokens = {steps * rows * job.rows.shape[1]}"
    log.warning("l0 trains %d gates: %s, forward and backward", sum(gates.part.units for gates in gated), cost)
    multipliers = torch.zeros(2, device=job.device, requires_grad=True)
    descent = torch.optim.Adam([gates.log_alpha for gates in gated], lr=job.options["rate"])
    ascent = torch.optim.Adam([multipliers], lr=job.options["rate"], maximize=True)
    uniforms = _generator("l0", job.spec.prune_seed)
    held = [(p, p.requires_grad) for p in job.model.parameters()]
    sparsity = torch.zeros(())
    start = time.perf_counter()
    for parameter, _ in held:
        parameter.requires_grad_(False)
    try:
        with torch.enable_grad(), _standing(gated):
            for step in tqdm(range(steps), "training gates", unit="step", disable=not job.progress):
                for gates in gated:
                    u = torch.rand(gates.part.units, generator=uniforms).clamp(_EDGE, 1 - _EDGE)
                    gates.opened = sample(gates.log_alpha, u.to(gates.log_alpha.device))[gates.column_unit]
                sparsity = expected_sparsity(gated, total)
                gap = sparsity - job.spec.sparsity * min(1.0, 2 * (step + 1) / steps)
                loss = _text_loss(job, step, rows) + multipliers[0] * gap + multipliers[1] * gap.square()
                descent.zero_grad()
                ascent.zero_grad()
                loss.backward()
                if not torch.isfinite(loss):
                    raise PruneError(
                        f"the loss of method 'l0' is {loss.item()} at step {step}: expected a finite one; lower rate "
                        "in method_options, or load the model in float32"
                    )
                descent.step()
                ascent.step()
                if step == 0:
                    log.warning("l0: about %.0f seconds in all", (time.perf_counter() - start) * steps)
            sparsity = expected_sparsity(gated, total)
    finally:
        for parameter, required in held:
            parameter.requires_grad_(required)
    return float(sparsity.detach()), time.perf_counter() - start


def expected_sparsity(gated: Sequence[Gated], total: int) -> torch.Tensor:
    """Returns the expected share of block parameters behind closed gates."""
    closed = [
        gates.size * (1 - open_probability(gates.log_alpha)).sum().to(gated[0].log_alpha.device) for gates in gated
    ]
    return torch.stack(closed).sum() / total


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


def _require_reach(gated: Sequence[Gated], closed: Sequence[Sequence[int]], total: int, sparsity: float) -> None:
    gone = sum(gates.size * len(units) for gates, units in zip(gated, closed, strict=True))
    if sparsity * total - gone > max(gates.size for gates in gated):
        raise PruneError(
            f"sparsity {sparsity:g}: at most {gone / total:.3f} of the block parameters can go with one head group and "
            "one channel left in each block; expected less; lower sparsity"
        )


def _text_loss(job: Job, step: int, rows: int) -> torch.Tensor:
    """Returns the mean next-token loss on the step's rows; rows are taken in turn."""
    chosen = [(step * rows + number) % job.rows.shape[0] for number in range(rows)]
    (batch,) = make_batches(job.model, job.rows[chosen], rows)
    ids = batch["input_ids"].to(job.device)
    with job.precision.forward():
        logits = job.model(input_ids=ids, use_cache=False).logits
    return nn.functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), ids[:, 1:].flatten())


@contextmanager
def _standing(gated: Sequence[Gated]) -> Iterator[None]:
    """Multiplies what each output projection reads by the gates of the step."""

    def hook(gates: Gated) -> Any:
        def before(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            assert gates.opened is not None
            return (args[0] * gates.opened.to(args[0].dtype), *args[1:])

        return before

    handles = [gates.block.get_submodule(gates.part.out).register_forward_pre_hook(hook(gates)) for gates in gated]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _generator(name: str, seed: int) -> torch.Generator:
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
