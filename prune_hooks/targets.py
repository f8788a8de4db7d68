"""Which weights are pruned: every weight matrix inside the text blocks, as its logical parts.

Pruned: Linear, Conv1D (stored transposed), fused q/k/v and gate/up (as parts), fused expert tensors (one matrix an
expert and part). Never: embeddings, norms, lm_head (they lie outside the blocks, tied or not); the routers of a
mixture of experts, which decide where tokens go; and filters that keep channels apart (depthwise convolutions and state
decays of linear attention and state-space layers). Routers and filters are tiny; they are listed as unreached and lower
the coverage. Weights in layers of any other kind are an error that names them. Blocks of image and audio towers are
left alone: calibration is text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from prune_hooks.errors import PruneError
from prune_hooks.fused import expert_stages, is_experts, linear_parts
from prune_hooks.offload import Place, Slot, find_slots
from prune_hooks.weights import Block, HookPoint, Stage, Weight

FILTERS = frozenset({"A_log"})
"""Last names of parameters that act on each channel alone, whatever their shape: state decays of state-space layers."""
ROUTERS = frozenset({"gate", "router", "shared_expert_gate"})
"""Last names of Linear modules that route tokens to experts."""
NON_TEXT = ("vision", "visual", "image", "audio", "speech")
"""Parts of module names under which blocks are not text blocks."""


@dataclass(frozen=True, eq=False)
class Targets:
    """All blocks of a model, and what in them is out of reach."""

    blocks: tuple[Block, ...]
    unreached: dict[str, int] = field(default_factory=dict)
    """Weights (matrices that are no embeddings) inside blocks that are not pruned: name -> number of elements."""
    unknown: tuple[str, ...] = ()
    """Those among them that nobody decided to leave dense: in layers of a kind that is not known."""

    def weights(self) -> tuple[Weight, ...]:
        """Returns every prunable matrix in model order."""
        return tuple(weight for block in self.blocks for weight in block.weights())

    def opened(self) -> Iterator[Weight]:
        """Yields every prunable matrix in model order, to be read; an offloaded block is in memory meanwhile."""
        for block in self.blocks:
            with block.opened():
                yield from block.weights()

    @property
    def offloaded(self) -> bool:
        """True if some prunable weights are kept off their execution device."""
        return any(weight.home is not None for weight in self.weights())

    @property
    def coverage(self) -> float:
        """Share of the blocks' weights that are reached, 0 to 1."""
        reached = sum(weight.matrix().numel() for weight in self.weights())
        return reached / (reached + sum(self.unreached.values()))

    def require_reached(self) -> None:
        """Raises PruneError, by name, if blocks hold weights in layers of a kind that is not known."""
        if self.unknown:
            raise PruneError(
                f"{', '.join(self.unknown[:4])} ({len(self.unknown)} parameters) are in layers of a kind that is not "
                "known: expected Linear, Conv1D or fused experts, so that the sparsity asked is that of all weights; "
                "have the layer added to prune_hooks.targets"
            )

    def require_divisible(self, run: int) -> None:
        """Raises PruneError, before anything is touched, if an input width is not a multiple of `run`."""
        for weight in self.weights():
            width = weight.matrix().shape[1]
            if width % run:
                raise PruneError(
                    f"{weight.name} has {width} input columns: an n:{run} pattern needs a multiple of {run}; "
                    "choose another m or pattern=unstructured"
                )


def find_targets(model: nn.Module) -> Targets:
    """Finds the text blocks of a model and the weights in them.

    Raises:
        PruneError: no blocks; weights that are packed (4-bit, 8-bit, GGUF, float8) or nowhere to be found, by name.
    """
    blocks: list[Block] = []
    unreached: dict[str, int] = {}
    unknown: list[str] = []
    reached: set[int] = set()
    seen: set[int] = set()  # modules shared between blocks are pruned once
    for stack, modules in _stacks(model):
        for index, module in enumerate(modules):
            name = f"{stack}.{index}"
            slots = find_slots(module)
            _refuse_unprunable(name, module, slots)
            points = tuple(point for point in _points(name, module, slots) if id(point.module) not in seen)
            seen |= {id(point.module) for point in points}
            blocks.append(Block(name, module, stack, points))
            reached |= {id(weight.parameter) for weight in blocks[-1].weights()}
            embeddings = {id(p) for m in module.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
            for leaf, parameter in module.named_parameters():
                matrix = parameter.dim() >= 2 and not leaf.endswith("bias")  # experts stack their biases
                if matrix and id(parameter) not in reached | embeddings:
                    unreached[f"{name}.{leaf}"] = parameter.numel()
                    if not _left_dense(module, leaf):
                        unknown.append(f"{name}.{leaf}")
    if not any(block.points for block in blocks):
        raise PruneError(
            f"no prunable weights in {type(model).__name__}: expected a list of decoder or encoder blocks with Linear, "
            "Conv1D or fused expert layers; pass a transformers language model"
        )
    return Targets(tuple(blocks), unreached, tuple(unknown))


def _left_dense(block: nn.Module, leaf: str) -> bool:
    """Tells whether a parameter is dense by decision: of a router, or a filter that keeps channels apart."""
    path, _, key = leaf.rpartition(".")
    owner: Any = block.get_submodule(path)
    depthwise = isinstance(owner, nn.Conv1d) and owner.groups == owner.in_channels
    return depthwise or key in FILTERS or path.rpartition(".")[2] in ROUTERS


def _stacks(model: nn.Module) -> Iterator[tuple[str, nn.ModuleList]]:
    """Yields the outermost lists whose members are blocks: they hold weight matrices without being one."""
    outer: list[str] = []
    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or any(name.startswith(f"{taken}.") for taken in outer):
            continue
        if any(word in part for part in name.lower().split(".") for word in NON_TEXT):
            continue
        if len(module) and all(any(p.dim() >= 2 for c in m.children() for p in c.parameters()) for m in module):
            outer.append(name)
            yield name, module


def _points(block: str, module: nn.Module, slots: Mapping[Place, Slot]) -> Iterator[HookPoint]:
    leaf: Any
    for path, leaf in module.named_modules():
        name = f"{block}.{path}" if path else block
        if isinstance(leaf, (nn.Linear, Conv1D)):
            if name.rsplit(".", 1)[-1] in ROUTERS:
                continue
            transposed = isinstance(leaf, Conv1D)
            owner = module.get_submodule(path.rpartition(".")[0])
            width = leaf.weight.shape[1 if transposed else 0]
            parts = linear_parts(path.rsplit(".", 1)[-1], owner, leaf, width)
            home = _home(leaf, "weight", slots)
            group = tuple(
                Weight(f"{name}.weight{f'[{label}]' if label else ''}", leaf, "weight", transposed, rows, home=home)
                for label, rows in parts
            )
            yield HookPoint(name, leaf, (Stage((group,)),))
        elif is_experts(leaf):
            stages = []
            for parameter_name, parts in expert_stages(leaf):
                parameter = getattr(leaf, parameter_name)
                groups = tuple(
                    tuple(
                        Weight(
                            f"{name}.{parameter_name}[{expert}]{f'[{label}]' if label else ''}",
                            leaf,
                            parameter_name,
                            bool(leaf.is_transposed),
                            rows,
                            expert,
                            _home(leaf, parameter_name, slots),
                        )
                        for label, rows in parts
                    )
                    for expert in range(parameter.shape[0])
                )
                stages.append(Stage(groups))
            yield HookPoint(name, leaf, tuple(stages))


def _home(module: nn.Module, key: str, slots: Mapping[Place, Slot]) -> torch.device | None:
    slot = slots.get((id(module), key))
    if slot is None:
        return None
    slot.require_writable()
    return slot.device


def _refuse_unprunable(block: str, module: nn.Module, slots: Mapping[Place, Slot]) -> None:
    for path, leaf in module.named_modules():
        for key, tensor in [*leaf.named_parameters(recurse=False), *leaf.named_buffers(recurse=False)]:
            where = f"{block}.{path}.{key}"
            if tensor.is_meta and (id(leaf), key) not in slots:
                raise PruneError(
                    f"{where} is on the meta device (never loaded, or offloaded otherwise than by accelerate's hooks): "
                    "expected weights in memory or behind device_map; load the model with from_pretrained"
                )
            weight_like = isinstance(tensor, nn.Parameter) or "weight" in key
            plain = type(tensor.data) is torch.Tensor
            packed = not plain or not tensor.is_floating_point() or tensor.element_size() < 2
            if weight_like and packed and tensor.dim() > 0:
                raise PruneError(
                    f"{where} is packed ({tensor.dtype} in {type(leaf).__name__}): expected float32, float16 or "
                    "bfloat16; load the model unquantised (GGUF: GgufConfig(dequantize=True))"
                )
