"""Training the gates of method "l0": they descend the text loss along what leaves the expected sparsity as it is.

Minimising the loss under e = t, e the expected sparsity, means a Lagrangian loss + a * (e - t); Wang et al. 2020 let
its multiplier a ascend. Here the constraint is held in every step (gradient projection): a is what makes the Lagrangian
flat along a move of all locations together, a = -sum(dloss) / sum(de), the price of sparsity in loss; Adam steps along
dloss + a * de; and all locations then move by one common amount until e is the t of the step.
t rises from where the gates start to the asked sparsity over the first half of the steps.
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
from prune_hooks.structured.families import Part
from prune_hooks.structured.gates import open_probability, sample
from prune_hooks.structured.registry import Job

log = logging.getLogger(__name__)

WARM_UP = 0.5
"""Share of the steps over which the target rises."""
_EDGE = 1e-6
"""How near to 0 and 1 the uniform numbers come."""
_MANY = 0.5
"""Share of undecided gates above which training was too short to go without a word."""
_FAR = 40.0
"""A location at which a gate is open or closed for certain in float32."""


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

    def loose(self) -> torch.Tensor:
        """Returns which units may go, bool (units,): all but the one with the highest location."""
        loose = torch.ones_like(self.log_alpha, dtype=torch.bool)
        loose[self.log_alpha.detach().argmax()] = False
        return loose

    def draw(self, generator: torch.Generator) -> None:
        """Draws this step's gates; the one that stays is open."""
        u = torch.rand(self.part.units, generator=generator).clamp(_EDGE, 1 - _EDGE).to(self.log_alpha.device)
        self.opened = torch.where(self.loose(), sample(self.log_alpha, u), 1.0)[self.column_unit]


@dataclass(frozen=True)
class Trained:
    """How training ended."""

    expected_sparsity: float
    """Expected share of block parameters behind closed gates."""
    undecided: float
    """Share of the gates that are open with a probability between 0.1 and 0.9."""
    seconds: float


def train(job: Job, gated: Sequence[Gated], total: int) -> Trained:
    """Trains the gates; the model's weights get no gradient.

    Args:
        job: the model, its rows and the options.
        gated: the gates.
        total: parameters of all blocks.
    """
    steps, rows = int(job.options["steps"]), min(int(job.options["rows"]), job.rows.shape[0])
    cost = f"{steps} steps x {rows} x {job.rows.shape[1]} tokens = {steps * rows * job.rows.shape[1]}"
    log.warning("l0 trains %d gates: %s, forward and backward", sum(gates.part.units for gates in gated), cost)
    locations = [gates.log_alpha for gates in gated]
    descent = torch.optim.Adam(locations, lr=job.options["rate"])
    uniforms = seeded("l0", job.spec.prune_seed)
    entered = expected_sparsity(gated, total)
    held = [(p, p.requires_grad) for p in job.model.parameters()]
    start = time.perf_counter()
    for parameter, _ in held:
        parameter.requires_grad_(False)
    try:
        with torch.enable_grad(), _standing(gated):
            for step in tqdm(range(steps), "training gates", unit="step", disable=not job.progress):
                for gates in gated:
                    gates.draw(uniforms)
                loss = _text_loss(job, step, rows)
                if not torch.isfinite(loss):
                    raise PruneError(
                        f"the loss of method 'l0' is {loss.item()} at step {step}: expected a finite one; lower rate "
                        "in method_options, or load the model in float32"
                    )
                gradients = torch.autograd.grad(loss, locations)
                for location, gradient in zip(locations, along(gated, gradients), strict=True):
                    location.grad = gradient
                descent.step()
                risen = min(1.0, (step + 1) / (WARM_UP * steps))
                hold(gated, total, entered + (job.spec.sparsity - entered) * risen)
                log.debug("l0: step %d, loss %.4f, expected %.4f", step, loss.item(), expected_sparsity(gated, total))
                if step == 0:
                    log.warning("l0: about %.0f seconds in all", (time.perf_counter() - start) * steps)
    finally:
        for parameter, required in held:
            parameter.requires_grad_(required)
    opened = open_probability(torch.cat(locations).detach())
    undecided = float(((opened > 0.1) & (opened < 0.9)).float().mean())
    if undecided > _MANY:
        log.warning(
            "l0: %.0f%% of the gates are undecided after %d steps (open with a probability between 0.1 and 0.9), "
            "so that many are closed on little evidence; raise steps or rate in method_options",
            100 * undecided,
            steps,
        )
    return Trained(expected_sparsity(gated, total), undecided, time.perf_counter() - start)


@torch.no_grad()
def expected_sparsity(gated: Sequence[Gated], total: int) -> float:
    """Returns the expected share of block parameters behind closed gates."""
    locations, sizes = _loose(gated)
    return float(_closed(locations, sizes)) / total


@torch.no_grad()
def along(gated: Sequence[Gated], gradients: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the Lagrangian's gradients, part by part: they add up to 0, and the gate that stays has none.

    Args:
        gated: the gates.
        gradients: the loss's, by location.
    """
    free = [torch.where(gates.loose(), g, 0.0) for gates, g in zip(gated, gradients, strict=True)]
    slopes = []
    for gates in gated:
        opened = open_probability(gates.log_alpha)
        slopes.append(torch.where(gates.loose(), -gates.size * opened * (1 - opened), 0.0))
    fall = float(torch.stack([slope.double().sum().to(slopes[0].device) for slope in slopes]).sum())
    rise = float(torch.stack([gradient.double().sum().to(slopes[0].device) for gradient in free]).sum())
    price = -rise / fall if fall else 0.0
    return [gradient + price * slope for gradient, slope in zip(free, slopes, strict=True)]


@torch.no_grad()
def hold(gated: Sequence[Gated], total: int, target: float) -> None:
    """Moves all locations by one common amount, to where the expected sparsity is the target.

    Args:
        gated: the gates.
        total: parameters of all blocks.
        target: a share of them; where it is the most that can go, gates end at which they are closed for certain.
    """
    locations, sizes = _loose(gated)
    low, high = -_FAR - float(locations.max()), _FAR - float(locations.min())
    for _ in range(60):  # halvings: beyond float32
        middle = (low + high) / 2
        low, high = (middle, high) if float(_closed(locations + middle, sizes)) > target * total else (low, middle)
    for gates in gated:
        gates.log_alpha += low


def _loose(gated: Sequence[Gated]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the location of every unit that may go, and its size, float64."""
    device = gated[0].log_alpha.device
    locations = [gates.log_alpha.detach()[gates.loose()].double().to(device) for gates in gated]
    sizes = [torch.full_like(location, float(gates.size)) for gates, location in zip(gated, locations, strict=True)]
    return torch.cat(locations), torch.cat(sizes)


def _closed(locations: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    return (sizes * (1 - open_probability(locations))).sum()


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


def seeded(name: str, seed: int) -> torch.Generator:
    """Returns a generator whose numbers depend on a name and a seed alone."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
