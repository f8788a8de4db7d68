"""What every side of `pruning.py` is told and has to answer: one job, one model, one judgement.

Runs in this project's environment and in llmcompressor's: torch and transformers alone.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pair import serve
from torch import nn
from transformers import AutoModelForCausalLM

BLOCKS = "model.layers."
"""Where the blocks are, in a Llama-like model."""


@dataclass(frozen=True)
class Job:
    """One pruning, the same for every side."""

    checkpoint: str
    method: str
    """"wanda" or "sparsegpt"."""
    sparsity: float
    pattern: str
    """"unstructured" or "n:m"."""
    dtype: str
    """Of the weights."""
    rows: str
    """JSON file with the token rows: {"calibration": [[...]], "heldout": {name: [[...]]}}."""
    masks: str
    """File to which the judgement writes the zeros of the block weights, as bits."""
    calibration_dtype: str = "model"
    """Ours alone: the forward's dtype."""
    sequential: str = "weight"
    """Ours alone: the order within a block."""
    rival_batch: int = 1
    """llmcompressor alone: its batch_size."""
    reverse: bool = False
    """Take the calibration rows in reverse order: the same sums in another order."""


def load(job: Job) -> Any:
    """Return the model in evaluation mode."""
    torch.set_grad_enabled(False)
    dtype = getattr(torch, job.dtype)
    return AutoModelForCausalLM.from_pretrained(job.checkpoint, dtype=dtype, attn_implementation="sdpa").eval()


def token_rows(job: Job) -> torch.Tensor:
    """Return the calibration rows, (n, length) int64."""
    rows = torch.tensor(json.loads(Path(job.rows).read_text())["calibration"])
    return rows.flip(0) if job.reverse else rows


Prepare = Callable[[Job], tuple[Any, Callable[[], dict[str, Any]]]]
"""Loads everything; returns the model, and what prunes it in place and says something of it."""


def in_two_calls(prepare: Prepare, job: Job) -> Callable[[], dict[str, Any]]:
    """Load everything; the first call prunes, the second judges the result."""
    model, prune = prepare(job)
    calls = iter((prune, lambda: judge(model, job)))
    return lambda: next(calls)()


def serve_job(prepare: Prepare) -> None:
    """Be the worker of one side, told of its job by a file."""
    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    serve(lambda: in_two_calls(prepare, job))


def judge(model: Any, job: Job) -> dict[str, Any]:
    """Measure a pruned model: zeros among the block weights, held-out perplexities; write the zeros' places."""
    bits = []
    for name, module in sorted(model.named_modules()):
        if isinstance(module, nn.Linear) and name.startswith(BLOCKS):
            bits.append((module.weight == 0).flatten())
    zeros = torch.cat(bits)
    Path(job.masks).write_bytes(zeros.numpy().tobytes())
    held = json.loads(Path(job.rows).read_text())["heldout"]
    return {
        "zeros": zeros.sum().item() / zeros.numel(),
        "perplexity": {name: perplexity(model, torch.tensor(rows)) for name, rows in held.items()},
        "dtype": str(next(model.parameters()).dtype),
    }


def perplexity(model: Any, rows: torch.Tensor) -> float:
    """Return the mean-token perplexity over rows (n, length); the first token of a row is not scored."""
    total = count = 0.0
    for row in rows:
        logits = model(row[None], use_cache=False).logits[0, :-1].float()
        total += nn.functional.cross_entropy(logits, row[1:], reduction="sum").item()
        count += row.numel() - 1
    return math.exp(total / count)
