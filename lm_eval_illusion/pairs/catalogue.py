"""The data sets that can be asked: languages, file names, hub address, licence."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import IllusionError


@dataclass(frozen=True)
class Dataset:
    """One data set and where its questions come from."""

    name: str
    """As in task names and item ids."""
    files: dict[str, str]
    """Language -> path below the data folder; for packaged data, below the package's `mini` folder."""
    licence: str
    """Licence of the questions, named by `doctor`."""
    parallel: bool
    """The same ids exist in every language."""
    hub_path: str | None = None
    """Repository on the Hugging Face hub; None for packaged data."""
    hub_revision: str | None = None
    """Commit; None where none could be verified (the content pin then guards alone)."""
    hub_config: dict[str, str] = field(default_factory=dict)
    """Language -> configuration name on the hub."""
    hub_prefix: dict[str, str] = field(default_factory=dict)
    """Language -> how its ids begin, where one configuration holds all languages."""
    own: bool = False
    """A user's questions, read from the folder that `lm-eval-illusion pair` wrote for them and from nowhere else."""

    @property
    def languages(self) -> tuple[str, ...]:
        """ISO 639-1 codes, sorted."""
        return tuple(sorted(self.files))


_TYDI = {
    "ar": "arabic",
    "bn": "bengali",
    "en": "english",
    "fi": "finnish",
    "id": "indonesian",
    "ko": "korean",
    "ru": "russian",
    "sw": "swahili",
    "te": "telugu",
}
_XQUAD = ("ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
_MINI = ("ar", "de", "en", "hi", "ko", "ru", "sw", "zh")

DATASETS: dict[str, Dataset] = {
    "tydiqa": Dataset(
        name="tydiqa",
        files={code: f"tydiqa/tydiqa-goldp-dev-{name}.json" for code, name in _TYDI.items()},
        licence="Apache 2.0",
        parallel=False,
        hub_path="google-research-datasets/tydiqa",
        hub_config=dict.fromkeys(_TYDI, "secondary_task"),
        hub_prefix={code: f"{name}-" for code, name in _TYDI.items()},
    ),
    "xquad": Dataset(
        name="xquad",
        files={code: f"xquad/xquad.{code}.json" for code in _XQUAD},
        licence="CC BY-SA 4.0",
        parallel=True,
        hub_path="google/xquad",
        hub_revision="51adfef1c1287aab1d2d91b5bead9bcfb9c68583",
        hub_config={code: f"xquad.{code}" for code in _XQUAD},
    ),
    "illusion_mini": Dataset(
        name="illusion_mini",
        files={code: f"{code}.json" for code in _MINI},
        licence="CC0 1.0",
        parallel=True,
    ),
}
"""Every data set the tasks know."""


_own: dict[str, Dataset] = {}


def register_own(dataset: Dataset) -> None:
    """Make a user's own set known by its name to this process; its task files do so when they are loaded."""
    _own[dataset.name] = dataset


def dataset_named(name: str) -> Dataset:
    """Return a data set; an unknown name is an error that lists the known ones."""
    try:
        return DATASETS[name] if name in DATASETS else _own[name]
    except KeyError:
        raise IllusionError(f"unknown data set {name!r}; known: {', '.join(sorted(DATASETS))}") from None


def require_language(dataset: Dataset, language: str) -> None:
    """Raise unless the data set has the language; the error lists what it has."""
    if language not in dataset.files:
        raise IllusionError(f"{dataset.name} has no language {language!r}; it has: {', '.join(dataset.languages)}")
