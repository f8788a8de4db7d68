"""Demonstrations that depend on the item and a seed alone, never on rank, limit, order or what was drawn before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lm_eval.api.samplers import ContextSampler

from ..errors import IllusionError
from ..pairs.demonstrations import Shot, choose_shots, dressed, short_half
from ..pairs.docs import near_options
from ..pairs.options import Options

Doc = dict[str, Any]


class ItemSampler(ContextSampler):  # type: ignore[misc]  # lm_eval is untyped
    """Draws demonstrations by hash of item id, candidate id and the harness's few-shot seed.

    The pool is every question of the language, sampled or not; candidates are the half with the shorter prompts. A
    probe that shows something else than the pair reads gets the pair's own demonstrations in its own form, wherever
    they have the options that it shows; the options of questions outside the sample are found when needed.
    """

    def __init__(self, df: Sequence[Doc] | None = None, *, rnd: int | None = None, **kwargs: Any) -> None:
        super().__init__(df, rnd=rnd, **kwargs)
        self.seed = rnd
        self._short: list[Shot] | None = None

    def set_rnd(self, rnd: int | None) -> ItemSampler:
        """Take the harness's few-shot seed; no random stream is kept."""
        self.seed = rnd
        return self

    def replace_df(self, df: Sequence[Doc]) -> ItemSampler:
        """Take another pool."""
        self._short = None
        super().replace_df(df)
        return self

    def _candidates(self) -> list[Shot]:
        if self._short is None:
            self._short = short_half(self.df)
        return self._short

    def sample(self, n: int, eval_doc: Doc | None = None, df: Sequence[Doc] | None = None, **kwargs: Any) -> list[Shot]:
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
        item = eval_doc
        chosen = choose_shots(item, self._candidates(), n, self.seed, lambda shot: dressed(shot, item, _near))
        if len(chosen) < n:
            raise IllusionError(
                f"{item['item_id']}: {n} demonstrations were asked for, but only {len(chosen)} other passages can give "
                f"one; use --num_fewshot {len(chosen)} or fewer"
            )
        return chosen


def _near(shot: Shot) -> Options | None:
    return near_options(
        shot["dataset"],
        shot["language"],
        shot["source_id"],
        folder=shot["options_folder"],
        seed=shot["options_seed"],
    )
