"""Whether what `--tasks` names can be asked, found out before anything is loaded; and what is fed to it, passed on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import feed, plugin
from lm_eval_illusion.harness.arguments import read_arguments, without_tasks
from lm_eval_illusion.harness.feed import Feeding
from lm_eval_illusion.harness.names import PairedTask
from lm_eval_illusion.harness.resolve import resolve
from lm_eval_illusion.pairs.conditions import CONDITIONS


def check_model(tasks: Iterable[PairedTask], model: str) -> None:
    """Raise where a task asks what only `pruned_hf` can answer, and another model is named."""
    wanting = sorted({task.name for task in tasks if CONDITIONS[task.condition].needs_pruned_hf})
    if wanting and model != plugin.MODEL_NAME:
        raise IllusionError(
            f"--tasks: {wanting[0]}{f' and {len(wanting) - 1} more' if len(wanting) > 1 else ''} with --model {model}: "
            "beams, samples and ranks are told by this project's model alone; run it with --model pruned_hf "
            "(a dense model: --model_args pretrained=MODEL,method=none)"
        )


def check_answers(tasks: Iterable[PairedTask], fed: bool) -> None:
    """Raise where a task shows earlier answers and none are given, or answers are given and no task shows them."""
    showing = [task.name for task in tasks if CONDITIONS[task.condition].answers_from]
    if showing and not fed:
        raise IllusionError(
            f"--tasks: {showing[0]} shows the model its earlier answers, and none are given; feed it a finished run of "
            "the same model: lm-eval-illusion run --answers RUN ..."
        )
    if fed and not showing:
        raise IllusionError(
            "--answers: no task among --tasks shows earlier answers; ask {set}_revise1 or {set}_revise2, or leave "
            "--answers out"
        )


def with_feed(words: Sequence[str], feeding: Feeding, out: Path) -> list[str]:
    """Write down what is fed, and return the arguments that pass it on and ask the tasks that have something to ask.

    Args:
        words: Arguments of `lm_eval run`.
        feeding: The finished runs.
        out: The output folder, for the file.

    Raises:
        IllusionError: If a run holds nothing to feed, or --tasks names what cannot be fed.
    """
    asked = read_arguments(words)
    found = resolve(asked.tasks, asked.include_path)
    foreign = [name for name, tasks in found.items() if not tasks]
    if foreign:
        raise IllusionError(
            f"--tasks: {foreign[0]!r} is no task of paired questions, which alone can be fed a finished run; ask it in "
            "a run of its own, or list the paired tasks with: lm_eval ls tasks"
        )
    tasks = list(dict.fromkeys(task for tasks in found.values() for task in tasks))
    told = feed.gather(feeding)
    left = feed.narrow(told, tasks)
    path, digest = feed.write(told, out)
    metadata = dict(asked.metadata)
    if told.items is not None:
        metadata["illusion_items"] = str(path)
    if told.answers is not None:
        metadata["illusion_answers"] = str(path)
    metadata["fed"] = {"sha256": digest, "from": [{"results": n, "sha256": d} for n, d in told.sources]}
    names_left = [task.name for task in left] if left != tasks else list(asked.tasks)
    return [*without_tasks(words), "--tasks", ",".join(names_left), "--metadata", json.dumps(metadata)]
