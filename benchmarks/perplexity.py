"""Held-out perplexity of a checkpoint under each pruning method, with the seconds and memory that pruning took.

    python benchmarks/perplexity.py CHECKPOINT --heldout PATH/heldout.py --methods none,wanda

The file given by --heldout makes the rows and the measure, so that every tool can be compared on the same ones: `rows(
tokenizer)` returns calibration rows (n, length) and a dict of held-out rows, `perplexity(model, rows)` a number. Each
line of the table is measured in a process of its own, on one thread unless --threads says otherwise.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from cells import comma_separated, table_line

COLUMNS = ("method", "sparsity", "pattern", "sequential", "reached", "cpu_s", "wall_s", "peak_mb", "loaded_mb")
UNPRUNED = "none"


def load_script(path: Path) -> ModuleType:
    """Import a Python file by its path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise SystemExit(f"--heldout {path} is no Python file: give the path of heldout.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what each line of the table measures; a model that is not pruned is measured once."""
    settings = [{"sparsity": float(s), "pattern": "unstructured"} for s in args.sparsity]
    settings += [{"sparsity": None, "pattern": pattern} for pattern in args.patterns]
    seen_dense = False
    for method, setting, sequential in itertools.product(args.methods, settings, args.sequential):
        if method == UNPRUNED:
            if not seen_dense:
                yield {"method": method, "sparsity": 0.0, "pattern": "unstructured", "sequential": "weight"}
            seen_dense = True
        elif not (method.startswith("magnitude") and sequential != args.sequential[0]):
            yield {"method": method, **setting, "sequential": sequential}


def measure(args: argparse.Namespace, cell: dict[str, Any]) -> dict[str, Any]:
    """Prune a fresh copy of the checkpoint and measure it; memory in MB, of the whole process."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from prune_hooks import PruneSpec, prune

    torch.set_num_threads(args.threads)
    heldout = load_script(args.heldout)
    tokenizer = AutoTokenizer.from_pretrained(args.checkpoint)
    options = {"dtype": getattr(torch, args.dtype), "attn_implementation": args.attention}
    model = AutoModelForCausalLM.from_pretrained(args.checkpoint, **options).eval()
    calibration, held = heldout.rows(tokenizer)
    loaded = peak_mb()
    spec = PruneSpec(**cell, calibration=calibration)
    cpu, wall = time.process_time(), time.perf_counter()
    receipt = prune(model, tokenizer, spec, progress=False).to_dict()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    row: dict[str, Any] = {**cell, "sparsity": spec.sparsity, "reached": round(receipt["sparsity_reached"], 4)}
    row |= {"cpu_s": round(cpu, 1), "wall_s": round(wall, 1), "peak_mb": peak_mb(), "loaded_mb": loaded}
    row |= {f"ppl_{name}": round(heldout.perplexity(model, ids[:: args.every]), 2) for name, ids in held.items()}
    return row


def peak_mb() -> int:
    """Return the peak resident memory of this process so far (Linux), in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def in_own_process(argv: Sequence[str], cell: dict[str, Any]) -> dict[str, Any]:
    """Run one cell in a new process and return its row."""
    command = [sys.executable, __file__, *argv, "--cell", json.dumps(cell)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{cell} failed with exit code {done.returncode}: see the message above")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder or hub name")
    parser.add_argument("--heldout", type=Path, required=True, help="Python file with rows() and perplexity()")
    parser.add_argument("--methods", type=comma_separated, default=[UNPRUNED, "magnitude", "wanda", "sparsegpt"])
    parser.add_argument("--sparsity", type=comma_separated, default=["0.5"], help="shares, joined with commas")
    parser.add_argument("--patterns", type=comma_separated, default=[], help="n:m patterns beside, joined with commas")
    parser.add_argument("--sequential", type=comma_separated, default=["block", "weight"])
    parser.add_argument("--every", type=int, default=2, help="take every n-th held-out row")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument(
        "--attention", default="sdpa", help="sdpa, or eager: last bits differ, and with them some masks"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cell", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    args = parse(argv)
    if args.cell is not None:
        print(json.dumps(measure(args, args.cell)))
        return 0
    header: list[str] = []
    for cell in cells(args):
        row = in_own_process(argv, cell)
        if not header:
            header = [*COLUMNS, *(name for name in row if name.startswith("ppl_"))]
            print(table_line(header), table_line(["---"] * len(header)), sep="\n", flush=True)
        print(table_line([row[name] for name in header]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
