"""The text that ships with the package, so that calibration works without a network."""

from __future__ import annotations

from importlib import resources

from prune_hooks.calibration.documents import Document
from prune_hooks.calibration.local import split_documents


def builtin_languages() -> list[str]:
    """Return the sorted codes of the languages of the built-in text."""
    return sorted(file.name.removesuffix(".txt") for file in _folder().iterdir() if file.name.endswith(".txt"))


def builtin_documents() -> list[Document]:
    """Return the built-in text: about five paragraphs on everyday matters in each language."""
    return [
        Document(text, language)
        for language in builtin_languages()
        for text in split_documents((_folder() / f"{language}.txt").read_text(encoding="utf-8"))
    ]


def _folder() -> resources.abc.Traversable:
    return resources.files("prune_hooks.calibration") / "builtin"
