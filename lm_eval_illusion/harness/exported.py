"""The file `receipt.json` beside a checkpoint that `export` wrote: what was pruned, and whether it still is that.

A run of such a checkpoint takes the receipt over, so that its report names the method, looks for overlap of
calibration and evaluation text and finds the dense run it belongs to; only where the weights loaded are, by hash, the
exported ones.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.checkpoint.files import read_json

log = logging.getLogger("lm_eval.illusion")  # below the harness's own logger: the only one it shows

RECEIPT_FILE = "receipt.json"
KIND = "lm-eval-illusion/export"
SCHEMA = 1


@dataclass(frozen=True)
class ReceiptCheck:
    """A receipt held against the files beside it."""

    method: str
    pattern: str
    sparsity_asked: float
    sparsity_reached: float | None
    weights_sha256: str
    found: int
    """Matrices of the receipt that the files hold under the same name and whose zeros could be counted."""
    matrices: int
    """Matrices of the receipt."""
    differing: tuple[str, ...]
    """Those whose zeros are not as many as the receipt says."""


def read_export(folder: Path) -> dict[str, Any] | None:
    """Return what `export` wrote beside a checkpoint; None where there is no such file, or another tool's.

    Raises:
        IllusionError: If the file is ours but damaged, or of a later version.
    """
    path = folder / RECEIPT_FILE
    held = read_json(path)
    if held.get("kind") != KIND:
        return None
    if held.get("schema") != SCHEMA:
        raise IllusionError(
            f"{path}: is of schema {held.get('schema')!r}, expected {SCHEMA}; run: "
            "pip install --upgrade lm-eval-illusion"
        )
    receipt: Any = held.get("receipt")
    if not (isinstance(held.get("base"), dict) and _is_receipt(receipt)):
        raise IllusionError(f"{path}: holds no pruning receipt: edited or damaged; export the checkpoint again")
    return held


def _is_receipt(receipt: Any) -> bool:
    if not isinstance(receipt, dict) or not isinstance(receipt.get("weights"), list):
        return False
    named = all(
        isinstance(record, dict) and isinstance(record.get("name"), str) and isinstance(record.get("zeros_after"), int)
        for record in receipt["weights"]
    )
    numbers = all(
        isinstance(receipt.get(key), kinds)
        for key, kinds in (("sparsity_asked", (int, float)), ("sparsity_reached", (int, float, type(None))))
    )
    return (
        named and numbers and isinstance(receipt.get("spec"), dict) and isinstance(receipt.get("weights_sha256"), str)
    )


def check_receipt(folder: Path, zeros: Mapping[str, int | None]) -> ReceiptCheck | None:
    """Hold the zeros counted in a checkpoint's files against its receipt.

    Args:
        folder: Where the checkpoint lies.
        zeros: Tensor -> zeros counted; None where they cannot be.

    Returns:
        The comparison; None for a checkpoint that `export` did not write.
    """
    held = read_export(folder)
    if held is None:
        return None
    receipt = held["receipt"]
    wanted: dict[str, int] = {}
    for record in receipt["weights"]:
        name = re.sub(r"(\[[^]]*\])+$", "", record["name"])  # parts of one fused matrix: q, k, v; experts
        wanted[name] = wanted.get(name, 0) + record["zeros_after"]
    found = {name: zeros[name] for name in wanted if zeros.get(name) is not None}
    return ReceiptCheck(
        method=str(receipt["spec"].get("method")),
        pattern=str(receipt["spec"].get("pattern")),
        sparsity_asked=float(receipt["sparsity_asked"]),
        sparsity_reached=receipt["sparsity_reached"],
        weights_sha256=receipt["weights_sha256"],
        found=len(found),
        matrices=len(wanted),
        differing=tuple(sorted(name for name, count in found.items() if count != wanted[name])),
    )


def adopted(pretrained: object, model: Any, dense: dict[str, Any]) -> dict[str, Any]:
    """Return the receipt of an exported checkpoint where the model loaded from it has the exported weights.

    Args:
        pretrained: What was loaded.
        model: The model, left as it was loaded.
        dense: Its own receipt, of method none.

    Returns:
        The export's receipt with where it came from under `exported`; else `dense` as it is.
    """
    held = read_export(Path(pretrained)) if isinstance(pretrained, str) and Path(pretrained).is_dir() else None
    if held is None or held["receipt"]["spec"].get("method") == "none":
        return dense
    receipt: dict[str, Any] = held["receipt"]
    if receipt.get("structured"):
        from prune_hooks.receipt import hash_model

        found = hash_model(model)
    else:
        found = dense["weights_sha256"]
    if found != receipt["weights_sha256"]:
        log.warning(
            "%s: the weights loaded are not those that %s was written for (another dtype, or changed since): the run "
            "goes by its own receipt, as a checkpoint of unknown origin",
            pretrained,
            RECEIPT_FILE,
        )
        return dense
    return {**receipt, "exported": {"folder": pretrained, "base": held["base"]}}


def sliced_folder(pretrained: object) -> Path | None:
    """Return the folder if it was written by `prune_hooks.structured.save_sliced`, else None."""
    folder = Path(pretrained) if isinstance(pretrained, str) else None
    return folder if folder is not None and (folder / "prune_hooks.json").is_file() else None


def load_sliced_as(folder: Path, dtype: Any, device: Any) -> Any:
    """Load what `save_sliced` wrote, in the dtype it was saved in or another.

    Args:
        folder: What `sliced_folder` returned.
        dtype: As HFLM takes it; None and "auto" leave it.
        device: Where the model goes.
    """
    from lm_eval.models.utils_hf import get_dtype

    from prune_hooks.structured import load_sliced

    model = load_sliced(folder, device)
    return model if dtype in (None, "auto") else model.to(get_dtype(dtype))
