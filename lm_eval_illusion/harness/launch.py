"""Runs the harness's own command line, with what a paired evaluation needs made sure of before and after.

Before: the samples are logged somewhere, and the data of our tasks can be had (the harness loads data after the model).
After: the files of the run are really there (the harness turns a failed save into a warning and exits with 0).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import names, plugin
from lm_eval_illusion.pairs.sources import check_data


def option(argv: Sequence[str], name: str) -> list[str] | None:
    """Return the values after an option of the command line (`--name a b` or `--name=a`); None if it is absent."""
    for index, word in enumerate(argv):
        if word == name:
            values = []
            for value in argv[index + 1 :]:
                if value.startswith("-") and not value.lstrip("-")[:1].isdigit():
                    break
                values.append(value)
            return values
        if word.startswith(f"{name}="):
            return [word[len(name) + 1 :]]
    return None


def completed(argv: Sequence[str]) -> tuple[list[str], Path]:
    """Return the arguments with `--log_samples` and `--output_path`, and the output folder.

    Raises:
        IllusionError: For `--cache_requests`, whose files ignore the data folder and the number of items.
    """
    if option(argv, "--cache_requests") is not None:
        raise IllusionError(
            "--cache_requests: the harness's request cache ignores --metadata and the data folder, so it would serve "
            "stale items; leave it out"
        )
    words = list(argv)
    if "--log_samples" not in words and "-s" not in words:
        words.append("--log_samples")
    out = option(words, "--output_path") or option(words, "-o")
    if not out:
        out = [str(Path("runs") / time.strftime("%Y-%m-%dT%H-%M-%S"))]
        words += ["--output_path", out[0]]
    return words, Path(out[0])


def metadata_of(argv: Sequence[str]) -> dict[str, Any]:
    """Return what `--metadata` says, as far as our tasks read it (JSON or key=value)."""
    found: dict[str, Any] = {}
    for value in option(argv, "--metadata") or []:
        if value.lstrip().startswith("{"):
            try:
                found |= json.loads(value)
            except json.JSONDecodeError as error:
                raise IllusionError(
                    f"--metadata: {value!r} is not JSON ({error}); quote it as '{{\"key\": 1}}'"
                ) from error
        else:
            found |= dict(part.partition("=")[::2] for part in value.split(",") if part)
    return found


def check_first(argv: Sequence[str]) -> None:
    """Load the data of our tasks now: a missing file should not cost a pruned model.

    Raises:
        IllusionError: If neither a local folder nor the hub has the data.
    """
    asked = [name for value in option(argv, "--tasks") or option(argv, "-t") or [] for name in value.split(",")]
    folder = metadata_of(argv).get("illusion_data")
    for dataset, language in dict.fromkeys((t.dataset, t.language) for t in names.expand(asked)):
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
    check_first(words)
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
