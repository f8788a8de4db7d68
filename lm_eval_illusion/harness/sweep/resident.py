"""The model that stays loaded while its points are run, one after the other, by the harness's own command line.

`pruned_hf` asks here before it loads anything: outside a sweep it loads as ever; within one, the first run loads and
every later one is lent the same model and tokenizer, the weights restored to what they were.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lm_eval_illusion.errors import IllusionError, one_line
from lm_eval_illusion.harness.rope import switch_length
from prune_hooks.errors import PruneError
from prune_hooks.restore import DenseWeights, shard_files, shard_reader
from prune_hooks.reuse import Reuse
from prune_hooks.targets import find_targets

log = logging.getLogger("lm_eval.illusion")

_HUB_OPTIONS = ("revision", "subfolder", "cache_dir", "token", "local_files_only")
_active: list[Resident] = []


class Resident:
    """What one model's runs share.

    Args:
        restore: One of `prune_hooks.restore.RESTORE`.
    """

    def __init__(self, restore: str = "memory") -> None:
        self.reuse = Reuse()
        """What pruning need not compute twice."""
        self.loads = 0
        """How often the model was loaded."""
        self._restore = restore
        self._model: Any = None
        self._key = ""
        self._dense: DenseWeights | None = None
        self._failed: tuple[str, str] | None = None
        self._tokenizers: dict[str, Any] = {}

    def model(self, asked: Mapping[str, Any], load: Callable[[], Any]) -> Any:
        """Return the model with its dense weights, loading it where it is not there.

        Args:
            asked: What it is loaded with; a model loaded with anything else is not lent.
            load: Loads and returns it.

        Raises:
            PruneError: If `restore=shards` cannot read the weights again.
            IllusionError: If loading it has failed before: it is not tried again.
        """
        key = repr(sorted(asked.items()))
        if self._model is not None and key == self._key and self._restored():
            return self._model
        self.forget_model()
        if self._failed is not None and self._failed[0] == key:
            raise IllusionError(f"the model could not be loaded for an earlier point: {self._failed[1]}")
        try:
            model = load()
            self._dense = self._noted(model, asked)
        except Exception as error:
            self._failed = key, one_line(error)
            raise
        self.loads += 1
        if switch_length(model.config) is None:
            self._model, self._key = model, key
        else:
            self._dense = None  # it keeps what positions it has seen, beside its weights: loaded anew for each run
        return model

    def tokenizer(self, asked: Any, load: Callable[[], Any]) -> Any:
        """Return the tokenizer loaded with these arguments, loading it where it is not there."""
        key = repr(asked)
        if key not in self._tokenizers:
            self._tokenizers[key] = load()
        return self._tokenizers[key]

    def forget_model(self) -> None:
        """Let go of the model; the next run loads it anew."""
        self._model = self._dense = None

    def forget_tokenizers(self) -> None:
        """Let go of tokenizers: a run that failed may have left one in a state of its own."""
        self._tokenizers.clear()

    def _restored(self) -> bool:
        if self._dense is None:
            return True  # nothing in it can be pruned, so nothing was
        try:
            self._dense.restore()
        except (PruneError, OSError) as error:
            log.warning("the dense weights could not be restored, loading the model anew: %s", error)
            return False
        return True

    def _noted(self, model: Any, asked: Mapping[str, Any]) -> DenseWeights | None:
        try:
            find_targets(model)
        except PruneError:
            return None
        if self._restore == "memory":
            return DenseWeights(model)
        options = {name: asked[name] for name in _HUB_OPTIONS if asked.get(name)}
        return DenseWeights(model, shard_reader(model, shard_files(str(asked["pretrained"]), **options)))


@contextmanager
def lending(resident: Resident) -> Iterator[Resident]:
    """Let every `pruned_hf` made inside take its model and tokenizer from a resident."""
    _active.append(resident)
    try:
        yield resident
    finally:
        _active.remove(resident)


def lend_model(lm: Any, asked: Mapping[str, Any], load: Callable[[], None]) -> None:
    """Give a harness model its `_model`: the resident's, or outside a sweep a new one.

    Args:
        lm: The `HFLM` being made.
        asked: What its model is loaded with.
        load: Sets `lm._model` to a new one.
    """
    if not _active:
        load()
        return

    def loaded() -> Any:
        load()
        return lm._model

    lm._model = _active[-1].model(asked, loaded)


def lend_tokenizer(lm: Any, asked: Any, load: Callable[[], None]) -> None:
    """Give a harness model its `tokenizer`: the resident's, or outside a sweep a new one."""
    if not _active:
        load()
        return

    def loaded() -> Any:
        load()
        return lm.tokenizer

    lm.tokenizer = _active[-1].tokenizer(asked, loaded)


def reuse() -> Reuse | None:
    """Return what pruning may use again; None outside a sweep."""
    return _active[-1].reuse if _active else None
