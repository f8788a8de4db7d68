"""Makes `pruned_hf` and the paired tasks known to lm-evaluation-harness.

Called by the autoload hook as the harness is imported, or by `register` where the hook is off. Light on purpose:
the model class is registered by name and loaded by the harness when it is asked for.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MODEL_NAME = "pruned_hf"
MODEL_TARGET = "lm_eval_illusion.harness.model:PrunedHFLM"
_MARK = "_lm_eval_illusion_tasks"


def tasks_folder() -> Path:
    """Return the folder with the task YAML: the packaged copy, else `tasks/` of the checkout.

    Raises:
        FileNotFoundError: If neither is there (a broken installation).
    """
    package = Path(__file__).resolve().parent.parent
    candidates = (package / "tasks", package.parent / "tasks")
    for folder in candidates:
        if any(folder.glob("*/*.yaml")):
            return folder
    looked = " nor ".join(str(folder) for folder in candidates)
    raise FileNotFoundError(
        f"no task files in {looked}; reinstall with: pip install --force-reinstall lm-eval-illusion"
    )


def register_models() -> None:
    """Add `pruned_hf` to the harness's registry, after its own models.

    `get_model` imports the built-in models only while the registry is empty, so they go first.
    """
    import lm_eval.models  # noqa: F401 - registers the harness's own models
    from lm_eval.api.registry import model_registry

    if MODEL_NAME not in model_registry:
        model_registry.register(MODEL_NAME, target=MODEL_TARGET)


def register_tasks() -> None:
    """Let the harness's task index read our folder right after its own default folder.

    The seam is `TaskIndex.build(paths)`: our folder is added only where the default folder is among the paths, so
    `include_defaults=False` keeps its meaning and a user's `--include_path` still has the last word. The index needs
    each file's own lines alone (a task is read anew, with what it includes, when it is asked for), so our files are
    read without their includes: two thirds of their part of the start-up.
    """
    from lm_eval.tasks import _index

    if getattr(_index.TaskIndex.build, _MARK, False):
        return
    original = _index.TaskIndex.build
    default = Path(_index.__file__).resolve().parent
    ours: set[str] = set()

    @functools.wraps(original)
    def build(paths: Iterable[Path], **kwargs: Any) -> Any:
        listed = list(paths)
        for position, path in enumerate(listed):
            if Path(path).resolve() == default:
                listed.insert(position + 1, tasks_folder())
                ours.add(f"{tasks_folder()}{os.sep}")
                break
        return original(listed, **kwargs)

    load = _index.load_yaml

    @functools.wraps(load)
    def load_yaml(path: str | Path, **kwargs: Any) -> Any:
        return load(path, **({**kwargs, "recursive": False} if str(path).startswith(tuple(ours)) else kwargs))

    _index.load_yaml = load_yaml
    setattr(build, _MARK, True)
    _index.TaskIndex.build = staticmethod(build)


def register() -> None:
    """Do all of it now: for `lm-eval-illusion run` and for Python code where the hook is off."""
    register_models()
    register_tasks()
