"""Rows as the `datasets` tables that the harness asks for; `datasets` is imported here alone, and late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import IllusionError
from .catalogue import dataset_named, require_language
from .docs import build, language_set
from .fed import read_fed
from .probes import Asking, earlier_answer, probe_named, probe_row
from .rows import Built, Row
from .task_options import TaskOptions, read_options

if TYPE_CHECKING:
    import datasets

SPLIT = "test"
"""The one split; demonstrations come from it too, since the harness shows a sampler the item only then."""
_DEMONSTRATION = ("item_id", "cluster", "source_id", "prompt", "gold_text")
_ASK_AGAIN = ("passage", "question", "dataset", "language")
_PAIRED = "paired_prompt"
"""What the pair reads of a row whose probe reads something else: the pool is the pair's own."""
_ORIGIN = ("options_folder", "options_seed")
"""Where a demonstration's options are found when a probe shows them."""
_UNSEEN = (_PAIRED, *_ORIGIN)
"""Columns that no asked row keeps: a folder in a row would make its hash differ from machine to machine."""


def load(
    *, pairs_dataset: str, pairs_language: str, pairs_condition: str | None = None, **metadata: Any
) -> dict[str, datasets.Dataset]:
    """Build the table of one task; this is what the task files name as `custom_dataset`.

    Args:
        pairs_dataset: Data set, from the task file.
        pairs_language: Language, from the task file.
        pairs_condition: Probe, from the task file; the halves of a pair name none.
        **metadata: What the harness hands over: `--metadata` and all model arguments.

    Returns:
        The one split: every row of the language in sampling order, the column `sampled` marking those that are asked.

    Raises:
        IllusionError: a wrong option, missing data, or nothing to ask.
    """
    import datasets

    options = read_options(metadata)
    require_language(dataset_named(pairs_dataset), pairs_language)
    built = build(
        pairs_dataset, pairs_language, folder=options.data, seed=options.seed, count=options.items_per_language
    )
    asked = _asked(built, options, f"{pairs_dataset}/{pairs_language}/")
    chosen = {row["item_id"] for row in asked}
    others: Sequence[Row] = [row for row in (*built.rows, *built.others) if row["item_id"] not in chosen]
    if pairs_condition is not None:
        asking = Asking(
            condition=probe_named(pairs_condition),
            questions=language_set(pairs_dataset, pairs_language, folder=options.data, seed=options.seed),
            pool=(*built.rows, *built.others),
            options=options,
            fed=read_fed(options.answers) if options.answers else None,
        )
        asked, others = _probe(asked, others, asking)
    rows = [{**row, "sampled": True} for row in asked] + [{**row, "sampled": False} for row in others]
    return {SPLIT: datasets.Dataset.from_list(rows)}


def _asked(built: Built, options: TaskOptions, begins: str) -> list[Row]:
    """Return the rows that are asked: the sample, or what a fed file names of it."""
    if options.items is None:
        return list(built.rows)
    named = read_fed(options.items).items
    if named is None:
        return list(built.rows)
    asked = [row for row in built.rows if row["item_id"] in named]
    missing = sum(i.startswith(begins) for i in named) - len(asked)
    if missing:
        known = {row["item_id"] for row in asked}
        first = next(i for i in sorted(named) if i.startswith(begins) and i not in known)
        raise IllusionError(
            f"illusion_items: {options.items} names {missing} items that are not asked here, such as {first}; give the "
            "illusion_data, illusion_seed and illusion_items_per_language of the run that the file was made from"
        )
    if not asked:
        raise IllusionError(
            f"illusion_items: {options.items} names no item of {begins[:-1]}, so nothing would be asked; leave its "
            "tasks out of --tasks"
        )
    return asked


def _probe(asked: Sequence[Row], others: Sequence[Row], asking: Asking) -> tuple[list[Row], list[Row]]:
    """Return the rows of a probe and the pool beside them; a row whose earlier answer is unknown is not asked."""
    source, options = asking.condition.answers_from, asking.options
    unanswered: list[Row] = []
    if source is not None:
        unanswered = [row for row in asked if earlier_answer(row, asking) is None]
        asked = [row for row in asked if earlier_answer(row, asking) is not None]
        if not asked:
            told = f"{options.answers} holds none to these questions" if options.answers else "none were given"
            raise IllusionError(
                f"{asking.condition.name} shows the model its earlier answers under {source}, but {told}; run "
                f"{source} first, then: lm-eval-illusion run --answers RUN ..."
            )
    origin = dict(zip(_ORIGIN, (options.data, options.seed), strict=True))
    rows = [{**probe_row(row, asking), **origin, _PAIRED: row["prompt"]} for row in asked]
    empty = dict.fromkeys(rows[0])
    return rows, [{**empty, **row, **origin, _PAIRED: row["prompt"]} for row in (*unanswered, *others)]


def keep_sampled(docs: datasets.Dataset) -> datasets.Dataset:
    """Keep the rows that are asked (`process_docs` of the task files)."""
    asked = docs.select(range(sum(docs["sampled"])))
    return asked.remove_columns([name for name in _UNSEEN if name in asked.column_names])


def keep_demonstrations(docs: datasets.Dataset) -> datasets.Dataset:
    """Keep every row, sampled or not, with what a demonstration needs (`process_docs` of the demonstrations)."""
    if _PAIRED not in docs.column_names:
        return docs.select_columns(list(_DEMONSTRATION))
    paired = docs.remove_columns("prompt").rename_column(_PAIRED, "prompt")
    return paired.select_columns([*_DEMONSTRATION, *_ASK_AGAIN, *_ORIGIN])
