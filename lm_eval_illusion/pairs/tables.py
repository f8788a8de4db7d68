"""Rows as the `datasets` tables that the harness asks for; `datasets` is imported here alone, and late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import IllusionError
from .catalogue import dataset_named, require_language
from .docs import build
from .task_options import read_options

if TYPE_CHECKING:
    import datasets

SPLIT = "test"
"""The one split; demonstrations come from it too, since the harness shows a sampler the item only then."""
_DEMONSTRATION = ("item_id", "cluster", "source_id", "dataset", "prompt", "gold_text", "choices_near", "gold_near")
_DEMONSTRATION += ("choices_far", "gold_far")


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
    rows = build(pairs_dataset, pairs_language, folder=options.data, seed=options.seed).rows
    asked = options.items_per_language
    if asked is not None and asked > len(rows):
        raise IllusionError(
            f"illusion_items_per_language is {asked}, but {pairs_dataset} has {len(rows)} usable questions in "
            f"{pairs_language!r}; ask for at most that many, or leave it out to take all"
        )
    marked = [{**row, "sampled": asked is None or number < asked} for number, row in enumerate(rows)]
    return {SPLIT: datasets.Dataset.from_list(marked)}


def keep_sampled(docs: datasets.Dataset) -> datasets.Dataset:
    """Keep the rows that are asked (`process_docs` of the task files)."""
    return docs.select(range(sum(docs["sampled"])))


def keep_demonstrations(docs: datasets.Dataset) -> datasets.Dataset:
    """Keep every row, sampled or not, with what a demonstration needs (`process_docs` of the demonstrations)."""
    return docs.select_columns(list(_DEMONSTRATION))
