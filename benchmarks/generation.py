"""Open answers: `pruned_hf` against stock HFLM, same requests, one thread.

    python benchmarks/generation.py [--short] [--data ../shared/data] [--model DIR] [--out FILE.json]

Both sides get the very same `generate_until` requests of a plain task: the questions of TyDi QA with --data, else the
shipped ones; greedy, at most 24 new tokens, stop at the newline, batches of 8. Rows as they come, and in the long form
those of at most 400 tokens alone too: one very long row pads a whole batch of stock's. Checked, exit 1 if it does not
hold: the same texts in float32 at batch size 8, and in bfloat16 at batch size 1 (in bfloat16 a batch's shape moves the
last bits, and with them some answers, of stock's as of ours: how many is said). Growth, ours alone: items 50 to 800.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pair
import sides
from turn import CLOCKS

NEW_TOKENS = 24
UNTIL = ["\n"]
LANGUAGES = {"tydiqa": ("en", "fi", "ru", "ar", "sw", "ko"), "illusion_mini": ("en", "de", "ru", "ar", "sw", "ko")}
GROWTH = (50, 100, 200, 400, 800)


def prompts(data: str | None, count: int) -> list[str]:
    """Return prompts of every language in turn."""
    from lm_eval_illusion.pairs.docs import build

    name = "tydiqa" if data else "illusion_mini"
    columns = [
        [row["prompt"] for row in build(name, language, folder=data, seed=0, count=None).rows]
        for language in LANGUAGES[name]
    ]
    found: list[str] = []
    for number in range(max(map(len, columns))):
        found += [column[number] for column in columns if number < len(column)]
    while len(found) < count:  # the shipped questions are few: told apart by a number before the passage
        found += [f"{len(found) // 100} {prompt}" for prompt in found]
    return found[:count]


def worker(options: argparse.Namespace) -> None:
    from lm_eval.api.instance import Instance

    def prepare() -> Callable[[], dict[str, Any]]:
        lm = sides.load(options.worker, options.model, dtype=options.dtype, batch=options.batch)
        texts = prompts(options.data, 4 * options.items if options.longest else options.items)
        if options.longest:
            texts = [text for text in texts if len(lm.tok_encode(text)) <= options.longest][: options.items]
        arguments = {"until": UNTIL, "do_sample": False, "max_gen_toks": NEW_TOKENS}
        requests = [
            Instance("generate_until", {}, (text, dict(arguments)), 0, metadata=("benchmark", number, 1))
            for number, text in enumerate(texts)
        ]
        lengths = [len(lm.tok_encode(text)) for text in texts]
        lm.generate_until(requests[:1], disable_tqdm=True)

        def run() -> dict[str, Any]:
            answers = lm.generate_until(requests, disable_tqdm=True)
            said = sum(len(lm.tok_encode(answer, add_special_tokens=False)) for answer in answers)
            looped = options.worker == "stock" or not lm._loop_refused
            return {"texts": answers, "prompt_tokens": lengths, "answer_tokens": said, "looped": looped}

        return run

    pair.serve(prepare)


def side_of(options: argparse.Namespace, side: str, **changed: Any) -> pair.Worker:
    asked = {name: getattr(options, name) for name in ("model", "data", "items", "dtype", "batch", "longest")} | changed
    return sides.start(__file__, side, asked)


def against_stock(options: argparse.Namespace, *, turns: int, **changed: Any) -> tuple[dict[str, Any], int]:
    """Return a comparison, and how many texts differ."""
    ours, stock = side_of(options, "ours", **changed), side_of(options, "stock", **changed)
    asked = {name: changed.get(name, getattr(options, name)) for name in ("dtype", "batch", "items")}
    name = f"open answers, {asked['dtype']}, batch {asked['batch']}, {asked['items']} items"
    longest = changed.get("longest", options.longest)
    name += f" of at most {longest} tokens" if longest else ""
    compared = pair.alternate(name, ours, stock, turns=turns, warm_up=0)
    ours.close()
    stock.close()
    mine, theirs = compared.ours_turns[0].result, compared.rival_turns[0].result
    if not mine["looped"]:
        raise SystemExit("the decode loop did not run this model (its log says why): nothing of ours was measured")
    differ = sum(a != b for a, b in zip(mine["texts"], theirs["texts"], strict=True))
    summary = compared.summary()
    summary |= {"texts_that_differ": differ, "items": len(mine["texts"]), "answer_tokens": mine["answer_tokens"]}
    summary |= {"prompt_tokens": [min(mine["prompt_tokens"]), max(mine["prompt_tokens"])]}
    print(f"{pair.line(summary)}; prompts of {summary['prompt_tokens']} tokens, {differ} texts differ", flush=True)
    return summary, differ


def growth(options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for items in GROWTH:
        ours = side_of(options, "ours", items=items)
        turn = ours.once()
        ours.close()
        found.append({"name": f"growth, {items} items", **turn.figures()})
        print(f"{items} items: {turn.seconds / items:.3f} {CLOCKS[turn.clock]} each, {turn.memory()}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="few items, one turn, float32 alone")
    parser.add_argument("--data", help="folder with tydiqa/; default: the shipped questions")
    parser.add_argument("--model", help="checkpoint; default: the demo model")
    parser.add_argument("--items", type=int)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--turns", type=int)
    parser.add_argument("--longest", type=int, help="leave out prompts of more tokens")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", choices=["ours", "stock"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.items = options.items or (24 if options.short else 96)
    if options.worker:
        worker(options)
        return 0
    options.model = sides.checkpoint_of(options.model)
    turns = options.turns or (1 if options.short else 3)
    summary, differ = against_stock(options, turns=turns)
    results, agrees = [summary], differ == 0
    if not options.short:
        even, differ = against_stock(options, turns=turns, longest=400)
        agrees &= differ == 0
        half, _ = against_stock(options, turns=turns, dtype="bfloat16")
        alone, differ = against_stock(options, turns=turns, dtype="bfloat16", batch=1, items=24)
        agrees &= differ == 0
        results += [even, half, alone, *growth(options)]
    pair.write_results(options.out, "generation", results)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
