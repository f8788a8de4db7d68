"""The model card of an exported checkpoint: what it was made from and how, what it holds, how it is loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lm_eval_illusion.report.render.safe import inert, inert_markdown

_KEPT = ("license", "license_name", "license_link", "language", "pipeline_tag")
"""Entries of the base checkpoint's card that hold for the pruned one too."""
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+|[\w.-]+")


def write_card(folder: Path, held: Mapping[str, Any], base: Path | None) -> None:
    """Write README.md.

    Args:
        folder: The exported checkpoint.
        held: What its receipt.json holds.
        base: Folder of the base checkpoint, None for one on the hub.
    """
    pretrained, receipt = str(held["base"]["pretrained"]), held["receipt"]
    head: dict[str, Any] = {"library_name": "transformers", "tags": ["pruned", "sparse", "lm-eval-illusion"]}
    if base is None and _HUB_NAME.fullmatch(pretrained):
        head |= {"base_model": pretrained, "base_model_relation": "finetune"}
    head |= _front_matter(base / "README.md") if base is not None else {}
    shown = inert_markdown(Path(pretrained).name if base is not None else pretrained)
    spec = receipt["spec"]
    title = "dense copy" if spec["method"] == "none" else f"pruned with {inert_markdown(str(spec['method']))}"
    lines = [
        "---",
        yaml.safe_dump(head, allow_unicode=True, sort_keys=False).strip(),
        "---",
        "",
        f"# {shown}, {title}",
        "",
        f"Made by `lm-eval-illusion export` {held['version']} from {shown}"
        + (f", revision {inert_markdown(str(held['base']['revision']))}" if held["base"]["revision"] else "")
        + (", dequantised from GGUF" if held["base"]["gguf_file"] else "")
        + ". The base model's licence and terms of use hold for this one too.",
        "",
        "## Receipt",
        "",
        "```text",
        *_receipt_lines(receipt),
        "```",
        "",
        "`receipt.json` holds all of it: every matrix with its zeros, the calibration text by hash, all versions.",
        "`lm-eval-illusion inspect .` counts the zeros in these files again and compares.",
        "",
        "## Loading",
        "",
        "```python",
        *_call(held["reload"]),
        "```",
        "",
        *_serving(held["reload"], receipt),
        "",
        "Evaluate it, and compare with the dense model item by item:",
        "",
        "```bash",
        "lm-eval-illusion run --model pruned_hf --model_args pretrained=THIS_FOLDER,method=none --tasks illusion_mini",
        "```",
        "",
    ]
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def _front_matter(card: Path) -> dict[str, Any]:
    try:
        found = re.match(r"---\n(.*?)\n---", card.read_text(encoding="utf-8"), re.DOTALL)
        told = yaml.safe_load(found[1]) if found else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return {name: told[name] for name in _KEPT if name in told} if isinstance(told, dict) else {}


def _receipt_lines(receipt: Mapping[str, Any]) -> list[str]:
    spec, calibration = receipt["spec"], receipt["calibration"]
    rows = [
        ("method", f"{spec['method']}, {spec['pattern']}, allocation {spec['allocation']}, seed {spec['prune_seed']}"),
        ("sparsity", f"asked {receipt['sparsity_asked']:.4f}, reached {_share(receipt['sparsity_reached'])} of block "
         f"weights, {_share(receipt['whole_model_sparsity'])} of the whole model"),
        ("coverage", f"{_share(receipt['coverage'])} of block weights, {len(receipt['weights'])} matrices"),
    ]  # fmt: skip
    options = {**spec.get("method_options", {}), **spec.get("allocation_options", {})}
    if options:
        rows.append(("options", " ".join(f"{name}:{value}" for name, value in options.items())))
    if calibration:
        tokens = ", ".join(f"{language} {count}" for language, count in calibration["tokens_per_language"].items())
        size = f"{calibration['rows']} x {calibration['length']} tokens" + (f" ({tokens})" if tokens else "")
        rows.append(("calibration", f"{calibration['source']}: {size}"))
        rows.append(("calibration sha256", str(calibration["digest"])))
    if receipt.get("structured"):
        before, after = receipt["structured"]["block_parameters"]
        rows.append(("removed", f"{before - after} of {before} block parameters"))
    rows += [
        ("dtype", receipt["dtype"]),
        ("spec sha256", receipt["spec_digest"]),
        ("weights sha256", receipt["weights_sha256"]),
        ("versions", ", ".join(f"{name} {version}" for name, version in receipt["versions"].items())),
    ]
    return [inert(f"{label:<19}{text}", 400).replace("`", "'") for label, text in rows]


def _call(reload: str) -> list[str]:
    tokenizer = 'tokenizer = AutoTokenizer.from_pretrained("THIS_FOLDER")'
    if reload == "load_sliced":
        return [
            "from prune_hooks.structured import load_sliced",
            "from transformers import AutoTokenizer",
            "",
            'model = load_sliced("THIS_FOLDER")',
            tokenizer,
        ]
    return [
        "from transformers import AutoModelForCausalLM, AutoTokenizer  # AutoModelForSeq2SeqLM for encoder-decoders",
        "",
        'model = AutoModelForCausalLM.from_pretrained("THIS_FOLDER", dtype="auto")',
        tokenizer,
    ]


def _serving(reload: str, receipt: Mapping[str, Any]) -> list[str]:
    if reload == "load_sliced":
        return [
            "Blocks of this model have shapes that no configuration of transformers describes: `from_pretrained` and "
            "vLLM cannot load it, the call above and `pruned_hf` can."
        ]
    if receipt.get("structured"):
        return ["What was removed is gone from the configuration too, so that this is a smaller, ordinary checkpoint."]
    return [
        "Zeros are stored as zeros: an ordinary checkpoint of the base model's size and speed, which transformers and "
        "vLLM load as any other. Files and memory shrink, and 2:4 kernels are used, only after compressing it (for "
        "example with llmcompressor)."
    ]


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"
