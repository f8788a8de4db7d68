"""Where questions come from: a local folder if one is named, else the hub; never a quiet substitute.

Order: the folder given as `illusion_data` in `--metadata`, the folder in `LM_EVAL_ILLUSION_DATA`, the hub at a pinned
revision. A named folder that lacks a file is an error, not a reason to look elsewhere. Packaged questions (the mini
set) need neither.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

from ..errors import IllusionError
from .catalogue import DATASETS, Dataset, dataset_named, require_language
from .hub import hub_content
from .pins import verify
from .questions import Question, load_squad, parse_squad

DATA_VARIABLE = "LM_EVAL_ILLUSION_DATA"
"""Environment variable that names the folder with `tydiqa/` and `xquad/`."""


@dataclass(frozen=True)
class Source:
    """Which source one data set would be read from."""

    dataset: str
    """Name of the data set."""
    kind: str
    """package, folder or hub."""
    where: str
    """Folder, or address and revision."""
    chosen_by: str
    """What made this the source: metadata, the environment variable, or the default."""
    licence: str
    """Licence of the questions."""


def data_folder(folder: str | None) -> tuple[Path, str] | None:
    """Return the local folder to read and what named it, or None when the hub is to be asked."""
    for value, origin in ((folder, "illusion_data"), (os.environ.get(DATA_VARIABLE), DATA_VARIABLE)):
        if value:
            return Path(value).expanduser(), origin
    return None


def describe_source(dataset: str, folder: str | None = None) -> Source:
    """Say which source would be used for a data set, without reading it."""
    entry = dataset_named(dataset)
    if entry.hub_path is None and not entry.own:
        return Source(dataset, "package", "shipped with lm-eval-illusion", "default", entry.licence)
    local = data_folder(folder)
    if local is not None:
        return Source(dataset, "folder", str(local[0]), local[1], entry.licence)
    revision = entry.hub_revision or "main, held to the content pin"
    return Source(dataset, "hub", f"{entry.hub_path} at {revision}", "default", entry.licence)


def describe_sources(folder: str | None = None) -> list[Source]:
    """Say for every data set which source would be used (for `doctor`)."""
    return [describe_source(name, folder) for name in DATASETS]


def _from_folder(entry: Dataset, language: str, folder: Path, origin: str) -> list[Question]:
    path = folder / entry.files[language]
    if not path.is_file():
        raise IllusionError(
            f"{origin} names the folder {folder}, which has no {entry.files[language]}; expected the {entry.name} "
            f"files there ({', '.join(entry.files[code] for code in entry.languages)}); give the folder that holds "
            f"them, or unset {origin} to read {entry.hub_path} from the hub"
        )
    return load_squad(path, dataset=entry.name, language=language, parallel=entry.parallel)


@lru_cache(maxsize=64)
def _load(dataset: str, language: str, folder: Path | None, origin: str) -> tuple[Question, ...]:
    entry = dataset_named(dataset)
    if entry.hub_path is None and not entry.own:
        with as_file(files(__package__).joinpath("mini", entry.files[language])) as path:
            return tuple(load_squad(path, dataset=dataset, language=language, parallel=True))
    if folder is None:
        where = f"hub {entry.hub_path}"
        questions = parse_squad(hub_content(entry, language), dataset, language, parallel=entry.parallel, where=where)
    else:
        where = str(folder / entry.files[language])
        questions = _from_folder(entry, language, folder, origin)
    verify(questions, dataset, language, where)
    return tuple(questions)


def load_questions(dataset: str, language: str, folder: str | None = None) -> tuple[Question, ...]:
    """Load every question of one language, verified against the content pin.

    Args:
        dataset: tydiqa, xquad or illusion_mini.
        language: ISO 639-1 code.
        folder: The folder with `tydiqa/` and `xquad/`; None looks at `LM_EVAL_ILLUSION_DATA`, then at the hub.

    Raises:
        IllusionError: unknown names, a missing file, no network, or content that differs from the pin.
    """
    require_language(dataset_named(dataset), language)
    local = data_folder(folder)
    return _load(dataset, language, *(local or (None, "")))


def check_data(dataset: str, language: str, folder: str | None = None) -> Source:
    """Load one language now, so that missing data is found before a model is; return where it came from."""
    load_questions(dataset, language, folder)
    return describe_source(dataset, folder)
