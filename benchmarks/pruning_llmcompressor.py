"""The rival of `pruning.py`: llmcompressor as its users drive it, in an environment of its own.

It needs llmcompressor 0.14.0.1 (which pins transformers below this project's) and `pair.py` beside it, nothing of this
project. Started by `pruning.py` with the path of a job file; never by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pruning_job import Job, load, serve_job, token_rows


def prepare(job: Job) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """Return the model, and what prunes it."""
    import llmcompressor
    import transformers
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.pruning import SparseGPTModifier, WandaPruningModifier

    model = load(job)
    rows = token_rows(job)
    data = Dataset.from_dict({"input_ids": rows.tolist(), "attention_mask": [[1] * rows.shape[1]] * rows.shape[0]})
    modifier = {"wanda": WandaPruningModifier, "sparsegpt": SparseGPTModifier}[job.method]
    shape = {} if job.pattern == "unstructured" else {"mask_structure": job.pattern}
    # Module names carry a trailing dot there: only a pattern keeps the tied head, and with it the embedding, dense.
    recipe = modifier(sparsity=job.sparsity, targets=["Linear"], ignore=["re:.*lm_head"], **shape)

    def run() -> dict[str, Any]:
        oneshot(
            model=model,
            dataset=data,
            recipe=recipe,
            num_calibration_samples=rows.shape[0],
            max_seq_length=rows.shape[1],
            shuffle_calibration_samples=False,
            batch_size=job.rival_batch,
        )
        return {"llmcompressor": llmcompressor.__version__, "transformers": transformers.__version__}

    return model, run


if __name__ == "__main__":
    serve_job(prepare)
