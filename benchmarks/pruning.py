"""How much sooner is a model pruned than by llmcompressor and by the published protocol, and is it pruned as well?

    python benchmarks/pruning.py --short                          a look, under 4 minutes
    python benchmarks/pruning.py --heldout PATH/heldout.py --llmcompressor .bench-venv/bin/python

Wanda and SparseGPT at sparsity 0.5, the same calibration rows, float32 weights, one thread of the processor (for CUDA:
gpu_pruning.py); every turn is a process of its own that loads the model, then prunes it once. The sides take turns, so
that a busy machine slows all alike. Ours runs with the forward in the model's dtype and in bfloat16, and once in the
published order for the masks' sake.

--heldout names a Python file whose `rows(tokenizer)` returns calibration rows (n, length) and a dict of held-out rows;
without it both are rows of the built-in text, every other one held out: too few (6 with Gemma) for the bounds of
time and memory, which are judged on 32 x 512 tokens and more. Exit code 1 if the sides do not agree: the sparsity, the
masks (published order) or the perplexity of any held-out set; never for time.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pair import write_results
from perplexity import load_script
from pruning_sides import Side, sides
from pruning_verdicts import PERPLEXITY, SHORT_PERPLEXITY, compare, enough
from sides import checkpoint_of

HERE = Path(__file__).parent
METHODS = ("wanda", "sparsegpt")
SPARSITY = 0.5
GROWTH = (8, 16, 32, 64, 128)
SHORT_GROWTH: tuple[int, ...] = ()
RIVAL_VERSION = "0.14.0.1"
ENVIRONMENT = (
    "llmcompressor was left out: it needs another transformers, hence an environment of its own. Make it with `make "
    ".bench-venv` (python3 -m venv .bench-venv; .bench-venv/bin/pip install torch==2.13.0; .bench-venv/bin/pip install "
    f"llmcompressor=={RIVAL_VERSION}), then add: --llmcompressor .bench-venv/bin/python"
)

TOO_LITTLE = (
    "The bounds of time and memory are for 32 x 512 tokens and are not judged on {} x {}: more text is missing. Name a "
    "Python file whose rows(tokenizer) returns calibration rows (32, 512) and a dict of held-out rows, with --heldout."
)


def write_rows(path: Path, checkpoint: str, heldout: Path | None, short: bool) -> tuple[tuple[int, int], str]:
    """Write calibration and held-out rows to a JSON file; return the calibration's shape, and what it is."""
    from transformers import AutoTokenizer

    from prune_hooks.calibration import load_rows

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    if heldout is not None:
        calibration, held = load_script(heldout).rows(tokenizer)
        source = heldout.name
    else:
        rows = load_rows("builtin", tokenizer).rows
        calibration, held = rows[::2][:32], {"builtin": rows[1::2]}
        source = "the built-in text"
    every = max(1, calibration.shape[0] // 8) if short else 1
    calibration = calibration[::every]
    held = {name: rows[:: 4 if short else 2] for name, rows in held.items()}
    lists = {name: rows.tolist() for name, rows in held.items()}
    path.write_text(json.dumps({"calibration": calibration.tolist(), "heldout": lists}))
    return (len(calibration), calibration.shape[1]), f"{len(calibration)} x {calibration.shape[1]} tokens of {source}"


def growth(job: Any, lengths: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    """Time ours alone on more and more calibration rows (repeated where there are fewer)."""
    lists = json.loads(Path(job.rows).read_text())
    found = []
    for count in lengths:
        rows = (lists["calibration"] * math.ceil(count / len(lists["calibration"])))[:count]
        path = folder / "growth.json"
        path.write_text(json.dumps({"calibration": rows, "heldout": {}}))
        side = Side("ours", [sys.executable, str(HERE / "pruning_ours.py")])
        side.once(replace(job, rows=str(path)), folder)
        turn = side.turns[0]
        found.append({"name": f"{job.method}, growth", "rows": count, **turn.figures()})
        seconds = turn.result["seconds"]["prune"]
        print(f"{job.method}, {count} x {len(rows[0])} tokens: {turn.cpu:.1f} CPU s, {seconds:.1f} s in blocks, "
              f"{turn.memory()}", flush=True)  # fmt: skip
    return found


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of at least 1")
    return int(text)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="8 rows and one turn: little text, a wider limit")
    parser.add_argument("--model", help="checkpoint of a Llama-like model; default: the demo model")
    parser.add_argument("--out", type=Path, help="write the summaries as JSON")
    parser.add_argument("--heldout", type=Path, help="Python file with rows(tokenizer)")
    parser.add_argument("--llmcompressor", metavar="PYTHON", help="python of an environment with llmcompressor")
    parser.add_argument("--rival-batch", type=_count, help="llmcompressor's batch_size; default: 1")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--turns", type=int, help="default: 3, in the short form 1")
    parser.add_argument("--growth", type=int, nargs="*", help="numbers of rows; none: leave the curve out")
    args = parser.parse_args(argv)
    if args.rival_batch is not None and args.llmcompressor is None:
        parser.error(f"--rival-batch {args.rival_batch} is llmcompressor's: it needs --llmcompressor PYTHON")
    args.rival_batch = args.rival_batch or 1
    return args


def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    from pruning_job import Job

    checkpoint = checkpoint_of(args.model)
    if args.llmcompressor is None:
        print(ENVIRONMENT, flush=True)
    else:
        code = "import llmcompressor, transformers; print(llmcompressor.__version__, transformers.__version__)"
        seen = subprocess.run([args.llmcompressor, "-c", code], capture_output=True, text=True, check=False)
        if seen.returncode:
            raise SystemExit(f"--llmcompressor {args.llmcompressor} cannot import it: {seen.stderr.splitlines()[-1:]}")
        versions = seen.stdout.splitlines()[-1].split()
        print(f"llmcompressor {versions[0]}, its transformers {versions[1]}, at batch {args.rival_batch}", flush=True)
    turns = args.turns or (1 if args.short else 3)
    lengths = args.growth if args.growth is not None else (SHORT_GROWTH if args.short else GROWTH)
    results: list[dict[str, Any]] = []
    agree = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = folder / "rows.json"
        shape, said = write_rows(rows, checkpoint, args.heldout, args.short)
        print(f"{said}, sparsity {SPARSITY}, float32, one thread, {turns} turns", flush=True)
        if not args.short and not enough(shape):
            print(TOO_LITTLE.format(*shape), flush=True)
        for method in args.methods:
            job = Job(
                checkpoint, method, SPARSITY, "unstructured", "float32", str(rows), "", rival_batch=args.rival_batch
            )
            here = sides(args.llmcompressor)
            for turn in range(turns):
                for side in here[:: 1 if turn % 2 == 0 else -1]:
                    if side.timed or turn == 0:
                        side.once(job, folder)
            found, sound = compare(method, here, SHORT_PERPLEXITY if args.short else PERPLEXITY, shape)
            results += [{"calibration": said, "rival_batch": args.rival_batch, **one} for one in found]
            agree &= sound
            results += growth(job, lengths, folder)
    write_results(args.out, "pruning", results)
    print("the sides agree" if agree else "the sides do NOT agree: see FAIL and the limits above")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
