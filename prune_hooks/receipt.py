"""What was done: counted on the final tensors, hashed, and laid out as JSON or a short table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
import transformers
from torch import nn

from prune_hooks import __version__
from prune_hooks.offload import find_slots
from prune_hooks.phases import Phases
from prune_hooks.spec import PruneSpec
from prune_hooks.weights import Weight
from prune_hooks.zeros import zeros_in

SCHEMA = 1
_CHUNK = 1 << 22
"""Elements brought to the host at a time for hashing."""


@dataclass(frozen=True)
class WeightRecord:
    """One pruned matrix."""

    name: str
    shape: tuple[int, int]
    """(out, in)."""
    zeros_before: int
    zeros_after: int
    """Exact zeros counted before and after; a checkpoint may hold zeros of its own."""
    masked: int
    """Entries in the mask."""
    damping: float | None = None
    """Share of the mean Hessian diagonal added, where a Hessian was used; above 0.01 the factorisation had failed."""
    starved: bool = False
    """True if no calibration token reached the matrix: it was pruned by magnitude."""

    @classmethod
    def of(cls, weight: Weight, before: int, after: int, masked: int = 0, **more: Any) -> WeightRecord:
        """Makes the record of a matrix by the zeros counted in it."""
        out, width = weight.matrix().shape
        return cls(weight.name, (out, width), before, after, masked, **more)


@dataclass(frozen=True)
class Receipt:
    """The record of one call of `prune`."""

    spec: dict[str, Any]
    spec_digest: str
    sparsity_asked: float
    sparsity_reached: float | None
    """Share of exact zeros among the reached block weights; None if none could be reached."""
    sparsity_masked: float
    """Share of the reached block weights in the masks."""
    whole_model_sparsity: float | None
    """Share of exact zeros among all parameters, embeddings included; None if some are packed or not in memory."""
    coverage: float | None
    """Share of the blocks' weight matrices that were reached; None if none could be."""
    unreached: dict[str, int]
    """Matrices in blocks that stay dense (routers, unknown layers): name -> elements."""
    weights: tuple[WeightRecord, ...]
    calibration: dict[str, Any] | None
    """Source, digest, rows, length, tokens per language, passage hashes, batch rows, forward dtype; None if the
    method needs none."""
    weights_sha256: str
    """SHA-256 over names, shapes, dtypes and bytes of the reached matrices; if none could be reached, over all of the
    model's tensors."""
    seconds: dict[str, float]
    """Wall time of each phase."""
    peak_memory: dict[str, int]
    """Bytes at the end of each phase: peak device memory on CUDA, else the process's peak resident size so far."""
    versions: dict[str, str]
    device: str
    dtype: str
    unprunable: str | None = None
    """Why the model, left dense as asked, could not have been pruned; None if it could."""
    structured: dict[str, Any] | None = None
    """For a method that removes structures: parameters [before, after] in the blocks and in the model, what went block
    by block, and what reloads the model. Sparsities are then shares of parameters gone, `weights` is what is left, and
    `weights_sha256` is over all of the model's tensors; absent for other methods."""
    allocation: dict[str, Any] | None = None
    """Rule, options and a table of the blocks (sparsity, weights, what was measured), absent for uniform."""
    saved_mask: dict[str, str] | None = None
    """Path and SHA-256 of the mask file written; absent if none was asked for."""
    mask: dict[str, str] | None = None
    """Path and SHA-256 of the saved mask that was put on or refined; absent if none was."""
    schema: int = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """Returns the receipt as JSON-able values."""
        values = asdict(self)
        for name in ("structured", "allocation", "saved_mask", "mask"):
            if values[name] is None:
                del values[name]
        values["weights"] = [
            {key: value for key, value in record.items() if not (key in ("damping", "starved") and not value)}
            | {"shape": list(record["shape"])}
            for record in values["weights"]
        ]
        return values

    def table(self) -> str:
        """Returns the receipt in a few lines of plain text."""
        method = f"{self.spec['method']}, {self.spec['pattern']}, {self.spec['allocation']}, {self.spec['sequential']}"
        lines = [
            ("method", method),
            ("sparsity", f"{_share(self.sparsity_reached)} of block weights (asked {self.sparsity_asked:.4f}, "
             f"masked {self.sparsity_masked:.4f}), {_share(self.whole_model_sparsity)} of the whole model"),
            ("coverage", f"{_share(self.coverage)} of block weights in {len(self.weights)} matrices"
             + (f", {len(self.unreached)} left dense" if self.unreached else "")),
            ("calibration", self._calibration_line()),
            ("weights sha256", self.weights_sha256[:16]),
            ("device", f"{self.device}, {self.dtype}"),
            ("seconds", ", ".join(f"{phase} {value:.1f}" for phase, value in self.seconds.items())),
            ("peak memory", ", ".join(f"{phase} {value / 1e6:.0f} MB" for phase, value in self.peak_memory.items())),
        ]  # fmt: skip
        if self.structured is not None:
            before, after = self.structured["block_parameters"]
            lines.append(
                ("removed", f"{before - after} of {before} block parameters; {self.structured['reload']} reloads")
            )
            if "expected_sparsity" in self.structured:
                left = self.structured["undecided_gates"]
                expected = self.structured["expected_sparsity"]
                lines.append(("gates", f"expected sparsity {expected:.4f}, {left:.0%} of the gates undecided"))
        if self.allocation is not None:
            lines.append(("blocks", " ".join(f"{block['sparsity']:.4f}" for block in self.allocation["blocks"])))
        if self.mask is not None:
            lines.append(("mask used", f"{self.mask['path']}, sha256 {self.mask['sha256'][:16]}"))
        if self.saved_mask is not None:
            lines.append(("mask", f"{self.saved_mask['path']}, sha256 {self.saved_mask['sha256'][:16]}"))
        if self.unprunable:
            lines.append(("unprunable", self.unprunable))
        raised = [r for r in self.weights if r.damping is not None and r.damping > 0.011]
        starved = [r for r in self.weights if r.starved]
        if raised:
            lines.append(("damping raised", f"{len(raised)} matrices, first {raised[0].name} ({raised[0].damping:g})"))
        if starved:
            lines.append(("starved", f"{len(starved)} matrices, first {starved[0].name}"))
        return "\n".join(f"{label:<15} {text}" for label, text in lines)

    def _calibration_line(self) -> str:
        if self.calibration is None:
            return "none needed"
        c = self.calibration
        shares = ", ".join(f"{language} {count}" for language, count in c["tokens_per_language"].items())
        return f"{c['source']}: {c['rows']} x {c['length']} tokens" + (
            (f" ({shares})" if shares else "") + f", forward in {c['forward_dtype']}"
        )


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def circumstances(spec: PruneSpec, phases: Phases, dtype: torch.dtype) -> dict[str, Any]:
    """Returns the fields of a receipt that say by what it was made, whatever was done; once all phases are over."""
    return {
        "spec": spec.to_dict(),
        "spec_digest": spec.digest(),
        "seconds": phases.seconds,
        "peak_memory": phases.peak_memory,
        "versions": versions(),
        "device": str(phases.device),
        "dtype": str(dtype).removeprefix("torch."),
    }


def versions() -> dict[str, str]:
    """Returns the versions of what pruning rests on."""
    return {
        "torch": str(torch.__version__),
        "transformers": str(transformers.__version__),
        "prune_hooks": __version__,
    }


def count_zeros(weights: Iterable[Weight]) -> list[int]:
    """Returns the number of exact zeros in each matrix."""
    return [zeros_in(weight.matrix()) for weight in weights]


def whole_model_sparsity(model: nn.Module) -> float | None:
    """Returns the share of exact zeros among all parameters, tied ones counted once; None if it cannot be counted.

    It cannot where there are none, or some are packed or nowhere to be found.
    """
    total = zeros = 0
    for parameter in _values(model):
        if not (is_plain(parameter) and parameter.is_floating_point() and parameter.element_size() > 1):
            return None
        total += parameter.numel()
        zeros += zeros_in(parameter)
    return zeros / total if total else None


def _values(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yields every parameter once, offloaded ones as they are kept: there tied ones can only be told by their names."""
    slots = find_slots(model)
    tied = getattr(model, "all_tied_weights_keys", {}) if slots else {}
    seen: set[int] = set()
    for path, module in model.named_modules():
        for key, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen or f"{path}.{key}" in tied:
                continue
            seen.add(id(parameter))
            slot = slots.get((id(module), key))
            yield slot.read() if slot is not None and parameter.is_meta else parameter


def is_plain(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor's bytes lie in memory as they are: not on the meta device, not a packed subclass."""
    return not tensor.is_meta and type(tensor.data) is torch.Tensor


def hash_weights(weights: Iterable[Weight]) -> str:
    """Returns the SHA-256 (hex) over the matrices, brought to the host a few megabytes at a time."""
    digest = hashlib.sha256()
    for weight in weights:
        matrix = weight.matrix()
        digest.update(f"{weight.name} {tuple(matrix.shape)} {matrix.dtype}".encode())
        _add_bytes(digest, matrix)
    return digest.hexdigest()


def hash_model(model: nn.Module) -> str:
    """Returns a SHA-256 (hex) over a model whose weights cannot be reached one by one.

    It takes in the quantisation settings, every parameter's and buffer's name, class, shape and dtype, and the bytes of
    those that lie plainly in memory.
    """
    digest = hashlib.sha256()
    digest.update(str(getattr(getattr(model, "config", None), "quantization_config", None)).encode())
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        digest.update(f"{name} {type(tensor).__name__} {tuple(tensor.shape)} {tensor.dtype}".encode())
        if is_plain(tensor) and tensor.numel():
            _add_bytes(digest, tensor.data.reshape(1, -1) if tensor.dim() < 2 else tensor.data.flatten(1))
    return digest.hexdigest()


def _add_bytes(digest: Any, matrix: torch.Tensor) -> None:
    for rows in torch.split(matrix, max(1, _CHUNK // matrix.shape[1])):
        digest.update(rows.contiguous().view(torch.uint8).cpu().numpy().data)
