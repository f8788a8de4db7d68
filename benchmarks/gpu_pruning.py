"""Pruning on an accelerator: is it done there, does it agree with the CPU, how long does it take?

    python benchmarks/gpu_pruning.py                     # CUDA, under 8 minutes
    python benchmarks/gpu_pruning.py --device cpu --tiny  # the same code in seconds

Needs torch, transformers and prune_hooks only; all weights and tokens are random. It checks

* agreement: single layers on the device and on the CPU, from the same statistics: Wanda's masks equal, SparseGPT's to
  99.9 %; from statistics that each side took of the same inputs, 99.9 % for both;
* place: while a model is pruned, fewer bytes go from the host to the device than its smallest weight has, so no weight
  was pruned elsewhere and sent back, and peak device memory stays below the model, one block's activations, its
  statistics and the working copies of its largest weight;

and times every method on random weights of the shape of Gemma 3 270M, and on the first 8 blocks of an 8B Llama.
Exit code 0 if all checks hold, 1 if one does not, 2 if it could not run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from gpu_shapes import Shape, build, gemma, llama, token_rows
from torch.utils._python_dispatch import TorchDispatchMode

from prune_hooks import PruneSpec, method_names, prune
from prune_hooks.masks import row_mask, run_mask
from prune_hooks.methods.sparsegpt import DAMPING, DAMPING_LIMIT, solve
from prune_hooks.scores import wanda_score
from prune_hooks.statistics import Needs, Statistics

MOST_DIFFERING = 0.001
"""Share of a mask that may differ where sums were taken in another order."""

TIMED = [
    ("magnitude", "unstructured", "weight"),
    ("magnitude_global", "unstructured", "weight"),
    ("wanda", "unstructured", "weight"),
    ("wanda", "unstructured", "block"),
    ("wanda", "2:4", "weight"),
    ("sparsegpt", "unstructured", "weight"),
    ("sparsegpt", "2:4", "weight"),
    ("random", "unstructured", "weight"),
]
"""Method, pattern and order of each timing; what is not registered is refused by name."""


@dataclass
class Outcome:
    """What the script found."""

    checks: list[dict[str, Any]] = field(default_factory=list)
    timings: list[dict[str, Any]] = field(default_factory=list)

    def check(self, name: str, observed: Any, limit: Any, passed: bool) -> None:
        """Note one check and print it."""
        self.checks.append({"name": name, "observed": observed, "limit": limit, "passed": passed})
        print(f"{'ok  ' if passed else 'FAIL'} {name}: {observed} (limit {limit})", flush=True)


class Transfers(TorchDispatchMode):
    """Counts the bytes that operators move between host and device."""

    def __init__(self) -> None:
        super().__init__()
        self.to_device = 0
        self.to_host = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.copy_):
            target = args[0] if func.overloadpacket is torch.ops.aten.copy_ else result
            source = args[1] if func.overloadpacket is torch.ops.aten.copy_ else args[0]
            self.note(source, target)
        return result

    def note(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Count one copy if it crosses from host to device or back."""
        size = target.numel() * target.element_size()
        if source.device.type == "cpu" and target.device.type != "cpu":
            self.to_device += size
        elif source.device.type != "cpu" and target.device.type == "cpu":
            self.to_host += size


def differing(left: torch.Tensor, right: torch.Tensor) -> float:
    """Share of places where two masks differ; they may lie on different devices."""
    return (left.cpu() != right.cpu()).float().mean().item()


def check_agreement(outcome: Outcome, device: torch.device, tiny: bool) -> None:
    """Prune single layers on the device and on the CPU."""
    tokens, out, width = (400, 24, 160) if tiny else (8_192, 1_024, 2_048)
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(tokens, width, generator=generator) * (0.1 + 3 * torch.rand(width, generator=generator))
    weight = torch.randn(out, width, generator=generator)
    host, there = (Statistics("layer", width, Needs.HESSIAN, torch.device(d)) for d in ("cpu", device))
    host.update(inputs)
    there.update(inputs.to(device))
    squares, (factor, dead, _) = host.mean_square(), host.inverse_factor(DAMPING, DAMPING_LIMIT)
    far_factor = there.inverse_factor(DAMPING, DAMPING_LIMIT)[0]
    moved = weight.to(device)
    for label, mask, kept in (("0.5", row_mask, None), ("2:4", run_mask, (2, 4))):
        options = (0.5,) if kept is None else kept
        here = mask(wanda_score(weight, squares), *options)
        share = differing(here, mask(wanda_score(moved, squares.to(device)), *options))
        outcome.check(f"wanda {label}, same statistics: share of mask differing", share, 0.0, share == 0.0)
        share = differing(here, mask(wanda_score(moved, there.mean_square()), *options))
        outcome.check(
            f"wanda {label}, own statistics: share of mask differing", share, MOST_DIFFERING, share <= MOST_DIFFERING
        )
        here = solve([weight], factor, dead, 0.5, kept)[0][0] == 0
        for which, u in (("same", factor.to(device)), ("own", far_factor)):
            share = differing(here, solve([moved], u, dead.to(device), 0.5, kept)[0][0] == 0)
            name = f"sparsegpt {label}, {which} statistics: share of mask differing"
            outcome.check(name, share, MOST_DIFFERING, share <= MOST_DIFFERING)


def memory_limit(model: torch.nn.Module, shape: Shape, batch_rows: int, hessian: bool) -> int:
    """Bytes allowed on the device: the model, one block's activations and statistics, one weight's working copies.

    Activations: two hidden states of all rows (a block's inputs and outputs), and for the rows that go through at once
    six more and four of the widest inner activation. Statistics: for each input a float32 Hessian, or its diagonal, and
    for the factorisation of the widest three more. Working copies: of the largest weight six in float32.
    """
    matrices = [p for layer in model.get_submodule("model.layers")[:1] for p in layer.parameters() if p.dim() == 2]
    size = torch.empty((), dtype=shape.dtype).element_size()
    tokens, at_once = shape.rows * shape.length, batch_rows * shape.length
    hidden, widest = shape.config.hidden_size, max(max(p.shape) for p in matrices)
    activations = size * (2 * tokens * hidden + at_once * (6 * hidden + 4 * widest))
    inputs = sorted({p.shape[1] for p in matrices})
    statistics = 4 * sum(2 * width * width if hessian else width for width in inputs)
    statistics += 12 * inputs[-1] ** 2 if hessian else 0
    chunk = 4 * 4 * 8_192 * inputs[-1]  # inputs on their way to float32
    copies = 6 * 4 * max(p.numel() for p in matrices)
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    return parameters + activations + statistics + chunk + copies


def check_place(outcome: Outcome, shape: Shape, device: torch.device, method: str) -> None:
    """Prune a fresh model while counting what crosses between host and device."""
    model, rows = build(shape, device), token_rows(shape)
    with Transfers() as transfers:
        receipt = prune(model, None, PruneSpec(method=method, calibration=rows), progress=False)
    smallest = min(w.shape[0] * w.shape[1] for w in receipt.weights) * model.dtype.itemsize
    limit, moved = smallest + rows.nbytes, transfers.to_device
    outcome.check(f"{shape.name}, {method}: bytes from host to device", moved, limit, moved < limit)


def time_method(
    outcome: Outcome, shape: Shape, device: torch.device, method: str, pattern: str, sequential: str
) -> None:
    """Prune a fresh model; note seconds and memory."""
    model, rows = build(shape, device), token_rows(shape)
    loaded = torch.cuda.memory_allocated(device) if device.type == "cuda" else None
    spec = PruneSpec(method=method, pattern=pattern, sequential=sequential, calibration=rows)
    receipt = prune(model, None, spec, progress=False).to_dict()
    label = f"{shape.name} {str(shape.dtype)[6:]}, {method} {pattern} {sequential}"
    peak = receipt["peak_memory"].get("prune") if loaded is not None else None
    phases = {name: round(seconds, 3) for name, seconds in receipt["seconds"].items()}
    outcome.timings.append({"label": label, "seconds": phases, "model_bytes": loaded, "peak_bytes": peak})
    print(f"     {label}: {phases}", flush=True)
    reached = receipt["sparsity_reached"]
    outcome.check(f"{label}: sparsity", round(reached, 4), "0.5 +- 0.005", abs(reached - 0.5) < 0.005)
    if peak is not None:
        batch_rows = (receipt["calibration"] or {}).get("batch_rows", 0)
        limit = memory_limit(model, shape, batch_rows, hessian=method == "sparsegpt")
        outcome.check(f"{label}: peak device memory (model {loaded})", peak, limit, peak <= limit)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small shapes, for a look at the script itself")
    parser.add_argument("--seconds", type=float, default=420.0, help="start no further timing after this long")
    parser.add_argument("--out", type=Path, help="write all figures to this JSON file")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no CUDA device: expected one, or run with --device cpu --tiny", file=sys.stderr)
        return 2
    unknown = {method for method, _, _ in TIMED} - set(method_names())
    if unknown:
        print(f"methods {sorted(unknown)} are not registered: expected all of {method_names()}", file=sys.stderr)
        return 2
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, transformers {transformers.__version__}", flush=True)
    outcome = Outcome()
    check_agreement(outcome, device, args.tiny)
    for method in ("magnitude", "wanda", "sparsegpt"):
        check_place(outcome, gemma(args.tiny, torch.bfloat16), device, method)
    skipped = []
    for shape in (gemma(args.tiny, torch.float32), gemma(args.tiny, torch.bfloat16), llama(args.tiny)):
        for method, pattern, sequential in TIMED:
            if time.perf_counter() - start > args.seconds:
                skipped.append(f"{shape.name}, {method} {pattern} {sequential}")
                continue
            time_method(outcome, shape, device, method, pattern, sequential)
            if device.type == "cuda":
                torch.cuda.empty_cache()
    for label in skipped:
        print(f"not run, {args.seconds:.0f} s were over: {label}", flush=True)
    failed = [check["name"] for check in outcome.checks if not check["passed"]]
    if args.out:
        report = {"device": name, "torch": torch.__version__, "transformers": transformers.__version__}
        report |= {"checks": outcome.checks, "timings": outcome.timings, "not_run": skipped}
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{len(outcome.checks)} checks, {len(failed)} failed, {time.perf_counter() - start:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
