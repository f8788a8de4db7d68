"""Every pruning method on one checkpoint and one calibration: held-out perplexity, seconds, peak memory.

    python benchmarks/methods.py CHECKPOINT --heldout PATH/heldout.py --out methods.json

The file given by --heldout is the one `perplexity.py` takes. Slow methods prune only the first --blocks blocks: their
time is extrapolated by the weights they left out, and their perplexity stands in a table of its own beside Wanda and
SparseGPT on the same blocks. Rows already in --out are kept; what failed is tried again. Exit code 1 if a row failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cells import Cell, Row, Table, comma_separated, head, measure_all, table_line
from perplexity import load_script, peak_mb

SETTINGS = ("0.5", "0.6", "0.7", "2:4", "4:8")
DENSE = "none"
WHOLE = (
    "magnitude", "magnitude_global", "wanda", "wanda_variant", "ria", "dsnot", "sparsegpt", "mwanda",
    "wanda+owl", "sparsegpt+owl", "wanda+correlation", "mwanda+correlation",
)  # fmt: skip
"""Unstructured methods, with "+allocation" where it is not uniform; an allocation goes with sparsities alone."""
STRUCTURED = ("block_influence", "heads", "slicegpt", "l0")
"""Methods that remove whole structures: sparsities alone."""
SLOW = ("alps", "obs")
"""Pruned on a few blocks only."""
BESIDE = ("wanda", "sparsegpt")
"""What the slow ones are compared with, on the same blocks."""


def cells(args: argparse.Namespace) -> Iterator[Cell]:
    """Yields what each row measures; the model that is not pruned first."""
    yield _cell(DENSE, "0", None)
    for name in args.methods:
        for setting in args.settings:
            plain = ":" not in setting
            if plain or not (name in STRUCTURED or "+" in name):
                yield _cell(name, setting, None)
    for name in [*args.slow, *(BESIDE if args.slow else ())]:
        for setting in args.settings:
            yield _cell(name, setting, args.blocks)


def _cell(name: str, setting: str, blocks: int | None) -> Cell:
    return {"method": name, "setting": setting, "blocks": blocks}


def row_languages(heldout: Any, rows: Any) -> list[str] | None:
    """Returns the language of each calibration row of the shared heldout.py; None for a file that does not say."""
    known = getattr(heldout, "row_languages", None)
    if known is not None:
        return list(known(rows))
    languages = getattr(heldout, "LANGUAGES", None)
    if languages is None or len(rows) != 10 + 2 * (len(languages) - 1):
        return None
    return [code for code in languages for _ in range(10 if code == "en" else 2)]


def spec_of(cell: Cell, calibration: Any, options: str) -> Any:
    from prune_hooks import PruneSpec

    method, _, allocation = cell["method"].partition("+")
    amount = {"pattern": cell["setting"]} if ":" in cell["setting"] else {"sparsity": float(cell["setting"])}
    return PruneSpec(
        method=method, allocation=allocation or "uniform", method_options=options, calibration=calibration, **amount
    )


def shortened(model: Any, blocks: int) -> tuple[Any, str, Any, float]:
    """Leaves a model its first blocks, so that a method prunes no others.

    Returns:
        The module that holds the blocks, their name in it, all of them, and all weights over those that are left.
    """
    from torch import nn

    from prune_hooks.targets import find_targets

    targets = find_targets(model)
    sizes = [sum(weight.matrix().numel() for weight in block.weights()) for block in targets.blocks]
    path, _, name = targets.blocks[0].stack.rpartition(".")
    owner = model.get_submodule(path)
    every = getattr(owner, name)
    setattr(owner, name, nn.ModuleList(list(every)[:blocks]))
    return owner, name, every, sum(sizes) / sum(sizes[:blocks])


def measure(args: argparse.Namespace, cell: Cell) -> Row:
    """Prunes a fresh copy of the checkpoint and measures it; memory in MB, of the whole process."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from prune_hooks import prune
    from prune_hooks.calibration import label_rows

    torch.set_num_threads(args.threads)
    heldout = load_script(args.heldout)
    tokenizer = AutoTokenizer.from_pretrained(args.checkpoint)
    loading = {"dtype": getattr(torch, args.dtype), "attn_implementation": args.attention}
    model = AutoModelForCausalLM.from_pretrained(args.checkpoint, **loading).eval()
    calibration, held = heldout.rows(tokenizer)
    languages = row_languages(heldout, calibration)
    calibration = calibration if languages is None else label_rows(calibration, languages)
    options = dict(pair.split("=", 1) for pair in args.options)
    spec = spec_of(cell, calibration, options.get(cell["method"], ""))
    loaded, factor, cut = peak_mb(), 1.0, None
    if cell["blocks"]:
        cut = shortened(model, cell["blocks"])
        factor = cut[3]
    cpu, wall = time.process_time(), time.perf_counter()
    receipt = prune(model, tokenizer, spec, progress=False).to_dict()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = peak_mb()
    if cut is not None:
        setattr(cut[0], cut[1], cut[2])
    row = {**cell, "reached": round(receipt["sparsity_reached"], 4), "cpu_s": round(cpu, 1), "wall_s": round(wall, 1)}
    row |= {"whole_s": round(cpu * factor, 1), "peak_mb": peak, "loaded_mb": loaded}
    row |= {f"ppl_{name}": round(heldout.perplexity(model, ids[:: args.every]), 2) for name, ids in held.items()}
    return row


def report(rows: Sequence[Row], settings: Sequence[str]) -> str:
    """Returns the tables: perplexity by method and setting for each held-out set, then what each row took."""
    sets = [name for row in rows if "error" not in row for name in row if name.startswith("ppl_")]
    lines = []
    for name in dict.fromkeys(sets):
        for blocks in dict.fromkeys(row["blocks"] for row in rows if row["method"] != DENSE):
            here = [row for row in rows if row["blocks"] == blocks and row["method"] != DENSE]
            dense = next((row[name] for row in rows if row["method"] == DENSE and name in row), None)
            where = f"the first {blocks} blocks pruned" if blocks else "all blocks pruned"
            title = f"{name.removeprefix('ppl_')}, {where}, dense {dense}"
            lines += ["", title, "", head(["method", *settings])]
            for method in dict.fromkeys(row["method"] for row in here):
                own = {row["setting"]: row.get(name) for row in here if row["method"] == method}
                lines.append(table_line([method, *(own.get(setting) for setting in settings)]))
    columns = ("method", "setting", "blocks", "reached", "cpu_s", "whole_s", "wall_s", "peak_mb", "loaded_mb")
    lines += ["", "what it took (whole_s: CPU seconds for all blocks, extrapolated where only some were pruned)", ""]
    lines.append(head(columns))
    lines += [table_line([row.get(name) for name in columns]) for row in rows if "error" not in row]
    failed = [row for row in rows if "error" in row]
    if failed:
        lines += ["", "failed", ""]
        lines += [f"- {row['method']} {row['setting']}: {row['error']}" for row in failed]
    return "\n".join(lines)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder or hub name")
    parser.add_argument("--heldout", type=Path, required=True, help="Python file with rows() and perplexity()")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of finished rows")
    parser.add_argument(
        "--methods", type=comma_separated, default=[*WHOLE, *STRUCTURED], help="method or method+allocation"
    )
    parser.add_argument("--settings", type=comma_separated, default=list(SETTINGS), help="sparsities and n:m patterns")
    parser.add_argument(
        "--slow", type=comma_separated, default=list(SLOW), help="methods to prune --blocks blocks with"
    )
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument(
        "--options", nargs="*", default=[], metavar="METHOD=OPTIONS", help="by the name in --methods: mwanda=lambda:0.5"
    )
    parser.add_argument("--every", type=int, default=2, help="take every n-th held-out row")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cell", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    args = parse(argv)
    if args.cell is not None:
        print(json.dumps(measure(args, args.cell)))
        return 0
    named = ("checkpoint", "every", "dtype", "attention", "threads", "options")
    made_from = {name: getattr(args, name) for name in named} | {"heldout": args.heldout.name}
    rows = measure_all(Path(__file__), argv, cells(args), Table(args.out, made_from))
    print(report(rows, args.settings))
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
