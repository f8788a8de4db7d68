"""Beams, samples and ranks: `pruned_hf` against transformers' own `generate`, same prompts, one thread.

    python benchmarks/probes.py [--short] [--data ../shared/data] [--model DIR] [--out FILE.json]

Of each question ours asks beams of 4 and 8, 8 samples, and the greedy answer with the gold's ranks; the rival calls
`generate` four times: 4 beams, 8 beams, 8 samples, greedy, each ending at a newline. The questions are those of XQuAD
with --data, else the shipped ones. Checked, exit 1 if it does not hold: the same greedy answers in float32, and that
ours went on in one sequence under a mask. How many best hypotheses are the same is told alone: transformers keeps what
ends in two ways apart, and lets a newline before the answer end it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pair
import sides

CONDITIONS = ("beam4", "beam8", "sample", "rank")
LANGUAGES = {"xquad": ("en", "de", "zh", "hi"), "illusion_mini": ("en", "de", "zh", "hi")}


def rows_of(condition: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows of one condition, of every language in turn."""
    from lm_eval_illusion.pairs.tables import keep_sampled, load

    name = "xquad" if options.data else "illusion_mini"
    told = {"illusion_items_per_language": -(-options.items // len(LANGUAGES[name]))}
    told |= {"illusion_data": options.data} if options.data else {}
    columns = []
    for language in LANGUAGES[name]:
        (table,) = load(pairs_dataset=name, pairs_language=language, pairs_condition=condition, **told).values()
        columns.append(list(keep_sampled(table)))
    return [row for rows in zip(*columns, strict=True) for row in rows][: options.items]


def prepare_ours(options: argparse.Namespace) -> Callable[[], dict[str, Any]]:
    from lm_eval.api.instance import Instance

    lm = sides.load("ours", options.model, dtype=options.dtype, batch=8)
    requests = [
        Instance(
            "generate_until",
            row,
            (row["prompt"], {"until": [], "do_sample": False, "max_gen_toks": row["max_gen_toks"]}),
            0,
            metadata=("benchmark", number, 1),
        )
        for condition in CONDITIONS
        for number, row in enumerate(rows_of(condition, options))
    ]
    lm.generate_until(requests[:1], disable_tqdm=True)  # the trial of the tree is a run's, not a prompt's

    def run() -> dict[str, Any]:
        answers = lm.generate_until(requests, disable_tqdm=True)
        groups = [answers[start : start + options.items] for start in range(0, len(answers), options.items)]
        said = {name: [str(one).strip() for one in group] for name, group in zip(CONDITIONS, groups, strict=True)}
        return {"said": said, "way": lm._ways.left[0]}

    return run


def prepare_stock(options: argparse.Namespace) -> Callable[[], dict[str, Any]]:
    import torch

    lm = sides.load("stock", options.model, dtype=options.dtype, batch=8)
    rows = rows_of("sample", options)
    asked = {
        "beam4": {"num_beams": 4, "num_return_sequences": 4, "do_sample": False},
        "beam8": {"num_beams": 8, "num_return_sequences": 8, "do_sample": False},
        "sample": {"do_sample": True, "num_return_sequences": 8, "top_k": 0},
        "rank": {"do_sample": False},
    }

    def run() -> dict[str, Any]:
        said: dict[str, list[str]] = {name: [] for name in CONDITIONS}
        for row in rows:
            ids = torch.tensor([lm.tok_encode(row["prompt"])], device=lm.device)
            for name, how in asked.items():
                drawn = {"temperature": row["temperature"], "top_p": row["top_p"]} if name == "sample" else {}
                with torch.no_grad():
                    made = lm.model.generate(
                        ids,
                        attention_mask=torch.ones_like(ids),
                        max_new_tokens=row["max_gen_toks"],
                        stop_strings=["\n"],
                        tokenizer=lm.tokenizer,
                        pad_token_id=lm.tokenizer.pad_token_id,
                        **how,
                        **drawn,
                    )
                said[name].append(lm.tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True).strip())
        return {"said": said, "way": None}

    return run


def against_generate(options: argparse.Namespace, *, turns: int, dtype: str) -> tuple[dict[str, Any], bool]:
    """Return a comparison, and whether the answers agree."""
    asked = {"model": options.model, "data": options.data, "items": options.items, "dtype": dtype}
    ours, stock = (sides.start(__file__, side, asked) for side in ("ours", "stock"))
    compared = pair.alternate(f"probes, {dtype}, {options.items} items", ours, stock, turns=turns, warm_up=0)
    ours.close()
    stock.close()
    mine, theirs = compared.ours_turns[0].result, compared.rival_turns[0].result
    same = {
        name: sum(a == b for a, b in zip(mine["said"][name], theirs["said"][name], strict=True))
        for name in ("rank", "beam4", "beam8")
    }
    summary = {**compared.summary(), "rival": "transformers' generate", "same_answers": same, "way": mine["way"]}
    print(f"{pair.line(summary)}; the same answers of {options.items}: {same}; way: {mine['way']}", flush=True)
    return summary, same["rank"] == options.items and mine["way"] == "tree"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="few items, one turn, float32 alone")
    parser.add_argument("--data", help="folder with xquad/; default: the shipped questions")
    parser.add_argument("--model", help="checkpoint; default: the demo model")
    parser.add_argument("--items", type=int)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--turns", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", choices=["ours", "stock"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.items = options.items or (2 if options.short else 16)
    if options.worker:
        pair.serve(lambda: (prepare_ours if options.worker == "ours" else prepare_stock)(options))
        return 0
    options.model = sides.checkpoint_of(options.model)
    turns = options.turns or (1 if options.short else 3)
    summary, agrees = against_generate(options, turns=turns, dtype=options.dtype)
    results = [summary]
    if not options.short:
        half, _ = against_generate(options, turns=turns, dtype="bfloat16")
        results.append(half)
    pair.write_results(options.out, "probes", results)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
