"""`export`: prune a model just as a run does, and save it so that transformers, vLLM and later runs load it.

The model is made by `pruned_hf` itself, so that what is saved is what a run with the same options would have asked.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_illusion import __version__
from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.folders import make_folder
from lm_eval_illusion.harness.exported import KIND, RECEIPT_FILE, SCHEMA

ALONGSIDE = (
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "LICENSE",
    "LICENSE.txt",
    "LICENSE.md",
    "NOTICE",
    "NOTICE.txt",
    "USE_POLICY.md",
)
"""Files of the base checkpoint that are copied as they are, where it has them."""
CARD = "README.md"
FROM_PRETRAINED, LOAD_SLICED = "from_pretrained", "load_sliced"


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    receipt: dict[str, Any]
    reload: str
    """"from_pretrained" or "load_sliced"."""


ANY_DEVICE = "cuda:0"
"""What the harness's own command line asks for where nothing is said: the first GPU, or the CPU where there is none."""


def export_checkpoint(
    pretrained: str, options: Mapping[str, Any], out: Path, *, device: str | None = None, shard_size: str = "5GB"
) -> Exported:
    """Prune a checkpoint and save it.

    Args:
        pretrained: Folder or hub name, or a GGUF file, which is dequantised.
        options: `--model_args` besides: method, sparsity, ..., dtype, revision, ...
        out: Folder to write; must not hold anything yet.
        device: Where to prune; None leaves the choice to the harness.
        shard_size: Largest file of weights, as transformers writes sizes ("5GB").

    Raises:
        IllusionError: If the folder is in the way, the options cannot be, or what was written is not what was pruned.
        PruneError: For pruning options or weights that cannot be.
    """
    from lm_eval_illusion.harness.options import check_known
    from prune_hooks import PruneSpec
    from prune_hooks.foresight import check_spec

    spec, rest = PruneSpec.from_model_args(options)
    check_spec(spec)
    check_known(rest, PruneSpec.option_names())
    _require_alone()
    _require_free(out)
    arguments = {"device": ANY_DEVICE, **options, **_source(pretrained)}
    if device is not None:
        arguments["device"] = device
    make_folder(out.parent)
    scratch = out.parent / f".{out.name}.export-{os.getpid()}"
    scratch.mkdir()
    try:
        made = _write(arguments, pretrained, scratch, shard_size)
        if out.is_dir():
            out.rmdir()
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Exported(out, *made)


def _require_alone() -> None:
    count = os.environ.get("WORLD_SIZE", "1")
    if count != "1":
        raise IllusionError(
            f"export was started in {count} processes, which would write over each other; expected one: start it "
            "without torchrun or accelerate launch (model_args parallelize=True spreads a model over several devices)"
        )


def _require_free(out: Path) -> None:
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        kind = "a folder with files in it" if out.is_dir() else "a file"
        raise IllusionError(f"--out {out}: is {kind}; expected a new or empty folder: choose another --out")


def _source(pretrained: str) -> dict[str, str]:
    path = Path(pretrained)
    if path.suffix == ".gguf" and path.is_file():
        return {"pretrained": str(path.parent), "gguf_file": path.name}
    return {"pretrained": pretrained}


def _write(arguments: dict[str, Any], pretrained: str, folder: Path, shard_size: str) -> tuple[dict[str, Any], str]:
    from lm_eval_illusion.harness.card import write_card
    from lm_eval_illusion.harness.model import PrunedHFLM

    class Loaded(PrunedHFLM):
        """`pruned_hf` that keeps the tokenizer as it came: HFLM gives its own a padding token."""

        def _create_tokenizer(self, *args: Any, **kwargs: Any) -> None:
            super()._create_tokenizer(*args, **kwargs)
            self.as_it_came = copy.deepcopy(self.tokenizer)

    lm = Loaded(**arguments)
    receipt = lm.receipt
    if getattr(lm.model, "is_quantized", False) or (receipt["unprunable"] and not receipt["weights"]):
        raise IllusionError(
            f"--pretrained {pretrained}: is quantised or cannot be reached ({receipt['unprunable']}); expected float "
            "weights: export the checkpoint that it was quantised from"
        )
    reload = _save(lm, folder, shard_size)
    base = {
        "pretrained": pretrained,
        "revision": arguments.get("revision"),
        "sha": lm.get_model_info()["illusion"]["model"]["sha"] or None,
        "gguf_file": arguments.get("gguf_file"),
    }
    held = {"kind": KIND, "schema": SCHEMA, "version": __version__, "base": base, "reload": reload, "receipt": receipt}
    (folder / RECEIPT_FILE).write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _copy_alongside(arguments, folder)
    _check(folder)
    write_card(folder, held, _base_folder(arguments))
    return receipt, reload


def _save(lm: Any, folder: Path, shard_size: str) -> str:
    from prune_hooks.structured.files import save_sliced
    from prune_hooks.structured.layout import layout_of

    lm.as_it_came.save_pretrained(folder)
    layout = layout_of(lm.model)
    if layout is None:
        lm.model.save_pretrained(folder, max_shard_size=shard_size)
        return FROM_PRETRAINED
    save_sliced(lm.model, folder)
    from transformers import AutoConfig

    AutoConfig.for_model(**layout["config"]).save_pretrained(folder)  # tells what it was; the layout what it is
    return LOAD_SLICED


def _check(folder: Path) -> None:
    """Count the zeros of the files written: they must be those of the receipt."""
    from lm_eval_illusion.harness.inspect import inspect_checkpoint

    found = inspect_checkpoint(folder).receipt
    if found is not None and found.differing:
        raise IllusionError(
            f"{folder}: {len(found.differing)} matrices were saved with other zeros than were pruned (first "
            f"{found.differing[0]}): nothing was exported; expected the same: load the model without device_map or "
            "parallelize, in memory"
        )


def _base_folder(arguments: Mapping[str, Any]) -> Path | None:
    path = Path(str(arguments["pretrained"]))
    return path / str(arguments.get("subfolder") or "") if path.is_dir() else None


def _copy_alongside(arguments: Mapping[str, Any], folder: Path) -> None:
    base = _base_folder(arguments)
    for name in ALONGSIDE:
        if base is not None and (base / name).is_file() and not (folder / name).exists():
            shutil.copyfile(base / name, folder / name)
