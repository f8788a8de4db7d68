"""Rows as the `datasets` tables that the harness asks for; `datasets` is imported here alone, and late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .catalogue import dataset_named, require_language
from .docs import build
from .task_options import read_options

if TYPE_CHECKING:
    import datasets

SPLIT = "test"
"""The one split; demonstrations come from it too, since the harness shows a sampler the item only then."""
_DEMONSTRATION = ("item_id", "cluster", "source_id", "prompt", "gold_text")


def load(*, pairs_dataset: str, pairs_language: str, **metadata: Any) -> dict[str, datasets.Dataset]:
    """Build the table of one task; this is what the task files name as `custom_dataset`.

    Args:
        pairs_dataset: Data set, from the task file.
        pairs_language: Language, from the task file.
        **metadata: What the harness hands over: `--metadata` and all model arguments.

    Returns:
        The one split: every row of the language in sampling order, the column `sampled` marking those that are asked.
    """
    import datasets

    options = read_options(metadata)
    require_language(dataset_named(pairs_dataset), pairs_language)
    built = build(
        pairs_dataset, pairs_language, folder=options.data, seed=options.seed, count=options.items_per_language
    )
    rows = [{**row, "sampled": True} for row in built.rows] + [{**row, "sampled": False} for row in built.others]
    return {SPLIT: datasets.Dataset.from_list(rows)}


def keep_sampled(docs: datasets.Dataset) -> datasets.Dataset:
    """Keep the rows that are asked (`process_docs` of the task files)."""
    return docs.select(range(sum(docs["sampled"])))


def keep_demonstrations(docs: datasets.Dataset) -> datasets.Dataset:
    """Keep every row, sampled or not, with what a demonstration needs (`process_docs` of the demonstrations)."""
    return docs.select_columns(list(_DEMONSTRATION))
