"""Runs the harness's own command line, with what a paired evaluation needs made sure of before and after.

Before: the samples are logged somewhere, the data of our tasks can be had (the harness loads data after the model), and
the model can do what the tasks ask. What finished runs are to be fed with is written down and passed on.
After: the files of the run are really there (the harness turns a failed save into a warning and exits with 0).
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import names, plugin
from lm_eval_illusion.harness.arguments import read_arguments
from lm_eval_illusion.harness.askable import check_answers, check_model, with_feed
from lm_eval_illusion.harness.feed import Feeding
from lm_eval_illusion.harness.resolve import resolve
from lm_eval_illusion.pairs.sources import check_data


def completed(argv: Sequence[str]) -> tuple[list[str], Path]:
    """Return the arguments with `--log_samples` and `--output_path`, and the folder that will hold the files.

    Raises:
        IllusionError: For `--cache_requests`, whose files ignore the data folder and the number of items.
    """
    asked = read_arguments(argv)
    if asked.cache_requests:
        raise IllusionError(
            "--cache_requests: the harness's request cache ignores --metadata and the data folder, so it would serve "
            "stale items; leave it out"
        )
    words = list(argv)
    if not asked.log_samples:
        words.append("--log_samples")
    out = Path(asked.output_path or Path("runs") / time.strftime("%Y-%m-%dT%H-%M-%S"))
    if asked.output_path is None:
        words += ["--output_path", str(out)]
    return words, out.parent if out.suffix == ".json" else out


def check_data_of(tasks: Iterable[str], folder: str | None) -> None:
    """Load the data of our tasks now: a missing file should not cost a pruned model.

    Args:
        tasks: Names, groups and patterns of tasks; those of others are passed over.
        folder: Folder with tydiqa/ and xquad/, None for the default source.

    Raises:
        IllusionError: If neither a local folder nor the hub has the data.
    """
    for dataset, language in dict.fromkeys((t.dataset, t.language) for t in names.expand(tasks)):
        check_data(dataset, language, folder)


def run(argv: Sequence[str], feeding: Feeding | None = None) -> Path:
    """Run `lm_eval run` in this process.

    Args:
        argv: Arguments of `lm_eval run`.
        feeding: Finished runs whose items or answers are fed on.

    Returns:
        The output folder.

    Raises:
        IllusionError: If the data is missing, the tasks ask what the model cannot do or nothing at all, or the run left
            no results or no samples.
    """
    words, out = completed(argv)
    asked = read_arguments(words)
    tasks = [task for found in resolve(asked.tasks, asked.include_path).values() for task in found]
    check_model(tasks, asked.model)
    given = feeding.answers if feeding else asked.metadata.get("illusion_answers")
    check_answers(tasks, bool(given))
    if feeding:
        words = with_feed(words, feeding, out)
        asked = read_arguments(words)
    check_data_of(asked.tasks, asked.metadata.get("illusion_data"))
    plugin.register()
    from lm_eval.__main__ import cli_evaluate

    started = time.time() - 1
    kept = sys.argv
    talk = logging.getLogger("lm_eval.api.task")
    talk.addFilter(_worth_saying)
    try:
        sys.argv = ["lm_eval", "run", *words]
        cli_evaluate()
    finally:
        sys.argv = kept
        talk.removeFilter(_worth_saying)
    if int(os.environ.get("RANK", "0")) == 0:
        verify_saved(out, started)
    return out


def _worth_saying(record: logging.LogRecord) -> bool:
    """Leave out what the harness says of every task that makes its own data: two lines for each of dozens."""
    return "Custom kwargs can be passed to `--metadata`" not in str(record.msg)


def verify_saved(out: Path, started: float) -> None:
    """Raise unless a results file and samples newer than `started` (seconds since the epoch) lie under `out`."""
    fresh = [path for path in out.rglob("*.json*") if path.stat().st_mtime >= started] if out.exists() else []
    for kind in ("results_", "samples_"):
        if not any(path.name.startswith(kind) for path in fresh):
            raise IllusionError(
                f"{out}: the run ended without writing {kind}*; the harness only warns when saving fails, look for "
                "'Could not save' above and check that the folder is writable"
            )
