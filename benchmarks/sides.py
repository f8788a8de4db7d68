"""The two language models that are compared, ours and the harness's own, and the processes that hold them."""

from __future__ import annotations

import sys
from typing import Any

import pair


def checkpoint_of(asked: str | None) -> str:
    """Return the checkpoint that was asked for, else the demo model's."""
    if asked is not None:
        return asked
    from lm_eval_illusion.harness.demo_model import checkpoint

    return str(checkpoint())


def device() -> str:
    """Return where both sides run."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def load(side: str, model: str, *, dtype: str, batch: int) -> Any:
    """Return the language model of a side, "ours" or "stock", at one batch size."""
    same: dict[str, Any] = {"pretrained": model, "device": device(), "dtype": dtype, "batch_size": batch}
    if side == "stock":  # whose process holds nothing of ours
        from lm_eval.models.huggingface import HFLM

        return HFLM(**same)
    from lm_eval_illusion.harness.model import PrunedHFLM

    return PrunedHFLM(method="none", **same)


def start(script: str, side: str, asked: dict[str, Any]) -> pair.Worker:
    """Start a script as the worker of a side.

    Args:
        script: Its file; it knows `--worker SIDE`.
        side: "ours" or "stock".
        asked: Option -> value; None leaves an option out.
    """
    words = [sys.executable, script, "--worker", side]
    for name, value in asked.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return pair.Worker("stock HFLM" if side == "stock" else "pruned_hf", words)
