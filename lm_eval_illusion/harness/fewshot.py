"""Demonstrations that depend on the item and a seed alone, never on rank, limit, order or what was drawn before."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Any

from lm_eval.api.samplers import ContextSampler

from ..errors import IllusionError
from ..pairs.draw import draw
from ..pairs.normalise import normalise

Doc = dict[str, Any]


class ItemSampler(ContextSampler):  # type: ignore[misc]  # lm_eval is untyped
    """Draws demonstrations by hash of item id, candidate id and the harness's few-shot seed.

    The pool is every question of the language, sampled or not. Never chosen: a question about the item's own passage,
    one whose answer stands among the item's options (showing it would favour that option), or a second one about the
    same passage. Candidates are the half of the pool with the shorter prompts, so that demonstrations leave room.
    """

    def __init__(self, df: Sequence[Doc] | None = None, *, rnd: int | None = None, **kwargs: Any) -> None:
        super().__init__(df, rnd=rnd, **kwargs)
        self.seed = rnd
        self._short: list[Doc] | None = None

    def set_rnd(self, rnd: int | None) -> ItemSampler:
        """Take the harness's few-shot seed; no random stream is kept."""
        self.seed = rnd
        return self

    def replace_df(self, df: Sequence[Doc]) -> ItemSampler:
        """Take another pool."""
        self._short = None
        super().replace_df(df)
        return self

    def _candidates(self) -> list[Doc]:
        if self._short is None:
            limit = median_low([len(doc["prompt"]) for doc in self.df])
            self._short = [doc for doc in self.df if len(doc["prompt"]) <= limit]
        return self._short

    def sample(self, n: int, eval_doc: Doc | None = None, df: Sequence[Doc] | None = None, **kwargs: Any) -> list[Doc]:
        """Return n demonstrations for an item, nearest hash first.

        Args:
            n: How many.
            eval_doc: The item that is asked.
            df: Another pool.
            **kwargs: Ignored, as the harness's samplers do.

        Raises:
            IllusionError: no item was given (`fewshot_split` differs from `test_split`), or the pool is too small.
        """
        if n == 0:
            return []
        if df:
            self.replace_df(df)
        if eval_doc is None:
            raise IllusionError(
                "the demonstration sampler was given no item; fewshot_split must equal test_split in the task file"
            )
        language = eval_doc["language"]
        taken = {eval_doc["cluster"]}
        options = {normalise(t, language) for key in ("choices_near", "choices_far", "answers") for t in eval_doc[key]}
        chosen: list[Doc] = []
        key = (eval_doc["dataset"], eval_doc["source_id"], self.seed)
        for doc in sorted(self._candidates(), key=lambda d: draw("demonstration", *key, d["source_id"])):
            if doc["cluster"] in taken or normalise(doc["gold_text"], language) in options:
                continue
            taken.add(doc["cluster"])
            chosen.append(doc)
            if len(chosen) == n:
                return chosen
        raise IllusionError(
            f"{eval_doc['item_id']}: {n} demonstrations were asked for, but only {len(chosen)} other passages can give "
            f"one; use --num_fewshot {len(chosen)} or fewer"
        )
