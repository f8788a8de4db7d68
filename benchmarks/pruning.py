"""How much sooner is a model pruned than by llmcompressor and by the published protocol, and is it pruned as well?

    python benchmarks/pruning.py --short                          a look, under 4 minutes
    python benchmarks/pruning.py --heldout PATH/heldout.py --llmcompressor .bench-venv/bin/python

Wanda and SparseGPT at sparsity 0.5, the same calibration rows, float32 weights, one thread of the processor (for CUDA:
gpu_pruning.py); every turn is a process of its own that loads the model, then prunes it once. The sides take turns, so
that a busy machine slows all alike. Ours runs with the forward in the model's dtype and in bfloat16, and once in the
published order for the masks' sake.

--heldout names a Python file whose `rows(tokenizer)` returns calibration rows (n, length) and a dict of held-out rows;
without it both are rows of the built-in text, every other one held out. Exit code 1 if the sides do not agree: the
sparsity, the masks (published order) or the held-out perplexity; never for time.
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

from pair import Comparison, line, write_results
from perplexity import load_script
from pruning_sides import Side, sides
from sides import checkpoint_of

HERE = Path(__file__).parent
METHODS = ("wanda", "sparsegpt")
SPARSITY = 0.5
BOUNDS = {
    ("wanda", "ours"): 0.55,
    ("sparsegpt", "ours"): 0.65,
    ("wanda", "ours, bfloat16 forward"): 0.35,
    ("sparsegpt", "ours, bfloat16 forward"): 0.55,
}
"""Share of llmcompressor's time that ours may take: printed beside what was seen."""
PERPLEXITY = 1.01
"""Times the rival's held-out perplexity that ours may have; in the short form, on little text, see SHORT_PERPLEXITY."""
SHORT_PERPLEXITY = 1.1
ROUNDING = 3.0
"""Times the share of mask positions in which the published protocol differs from itself, its rows in reverse order,
that ours may differ from it in its own order: float32 sums in another order grow over the blocks, the more the less
text there is, and no fixed share says how far."""
LEAST_ROUNDING = 0.001
"""Share of mask positions that may differ however little the published protocol differs from itself."""
GROWTH = (8, 16, 32, 64, 128)
SHORT_GROWTH: tuple[int, ...] = ()
RIVAL_VERSION = "0.14.0.1"
ENVIRONMENT = (
    "llmcompressor was left out: it needs another transformers, hence an environment of its own. Make it with `make "
    ".bench-venv` (python3 -m venv .bench-venv; .bench-venv/bin/pip install torch==2.13.0; .bench-venv/bin/pip install "
    f"llmcompressor=={RIVAL_VERSION}), then add: --llmcompressor .bench-venv/bin/python"
)


def write_rows(path: Path, checkpoint: str, heldout: Path | None, short: bool) -> str:
    """Write calibration and held-out rows to a JSON file; return what they are."""
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
    return f"{calibration.shape[0]} x {calibration.shape[1]} tokens of {source}"


def differing(left: Path, right: Path) -> float:
    """Return the share of weights that are zero in one result and not in the other."""
    import numpy as np

    return float((np.fromfile(left, bool) != np.fromfile(right, bool)).mean())


def times(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    """Return our perplexity over theirs on each held-out set, and on all as the geometric mean."""
    found = {name: value / theirs["perplexity"][name] for name, value in ours["perplexity"].items()}
    return {**found, "all": math.prod(found.values()) ** (1 / len(found))}


def compare(method: str, here: Sequence[Side], limit: float) -> tuple[list[dict[str, Any]], bool]:
    """Print one method's comparisons; return them, and whether all sides agree."""
    by_name = {side.name: side for side in here}
    summaries, agree = [], True
    rivals = [by_name[name] for name in ("llmcompressor", "the published protocol") if name in by_name]
    mine = [side for side in here if side.timed and side.name.startswith("ours")]
    for side in mine:
        for rival in rivals:
            title = f"{method}{side.name.removeprefix('ours')}"
            summary = Comparison(title, rival.name, tuple(side.turns), tuple(rival.turns)).summary()
            ratios = times(side.judged, rival.judged)
            bounded = rival is rivals[0]
            sound = abs(side.judged["zeros"] - rival.judged["zeros"]) < 1e-3 and (ratios["all"] <= limit or not bounded)
            summary |= {"perplexity": side.judged["perplexity"], "rival_perplexity": rival.judged["perplexity"]}
            summary |= {"perplexity_times": ratios, "agree": sound}
            if rival.name == "llmcompressor":
                summary["bound"] = BOUNDS[method, side.name]
                summary["met"] = 1 / summary["times_sooner"] <= summary["bound"]
                summary["memory_met"] = summary["memory_share"] <= 1
            print(line(summary))
            said = ", ".join(f"{name} {ratio:.4f}" for name, ratio in ratios.items())
            held = f" (limit {limit} on all)" if bounded else ""
            print(f"  held-out perplexity, times the rival's: {said}{held}{'' if sound else ' FAIL'}")
            if "bound" in summary:
                time, memory = ("met" if summary[key] else "not met" for key in ("met", "memory_met"))
                print(f"  bounds for 32 x 512 tokens: {summary['bound']} of its time {time}, no more memory {memory}")
            summaries.append(summary)
            agree &= sound
    for side in mine[1:]:
        ratio = times(side.judged, mine[0].judged)["all"]
        agree &= ratio <= limit
        print(f"  {method}: perplexity {ratio:.4f} times that of the float32 forward (limit {limit})")
    share, sound = same_masks(method, by_name, limit)
    summaries.append({"name": f"{method}, masks in the published order", "differing": share})
    agree &= sound
    return summaries, agree


def same_masks(method: str, by_name: dict[str, Side], limit: float) -> tuple[float, bool]:
    """Print how far ours in the published order is from the published protocol; return the share, and if it may be.

    The perplexities may differ by `limit` times, either way.
    """
    mine, published = by_name["ours, published order"].judged, by_name["the published protocol"].judged
    share = differing(mine["masks"], published["masks"])
    itself = differing(by_name["the published protocol, rows reversed"].judged["masks"], published["masks"])
    allowed = max(ROUNDING * itself, LEAST_ROUNDING)
    ratio = times(mine, published)["all"]
    sound = share <= allowed and 1 / limit <= ratio <= limit
    print(
        f"  {method}: in its order {share:.2%} of the mask differ, {itself:.2%} between the published protocol "
        f"and itself with its rows reversed (limit {allowed:.2%}); perplexity {ratio:.4f} times its own"
        f"{'' if sound else ' FAIL'}"
    )
    return share, sound


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


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="8 rows and one turn: little text, a wider limit")
    parser.add_argument("--model", help="checkpoint of a Llama-like model; default: the demo model")
    parser.add_argument("--out", type=Path, help="write the summaries as JSON")
    parser.add_argument("--heldout", type=Path, help="Python file with rows(tokenizer)")
    parser.add_argument("--llmcompressor", metavar="PYTHON", help="python of an environment with llmcompressor")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--turns", type=int, help="default: 3, in the short form 1")
    parser.add_argument("--growth", type=int, nargs="*", help="numbers of rows; none: leave the curve out")
    return parser.parse_args(argv)


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
        print("llmcompressor {}, its transformers {}".format(*seen.stdout.splitlines()[-1].split()), flush=True)
    turns = args.turns or (1 if args.short else 3)
    lengths = args.growth if args.growth is not None else (SHORT_GROWTH if args.short else GROWTH)
    results: list[dict[str, Any]] = []
    agree = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = folder / "rows.json"
        said = write_rows(rows, checkpoint, args.heldout, args.short)
        print(f"{said}, sparsity {SPARSITY}, float32, one thread, {turns} turns", flush=True)
        for method in args.methods:
            job = Job(checkpoint, method, SPARSITY, "unstructured", "float32", str(rows), masks="")
            here = sides(args.llmcompressor)
            for turn in range(turns):
                for side in here[:: 1 if turn % 2 == 0 else -1]:
                    if side.timed or turn == 0:
                        side.once(job, folder)
            found, sound = compare(method, here, SHORT_PERPLEXITY if args.short else PERPLEXITY)
            results += [{"calibration": said, **one} for one in found]
            agree &= sound
            results += growth(job, lengths, folder)
    write_results(args.out, "pruning", results)
    print("the sides agree" if agree else "the sides do NOT agree: see FAIL and the limits above")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
