"""What the harness finds out anew at the start and end of every run, though it cannot change between runs of a process.

That is its index of tasks (thousands of YAML files, seconds) and its description of the machine and the installed
packages. The tasks themselves are made anew from their files by every run, so nothing of one run reaches another.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lm_eval_illusion.harness import plugin


@contextmanager
def found_out_once() -> Iterator[None]:
    """Let all runs inside share one index of each set of task folders, and one description of the machine."""
    plugin.register()
    from lm_eval.tasks import _index
    from torch.utils import collect_env

    build, describe = _index.TaskIndex.build, collect_env.get_pretty_env_info
    kept: dict[str, dict[str, Any]] = {}

    @functools.wraps(build)  # its mark too: register() is called again by every run
    def build_once(paths: Iterable[Path], **options: Any) -> dict[str, Any]:
        listed = list(paths)
        key = repr(([str(path) for path in listed], sorted(options.items())))
        if key not in kept:
            kept[key] = build(listed, **options)
            gc.freeze()  # a million small objects that stay: a collection after each run need not look at them again
        return dict(kept[key])

    _index.TaskIndex.build = staticmethod(build_once)
    collect_env.get_pretty_env_info = functools.cache(describe)
    try:
        yield
    finally:
        gc.unfreeze()
        _index.TaskIndex.build = staticmethod(build)
        collect_env.get_pretty_env_info = describe
