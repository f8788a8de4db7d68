"""Which lambda and sign suit mwanda, and which languages should a model be calibrated on?

    python benchmarks/mwanda_study.py choose CHECKPOINT --data DIR/xquad --out choose.json
    python benchmarks/mwanda_study.py calibrate CHECKPOINT --data DIR/xquad --out calibrate.json \
        --targets ar,hi,ru,th --sweeps sweeps --harness-data DIR

--data is a folder of texts by language, as `calibration=PATH` takes it (XQuAD: xquad.LANGUAGE.json). The first half of
each language's documents is calibration text. The second half is held out: every other row to choose by, the rest to
report, so that what is reported was not chosen on. All languages of the folder are judged, at least 8.

`choose` prunes with lambda x g x allocation (uniform; correlation with either sign) and names the setting of the lowest
geometric mean over languages of the perplexity on the rows to choose by.

`calibrate` prunes with each target language, English, all languages alike and all by pre-training share as calibration,
and lists the perplexity of every language; --sweeps writes one SWEEP.yaml for each calibration and prints the commands
that measure both task halves. Rows already in --out are kept; what failed is tried again. Exit code 1 if a row failed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cells import Cell, Row, Table, comma_separated, head, measure_all, table_line
from texts import halves, heldout_rows, write_calibration

LENGTH = 512
ALLOCATIONS = {
    "uniform": {},
    "correlation, agreeing blocks denser": {"allocation": "correlation", "allocation_options": {"sign": "plus"}},
    "correlation, differing blocks denser": {"allocation": "correlation", "allocation_options": {"sign": "minus"}},
}


# --- cells


SEVERAL = ("all", "mbs")
"""Calibrations of more than one language."""


def choices(args: argparse.Namespace) -> Iterator[Cell]:
    """Yields what `choose` measures; lambda 0 with g 0 is Wanda."""
    for sparsity in args.sparsity:
        for allocation in ALLOCATIONS:
            for g in args.g:
                for lam in args.lambdas:
                    yield {"sparsity": sparsity, "allocation": allocation, "g": g, "lambda": lam}


def calibrations(args: argparse.Namespace) -> Iterator[Cell]:
    """Yields what `calibrate` measures; mwanda only where there is more than one language, as it needs them."""
    for sparsity in args.sparsity:
        for method in args.methods:
            for name in (*args.targets, *(["en"] if "en" not in args.targets else []), "all", "mbs"):
                if method != "mwanda" or name in SEVERAL:
                    yield {"sparsity": sparsity, "method": method, "calibration": name}


def options_of(cell: Cell, args: argparse.Namespace, languages: Sequence[str]) -> dict[str, Any]:
    """Returns the options of PruneSpec for a cell."""
    options: dict[str, Any] = {"sparsity": cell["sparsity"]}
    if "lambda" in cell:
        options |= {"method": "mwanda", "method_options": {"lambda": cell["lambda"], "g": cell["g"]}}
        return options | ALLOCATIONS[cell["allocation"]] | {"calibration_languages": tuple(languages)}
    named = {"all": tuple(languages), "mbs": ("mbs",)}.get(cell["calibration"], (cell["calibration"],))
    method = {"method": cell["method"], "calibration_languages": named}
    return options | method | ({"method_options": args.options} if cell["method"] == "mwanda" else {})


def measure(args: argparse.Namespace, cell: Cell) -> Row:
    """Prunes a fresh copy of the checkpoint; returns perplexities by language, on rows to choose by and to report."""
    import torch
    from pruning_job import perplexity
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from prune_hooks import PruneSpec, prune

    torch.set_num_threads(args.threads)
    tokenizer = AutoTokenizer.from_pretrained(args.checkpoint)
    model = AutoModelForCausalLM.from_pretrained(args.checkpoint, dtype=getattr(torch, args.dtype)).eval()
    texts, held = halves(args.data)
    with tempfile.TemporaryDirectory() as scratch:
        spec = PruneSpec(
            calibration=str(write_calibration(texts, Path(scratch) / "calibration")),
            calibration_samples=args.samples,
            calibration_length=args.length,
            **options_of(cell, args, list(texts)),
        )
        receipt = prune(model, tokenizer, spec, progress=False).to_dict()
    rows = heldout_rows(held, tokenizer, args.rows, args.length)
    row = {**cell, "tokens": receipt["calibration"]["tokens_per_language"], "seconds": receipt["seconds"]["prune"]}
    with torch.no_grad():
        row["choose"] = {code: perplexity(model, ids[::2]) for code, ids in rows.items()}
        return row | {"report": {code: perplexity(model, ids[1::2]) for code, ids in rows.items()}}


# --- reports


def mean(values: dict[str, float]) -> float:
    """Returns the geometric mean over languages."""
    return math.exp(sum(math.log(value) for value in values.values()) / len(values))


def report_choice(rows: Sequence[Row]) -> str:
    """Returns a table of all settings, and the one chosen for each sparsity with its perplexities beside Wanda's."""
    lines = [head(["sparsity", "allocation", "g", "lambda", "to choose by", "to report"])]
    for row in rows:
        values = [row[name] for name in ("sparsity", "allocation", "g", "lambda")]
        lines.append(table_line([*values, f"{mean(row['choose']):.3f}", f"{mean(row['report']):.3f}"]))
    for sparsity in dict.fromkeys(row["sparsity"] for row in rows):
        here = [row for row in rows if row["sparsity"] == sparsity]
        best = min(here, key=lambda row: mean(row["choose"]))
        plain = next(
            (row for row in here if not row["lambda"] and not row["g"] and row["allocation"] == "uniform"), None
        )
        lines += ["", f"at {sparsity}: lambda {best['lambda']}, g {best['g']}, allocation {best['allocation']}"]
        if plain is not None:
            times = mean(best["report"]) / mean(plain["report"])
            lines += [f"on the rows to report: {times:.4f} times Wanda's perplexity", ""]
            lines.append(head(["", *best["report"]]))
            for name, row in (("chosen", best), ("wanda", plain)):
                lines.append(table_line([name, *(f"{value:.2f}" for value in row["report"].values())]))
    return "\n".join(lines)


def report_calibrations(rows: Sequence[Row]) -> str:
    """Returns a table of every language's perplexity (all held-out rows) under every calibration."""
    languages = list(rows[0]["report"])
    lines = [head(["sparsity", "method", "calibration", *languages, "mean"])]
    for row in rows:
        both = {code: math.sqrt(row["choose"][code] * row["report"][code]) for code in languages}
        values = [f"{both[code]:.2f}" for code in languages]
        lines.append(table_line([row["sparsity"], row["method"], row["calibration"], *values, f"{mean(both):.2f}"]))
    return "\n".join(lines)


def mwanda_options(args: argparse.Namespace) -> dict[str, Any]:
    """Returns --options as read; refuses what mwanda does not know, and options that would go to no mwanda."""
    from prune_hooks import PruneError, PruneSpec
    from prune_hooks.foresight import check_spec

    if args.options and (args.study != "calibrate" or "mwanda" not in args.methods):
        raise SystemExit(
            f"--options {args.options}: these are mwanda's in `calibrate`, which {args.study} of "
            f"{', '.join(args.methods)} does not ask: leave it out, or add mwanda to --methods"
        )
    try:
        spec = PruneSpec(method="mwanda", method_options=args.options)
        check_spec(spec)
    except PruneError as error:
        raise SystemExit(f"--options {args.options}: {error}") from error
    return dict(spec.method_options)


def write_sweeps(args: argparse.Namespace) -> str:
    """Writes one SWEEP.yaml for each calibration; returns the commands that run them."""
    import yaml

    texts, _ = halves(args.data)
    folder = write_calibration(texts, args.sweeps / "calibration")
    lines = []
    for name in dict.fromkeys(cell["calibration"] for cell in calibrations(args)):
        languages = {"all": list(texts), "mbs": ["mbs"]}.get(name, [name])
        sweep: dict[str, Any] = {
            "models": [args.checkpoint],
            "methods": [method for method in args.methods if method != "mwanda" or name in SEVERAL],
            "sparsities": list(args.sparsity),
            "tasks": [f"{args.task}_{code}" for code in dict.fromkeys(("en", *args.targets))],
            "items": args.items,
            "calibration": str(folder),
            "calibration_languages": languages,
            "calibration_samples": args.samples,
            "calibration_length": args.length,
            "model_args": {"dtype": args.dtype},
        }
        if args.options:
            sweep["method_options"] = {"mwanda": mwanda_options(args)}
        path = args.sweeps / f"{name}.yaml"
        path.write_text(yaml.safe_dump(sweep, sort_keys=False), encoding="utf-8")
        data = f" --data {args.harness_data}" if args.harness_data else ""
        lines.append(f"lm-eval-illusion sweep {path} --out {args.sweeps / name}{data}")
    return "\n".join(lines)


# --- the command


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    def numbers(text: str) -> list[float]:
        return [float(word) for word in comma_separated(text)]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["choose", "calibrate"])
    parser.add_argument("checkpoint", help="folder or hub name")
    parser.add_argument("--data", type=Path, required=True, help="folder of texts by language")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of finished rows")
    parser.add_argument("--sparsity", type=numbers, default=[0.5])
    parser.add_argument("--lambdas", type=numbers, default=[0.0, 0.25, 0.5, 1.0, 2.0, -0.5])
    parser.add_argument("--g", type=numbers, default=[0.0])
    parser.add_argument(
        "--methods", type=comma_separated, default=["wanda", "mwanda"], help="calibrate: methods to compare"
    )
    parser.add_argument("--options", default="", help="calibrate: method_options of mwanda, such as lambda:0.5")
    parser.add_argument("--targets", type=comma_separated, default=["ar", "hi", "ru", "th"])
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--length", type=int, default=LENGTH)
    parser.add_argument("--rows", type=int, default=8, help="held-out rows a language")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sweeps", type=Path, help="calibrate: folder for SWEEP.yaml files")
    parser.add_argument("--task", default="xquad", help="calibrate: data set of the sweeps")
    parser.add_argument("--items", type=int, default=50, help="calibrate: items a language in the sweeps")
    parser.add_argument("--harness-data", help="calibrate: --data of the sweeps, a folder with tydiqa/ and xquad/")
    parser.add_argument("--cell", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    args = parse(argv)
    if args.cell is not None:
        print(json.dumps(measure(args, args.cell)))
        return 0
    mwanda_options(args)
    texts, _ = halves(args.data)
    missing = [code for code in (*args.targets, "en") if code not in texts]
    if args.study == "calibrate" and missing:
        raise SystemExit(f"--data {args.data} has no text in {', '.join(missing)}: it has {', '.join(texts)}")
    named = ("checkpoint", "samples", "length", "rows", "dtype", "threads", "options")
    made_from = {name: getattr(args, name) for name in named} | {"data": args.data.name, "study": args.study}
    asked = list(choices(args) if args.study == "choose" else calibrations(args))
    rows = measure_all(Path(__file__), argv, asked, Table(args.out, made_from))
    sound = [row for row in rows if "error" not in row]
    if sound:
        print(report_choice(sound) if args.study == "choose" else report_calibrations(sound))
    for row in rows:
        if "error" in row:
            print(f"failed: {', '.join(f'{k} {v}' for k, v in row.items())}")
    if args.study == "calibrate" and args.sweeps is not None:
        print("\nthe task halves, by\n")
        print(write_sweeps(args))
    return 1 if len(sound) < len(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
