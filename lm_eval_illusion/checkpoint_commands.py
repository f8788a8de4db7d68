"""The commands that read and write checkpoints, `export` and `inspect`; `cli` adds them to the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lm_eval_illusion.model_words import key_values


def export(
    pretrained: Annotated[str, typer.Option("--pretrained", help="Model folder, hub name or GGUF file.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write; new or empty.")],
    method: Annotated[str, typer.Option("--method", help="Pruning method; none saves a dense copy.")] = "wanda",
    sparsity: Annotated[str | None, typer.Option("--sparsity", help="Share of weights to remove (0.5).")] = None,
    pattern: Annotated[str | None, typer.Option("--pattern", help="unstructured, 2:4, 4:8, n:m.")] = None,
    allocation: Annotated[str | None, typer.Option("--allocation", help="How blocks share the sparsity.")] = None,
    calibration: Annotated[str | None, typer.Option("--calibration", help="builtin, c4, mc4 or a path.")] = None,
    calibration_languages: Annotated[
        str | None, typer.Option("--calibration_languages", help="Languages joined with +.")
    ] = None,
    calibration_samples: Annotated[str | None, typer.Option("--calibration_samples", help="Calibration rows.")] = None,
    calibration_length: Annotated[
        str | None, typer.Option("--calibration_length", help="Tokens a calibration row.")
    ] = None,
    calibration_dtype: Annotated[
        str | None, typer.Option("--calibration_dtype", help="model, bfloat16 or float32.")
    ] = None,
    sequential: Annotated[str | None, typer.Option("--sequential", help="weight or block.")] = None,
    prune_seed: Annotated[str | None, typer.Option("--prune_seed", help="Seed of what is random in pruning.")] = None,
    method_options: Annotated[str | None, typer.Option("--method_options", help="name:value joined with +.")] = None,
    allocation_options: Annotated[
        str | None, typer.Option("--allocation_options", help="name:value joined with +.")
    ] = None,
    mask: Annotated[str | None, typer.Option("--mask", help="Mask file, for method mask.")] = None,
    save_mask: Annotated[str | None, typer.Option("--save_mask", help="File to write the mask to as well.")] = None,
    model_args: Annotated[str, typer.Option("--model_args", help="More arguments of the model, key=value,...")] = "",
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:0, mps.")] = None,
    shard_size: Annotated[str, typer.Option("--shard-size", help="Largest file of weights.")] = "5GB",
) -> None:
    """Prune a checkpoint and save it, with tokenizer, model card and receipt, for transformers, vLLM and later runs."""
    given: dict[str, Any] = {
        "method": method,
        "sparsity": sparsity,
        "pattern": pattern,
        "allocation": allocation,
        "calibration": calibration,
        "calibration_languages": calibration_languages,
        "calibration_samples": calibration_samples,
        "calibration_length": calibration_length,
        "calibration_dtype": calibration_dtype,
        "sequential": sequential,
        "prune_seed": prune_seed,
        "method_options": method_options,
        "allocation_options": allocation_options,
        "mask": mask,
        "save_mask": save_mask,
    }
    options = key_values(model_args) | {name: value for name, value in given.items() if value is not None}
    from lm_eval_illusion.harness.export import export_checkpoint

    made = export_checkpoint(pretrained, options, out, device=device, shard_size=shard_size)
    receipt = made.receipt
    reached = "unknown" if receipt["sparsity_reached"] is None else f"{receipt['sparsity_reached']:.4f}"
    print(f"sparsity: {reached} of block weights (asked {receipt['sparsity_asked']:.4f})")
    print(f"weights sha256: {receipt['weights_sha256']}")
    print(f"exported: {made.folder} ({made.reload} loads it: see README.md there)")


def inspect(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Checkpoint folder or file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything, every matrix too, as JSON.")] = False,
) -> None:
    """Say what a checkpoint holds without loading the model: sparsity by block, n:m patterns, format, tied weights."""
    from lm_eval_illusion.harness.inspect import inspect_checkpoint

    found = inspect_checkpoint(checkpoint)
    if as_json:
        print(json.dumps(found.to_dict(), indent=1))
        return
    from lm_eval_illusion.harness.checkpoint.show import text_of

    print(text_of(found))


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module to the command line."""
    app.command()(export)
    app.command()(inspect)
