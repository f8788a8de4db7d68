"""Multiple choice: `pruned_hf` against stock HFLM, same requests, one thread.

    python benchmarks/scoring.py [--short] [--data ../shared/data] [--model DIR] [--out FILE.json]

Both sides get the very same loglikelihood requests (`lm_eval` instances of a plain task): the passages of 150 to 400
tokens of TyDi QA and XQuAD with --data, else the shipped questions with passages repeated to that length, four near
options each. Stock runs at each of its batch sizes first and then at its best. Checked, exit 1 if it does not hold: the
same option first on every item, log-probabilities within 1e-3 nats (float32). Growth, ours alone: 2 to 16 options of
exactly 4 tokens and (not in the short form) of exactly 8, passages of 128 to 2,048 tokens, items 50 to 800.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pair
import sides
from choices import OPTION_TOKENS, grown, instances, questions

TOLERANCE = 1e-3
GROWTH = {
    "options": (2, 4, 8, 16),
    "long-options": (2, 4, 8, 16),
    "passage": (128, 256, 512, 1024, 2048),
    "items": (50, 100, 200, 400, 800),
}
"""What grows, and through which sizes."""
OPTION_BOUNDS = {"options": 1.6, "long-options": 1.9}
"""Times the seconds of 4 options that 16 may take: printed beside what was seen."""


def worker(options: argparse.Namespace) -> None:
    def prepare() -> Callable[[], dict[str, Any]]:
        lm = sides.load(options.worker, options.model, dtype=options.dtype, batch=options.batch)
        lm.tokenizer.model_max_length = 1 << 30
        if options.grow:
            kind, size = options.grow.split("=")
            asked = grown(lm.tokenizer, options.data, kind, int(size))
        else:
            asked = questions(lm.tokenizer, options.data, options.items)
        requests = instances(asked)
        tokens = sum(len(lm.tok_encode(prompt)) for prompt, _ in asked)

        def run() -> dict[str, Any]:
            scored = lm.loglikelihood(requests, disable_tqdm=True)
            if not getattr(lm, "_shared_prefix", True):
                raise SystemExit("pruned_hf fell back to stock scoring: there is nothing to compare")
            return {"logprobs": [float(one[0]) for one in scored], "prompt_tokens": tokens, "items": len(asked)}

        return run

    pair.serve(prepare)


def agreement(ours: list[float], stock: list[float], options: int) -> tuple[bool, str]:
    """Say whether the option first by log-probability is the same on every item, and the largest difference."""
    gaps = (abs(a - b) for a, b in zip(ours, stock, strict=True))
    worst = max(gaps, key=lambda gap: (gap != gap, gap))  # NaN counts as the largest: a plain max passes it over
    groups = range(0, len(ours), options)
    moved = sum(
        max(range(options), key=lambda k: ours[g + k]) != max(range(options), key=lambda k: stock[g + k])
        for g in groups
    )
    return (
        moved == 0 and worst <= TOLERANCE,
        f"{moved} of {len(groups)} items with another first option, largest difference {worst:.1e} nats",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="few items, one turn")
    parser.add_argument("--data", help="folder with tydiqa/ and xquad/; default: the shipped questions")
    parser.add_argument("--model", help="checkpoint; default: the demo model")
    parser.add_argument("--items", type=int)
    parser.add_argument("--dtype", help="float32,bfloat16: what to compare in, comma-separated")
    parser.add_argument("--turns", type=int, help="timed runs of each side")
    parser.add_argument("--growth", help=f"{','.join(GROWTH)}: what to grow, comma-separated, or none")
    parser.add_argument("--batch", type=int, help="ours; default 8")
    parser.add_argument("--stock-batches", default=None, help="batch sizes among which stock finds its best")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", choices=["ours", "stock"], help=argparse.SUPPRESS)
    parser.add_argument("--grow", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.items = options.items or (8 if options.short else 36)
    options.batch = options.batch or 8
    if options.worker:
        worker(options)
        return 0
    options.model = sides.checkpoint_of(options.model)
    turns = options.turns or (1 if options.short else 3)
    results, agrees = [], True
    for dtype in (options.dtype or ("float32" if options.short else "float32,bfloat16")).split(","):
        summary, same = against_stock(options, dtype, turns)
        agrees &= same or dtype != "float32"  # stock's own bfloat16 scores are rounded to 0.25 nats
        results.append(summary)
    results += growth(options)
    pair.write_results(options.out, "scoring", results)
    return 0 if agrees else 1


def _worker(options: argparse.Namespace, side: str, **changed: Any) -> pair.Worker:
    asked = {
        "model": options.model,
        "data": options.data,
        "items": options.items,
        "dtype": "float32",
        "batch": options.batch,
        **changed,
    }
    return sides.start(__file__, side, asked)


def against_stock(options: argparse.Namespace, dtype: str, turns: int) -> tuple[dict[str, Any], bool]:
    """Let stock find its best batch size on a few items, then take turns at it."""
    sizes = [int(size) for size in (options.stock_batches or ("1" if options.short else "1,4,16")).split(",")]
    tried: dict[int, float] = {}
    for size in sizes if len(sizes) > 1 else ():
        side = _worker(options, "stock", batch=size, items=9, dtype=dtype)
        tried[size] = min(side.once().seconds for _ in range(2))
        side.close()
    best = min(tried, key=tried.__getitem__) if tried else sizes[0]
    ours, stock = _worker(options, "ours", dtype=dtype), _worker(options, "stock", dtype=dtype, batch=best)
    compared = pair.alternate(
        f"multiple choice, 4 options, {dtype}", ours, stock, turns=turns, warm_up=0 if options.short else 1
    )
    ours.close()
    stock.close()
    mine, theirs = compared.ours_turns[0].result, compared.rival_turns[0].result
    same, said = agreement(mine["logprobs"], theirs["logprobs"], 4)
    summary = {
        **compared.summary(),
        "agreement": said,
        "agrees": same,
        "stock_batch": best,
        "items": mine["items"],
    }
    summary["tokens_a_second"] = mine["prompt_tokens"] / summary["ours_seconds"]
    print(pair.line(summary))
    print(
        f"  stock at batch {best} (seconds on 9 items: {tried or 'not tried'}); {said}; "
        f"{summary['tokens_a_second']:.0f} prompt tokens a second"
    )
    if not options.short:
        big_ours, big_stock = (
            _worker(options, "ours", dtype=dtype, batch=16),
            _worker(options, "stock", dtype=dtype, batch=16),
        )
        at_16 = pair.alternate(
            f"multiple choice at batch 16, {dtype}", big_ours, big_stock, turns=1, warm_up=0
        ).summary()
        big_ours.close()
        big_stock.close()
        print(pair.line(at_16))
        summary["at_batch_16"] = at_16
    return summary, same


def growth(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time ours alone on growing requests."""
    asked = options.growth or ("options" if options.short else ",".join(GROWTH))
    unknown = sorted(set(asked.split(",")) - {*GROWTH, "none"})
    if unknown:
        raise SystemExit(f"--growth {', '.join(unknown)}: expected some of {', '.join(GROWTH)}, or none")
    curves = {kind: GROWTH[kind] for kind in asked.split(",") if kind != "none"}
    if options.short:
        curves = {kind: (4, sizes[-1]) if kind in OPTION_TOKENS else sizes[:2] for kind, sizes in curves.items()}
    results = []
    for kind, sizes in curves.items():
        seconds = {}
        for size in sizes:
            side = _worker(options, "ours", grow=f"{kind}={size}")
            turns = [side.once().seconds for _ in range(1 if kind == "items" else 2)]
            seconds[size] = min(turns)
            side.close()
        base = 4 if kind in OPTION_TOKENS else min(sizes)
        ratios = {size: seconds[size] / seconds[base] for size in sizes}
        found: dict[str, Any] = {"name": f"growth with {kind}", "base": base, "ratios": ratios}
        words = f"growth with {kind}"
        if kind in OPTION_TOKENS:
            found |= {"tokens": OPTION_TOKENS[kind], "bound": OPTION_BOUNDS[kind]}
            found["met"] = ratios[max(sizes)] <= found["bound"]
            words += f" of exactly {found['tokens']} tokens"
        words += f", seconds against those of {base}: "
        words += ", ".join(f"{size}: {ratio:.2f}" for size, ratio in ratios.items())
        if kind in OPTION_TOKENS:
            words += f"; bound of {max(sizes)}: {found['bound']} {'met' if found['met'] else 'not met'}"
        print(words, flush=True)
        results.append(found)
    return results


if __name__ == "__main__":
    sys.exit(main())
