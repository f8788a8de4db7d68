"""This project's side of `pruning.py`, started by it with the path of a job file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pair import serve
from pruning_job import Job, judge, load, token_rows


def prepare(job: Job) -> Callable[[], dict[str, Any]]:
    """Load everything; the first call prunes, the second judges the result."""
    import prune_hooks.calibration  # noqa: F401  # what the other side has imported by now as well
    from prune_hooks import PruneSpec, prune

    model = load(job)
    spec = PruneSpec(
        method=job.method,
        sparsity=job.sparsity,
        pattern=job.pattern,
        calibration=token_rows(job),
        calibration_dtype=job.calibration_dtype,
        sequential=job.sequential,
    )
    done = False

    def run() -> dict[str, Any]:
        nonlocal done
        if done:
            return judge(model, job)
        done = True
        receipt = prune(model, None, spec, progress=False).to_dict()
        return {"seconds": receipt["seconds"], "peak_memory": receipt["peak_memory"]}

    return run


if __name__ == "__main__":
    serve(lambda: prepare(Job(**json.loads(Path(sys.argv[1]).read_text()))))
