"""The harness's index of tasks, read once for many runs: thousands of YAML files take it seconds each time."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lm_eval_illusion.harness import plugin


@contextmanager
def kept_index() -> Iterator[None]:
    """Let every `TaskManager` made inside share one index of each set of folders.

    An index names tasks and the files that define them; the tasks themselves are made anew from those files by every
    run, so nothing of one run reaches another.
    """
    plugin.register()
    from lm_eval.tasks import _index

    original = _index.TaskIndex.build
    kept: dict[str, dict[str, Any]] = {}

    @functools.wraps(original)  # its mark too: register() is called again by every run
    def build(paths: Iterable[Path], **options: Any) -> dict[str, Any]:
        listed = list(paths)
        key = repr(([str(path) for path in listed], sorted(options.items())))
        if key not in kept:
            kept[key] = original(listed, **options)
        return dict(kept[key])

    _index.TaskIndex.build = staticmethod(build)
    try:
        yield
    finally:
        _index.TaskIndex.build = staticmethod(original)
