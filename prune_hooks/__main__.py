"""Prune a checkpoint without the harness: `python -m prune_hooks MODEL [--out DIR] method=wanda sparsity=0.5 ...`.

Every option of `PruneSpec` is spelled as on `--model_args`, and so are `dtype` and `attn_implementation`. The receipt
is printed; --out saves the pruned model, its tokenizer and the receipt. Exit code 2 for what cannot be done.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prune_hooks.errors import PruneError
from prune_hooks.spec import PruneSpec

LOADING = ("dtype", "attn_implementation")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser("python -m prune_hooks", description=__doc__.split("`")[0])
    parser.add_argument("model", help="folder or hub name")
    parser.add_argument("options", nargs="*", metavar="NAME=VALUE", help="options of PruneSpec, dtype")
    parser.add_argument("--out", type=Path, help="folder to save the pruned model to")
    args = parser.parse_args(argv)
    try:
        spec, loading = _read(args.options)
        if args.out is not None and args.out.exists():
            raise PruneError(f"--out {args.out} is there already: expected a new folder; remove it, or name another")
        print(_prune(args.model, spec, loading, args.out))
    except PruneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _read(options: Sequence[str]) -> tuple[PruneSpec, dict[str, Any]]:
    pairs = [option.partition("=") for option in options]
    wrong = next((name for name, sign, _ in pairs if not sign), None)
    if wrong is not None:
        raise PruneError(f"{wrong!r} is no NAME=VALUE: expected options such as method=wanda sparsity=0.5")
    spec, rest = PruneSpec.from_model_args({name: value for name, _, value in pairs})
    unknown = sorted(rest.keys() - set(LOADING))
    if unknown:
        known = ", ".join([*sorted(PruneSpec.option_names()), *LOADING])
        raise PruneError(f"unknown option {unknown[0]!r}: expected one of {known}")
    return spec, rest


def _prune(source: str, spec: PruneSpec, loading: dict[str, Any], out: Path | None) -> str:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    from prune_hooks.api import prune
    from prune_hooks.structured.files import save_sliced

    try:
        pairs = AutoConfig.from_pretrained(source).is_encoder_decoder
        auto = AutoModelForSeq2SeqLM if pairs else AutoModelForCausalLM
        model, tokenizer = auto.from_pretrained(source, **loading), AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise PruneError(
            f"{source} could not be loaded ({str(error).splitlines()[0]}): expected a folder written by "
            "save_pretrained or a model name on the hub"
        ) from error
    receipt = prune(model, tokenizer, spec)
    if out is not None:
        if receipt.structured is not None and receipt.structured["reload"] == "load_sliced":
            save_sliced(model, out, tokenizer)
        else:
            model.save_pretrained(out)
            tokenizer.save_pretrained(out)
        (out / "receipt.json").write_text(json.dumps(receipt.to_dict(), indent=1) + "\n", encoding="utf-8")
    return receipt.table()


if __name__ == "__main__":
    sys.exit(main())
