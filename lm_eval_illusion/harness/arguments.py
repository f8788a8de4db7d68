"""The arguments of `lm_eval run`, read by the harness's own parser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError


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
    model: str = "hf"
    """`--model`."""
    include_path: str | None = None
    """`--include_path`."""


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
        model=str(given.get("model") or "hf"),
        include_path=given.get("include_path"),
    )


def _config_file(path: Path) -> dict[str, Any]:
    import yaml

    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise IllusionError(f"--config {path}: cannot be read ({' '.join(str(error).split())})") from error
    return held if isinstance(held, dict) else {}


def without_tasks(words: Sequence[str]) -> list[str]:
    """Return arguments without `--tasks` and its values: the harness adds up what several of them name."""
    kept: list[str] = []
    dropping = False
    for word in words:
        if word.startswith("-"):
            option = word.partition("=")[0]
            dropping = word.startswith("-t") or (len(option) > 3 and "--tasks".startswith(option))
        if not dropping:
            kept.append(word)
    return kept
