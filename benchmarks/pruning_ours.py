"""This project's side of `pruning.py`, started by it with the path of a job file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pruning_job import Job, load, serve_job, token_rows


def prepare(job: Job) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """Return the model, and what prunes it."""
    import torch

    import prune_hooks.calibration  # noqa: F401  # what the other side has imported by now as well
    from prune_hooks import PruneSpec, prune
    from prune_hooks.heap import keep_freed

    keep_freed(torch.device("cpu"))  # as pruned_hf does
    model = load(job)
    spec = PruneSpec(
        method=job.method,
        sparsity=job.sparsity,
        pattern=job.pattern,
        calibration=token_rows(job),
        calibration_dtype=job.calibration_dtype,
        sequential=job.sequential,
    )

    def run() -> dict[str, Any]:
        receipt = prune(model, None, spec, progress=False).to_dict()
        return {"seconds": receipt["seconds"], "peak_memory": receipt["peak_memory"]}

    return model, run


if __name__ == "__main__":
    serve_job(prepare)
