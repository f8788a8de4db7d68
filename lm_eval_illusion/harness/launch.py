"""Runs the harness's own command line, with what a paired evaluation needs made sure of before and after.

Before: the samples are logged somewhere, and the data of our tasks can be had (the harness loads data after the model).
After: the files of the run are really there (the harness turns a failed save into a warning and exits with 0).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import names, plugin
from lm_eval_illusion.pairs.sources import check_data


@dataclass(frozen=True)
class Asked:
    """What a command line of `lm_eval run` asks for, as far as it matters here."""

    tasks: tuple[str, ...]
    """Names, groups and patterns."""
    metadata: dict[str, Any]
    """`--metadata`."""
    output_path: str | None
    """`--output_path`."""
    log_samples: bool
    """`--log_samples`."""
    cache_requests: bool
    """Whether `--cache_requests` was given."""


def read_arguments(argv: Sequence[str]) -> Asked:
    """Read arguments with the harness's own parser, its `--config` file included.

    Raises:
        SystemExit: As argparse does, for words the harness does not know.
        IllusionError: If the configuration file cannot be read.
    """
    from lm_eval._cli import HarnessCLI

    given = {
        key: value for key, value in vars(HarnessCLI()._parser.parse_args(["run", *argv])).items() if value is not None
    }
    if "config" in given:
        given = {**_config_file(Path(str(given["config"]))), **given}
    tasks = given.get("tasks") or []
    listed = tasks.split(",") if isinstance(tasks, str) else [name for part in tasks for name in str(part).split(",")]
    return Asked(
        tasks=tuple(name for name in listed if name),
        metadata=dict(given.get("metadata") or {}),
        output_path=given.get("output_path"),
        log_samples=bool(given.get("log_samples")),
        cache_requests=bool(given.get("cache_requests")),
    )


def _config_file(path: Path) -> dict[str, Any]:
    import yaml

    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise IllusionError(f"--config {path}: cannot be read ({' '.join(str(error).split())})") from error
    return held if isinstance(held, dict) else {}


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


def run(argv: Sequence[str]) -> Path:
    """Run `lm_eval run` in this process.

    Args:
        argv: Arguments of `lm_eval run`.

    Returns:
        The output folder.

    Raises:
        IllusionError: If the data is missing or the run left no results or no samples.
    """
    words, out = completed(argv)
    asked = read_arguments(words)
    check_data_of(asked.tasks, asked.metadata.get("illusion_data"))
    plugin.register()
    from lm_eval.__main__ import cli_evaluate

    started = time.time() - 1
    kept = sys.argv
    try:
        sys.argv = ["lm_eval", "run", *words]
        cli_evaluate()
    finally:
        sys.argv = kept
    if int(os.environ.get("RANK", "0")) == 0:
        verify_saved(out, started)
    return out


def verify_saved(out: Path, started: float) -> None:
    """Raise unless a results file and samples newer than `started` (seconds since the epoch) lie under `out`."""
    fresh = [path for path in out.rglob("*.json*") if path.stat().st_mtime >= started] if out.exists() else []
    for kind in ("results_", "samples_"):
        if not any(path.name.startswith(kind) for path in fresh):
            raise IllusionError(
                f"{out}: the run ended without writing {kind}*; the harness only warns when saving fails, look for "
                "'Could not save' above and check that the folder is writable"
            )
