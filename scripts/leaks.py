"""Measure what options give away: accuracy from the choices alone, and from question and choices, without passage.

python scripts/leaks.py MODEL illusion_mini --items 24
python scripts/leaks.py MODEL tydiqa --languages en sw te --items 60 --data FOLDER

MODEL is a checkpoint folder or hub name. Near chance (0.25) is good; log-probabilities are compared per character.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lm_eval_illusion.pairs.catalogue import dataset_named
from lm_eval_illusion.pairs.docs import build
from lm_eval_illusion.pairs.prompts import delimiter_of, labels_of
from lm_eval_illusion.pairs.results import best

Row = dict[str, Any]


@torch.no_grad()
def score(model: Any, tokenizer: Any, context: str, options: Sequence[str]) -> list[float]:
    """Return the log-probability (nats) of each option after a context; all follow a BOS token if there is one.

    One right-padded batch: later positions cannot reach earlier ones in a causal model.
    """
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    first = max(len(start + tokenizer(context, add_special_tokens=False).input_ids), 1)
    rows = [start + tokenizer(context + option, add_special_tokens=False).input_ids for option in options]
    width = max(map(len, rows))
    batch = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    logits = model(batch, logits_to_keep=width - first + 1).logits[:, :-1].float().log_softmax(-1)
    said = logits.gather(2, batch[:, first:, None])[..., 0]
    return [float(line[: len(row) - first].sum()) for line, row in zip(said, rows, strict=True)]


def accuracies(model: Any, tokenizer: Any, rows: Sequence[Row], *, question: bool) -> tuple[float, float]:
    """Return the shares of rows whose near and far gold score highest per character without the passage, 0 to 1."""
    right = {"near": 0, "far": 0}
    for row in rows:
        labels, space = labels_of(row["language"]), delimiter_of(row["language"])
        context = f"{labels.question}{space}{row['question']}\n{labels.answer}" if question else ""
        options = [*row["choices_near"], *row["choices_far"]]
        scores = score(model, tokenizer, context, [space + option for option in options])
        by_char = [value / len(option) for value, option in zip(scores, options, strict=True)]
        right["near"] += best(by_char[:4]) == row["gold_near"]
        right["far"] += best(by_char[4:]) == row["gold_far"]
    return right["near"] / len(rows), right["far"] / len(rows)


def longest_share(rows: Sequence[Row], distance: str) -> float:
    """Return the share of rows whose gold has the most characters (ties split), 0 to 1."""
    total = 0.0
    for row in rows:
        lengths = [len(option) for option in row[f"choices_{distance}"]]
        gold = lengths[row[f"gold_{distance}"]]
        total += (gold == max(lengths)) / lengths.count(max(lengths))
    return total / len(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Print one Markdown row a language."""
    parser = argparse.ArgumentParser(description="Measure what the options give away without the passage.")
    parser.add_argument("model", help="checkpoint folder or hub name")
    parser.add_argument("dataset", help="tydiqa, xquad or illusion_mini")
    parser.add_argument("--languages", nargs="*", default=[], help="codes; all by default")
    parser.add_argument("--items", type=int, default=24, help="items a language")
    parser.add_argument("--data", default=None, help="folder with tydiqa/ and xquad/")
    asked = parser.parse_args(argv)
    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    model = AutoModelForCausalLM.from_pretrained(asked.model, dtype=torch.float32).eval()
    print("| language | n | choices only near | far | question only near | far | gold longest near | far |")
    print("|---|---|---|---|---|---|---|---|")
    for language in asked.languages or dataset_named(asked.dataset).languages:
        rows = build(asked.dataset, language, folder=asked.data, count=asked.items).rows
        cells = [a for q in (False, True) for a in accuracies(model, tokenizer, rows, question=q)]
        cells += [longest_share(rows, distance) for distance in ("near", "far")]
        print(f"| {language} | {len(rows)} | {' | '.join(f'{cell:.2f}' for cell in cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
