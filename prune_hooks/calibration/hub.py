"""Calibration text from the hub: C4 (English) and mC4 (by language), streamed at a pinned revision."""

from __future__ import annotations

import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from prune_hooks.calibration.documents import Document
from prune_hooks.errors import PruneError

REPOSITORY = "allenai/c4"
REVISION = "1588ec454efa1a09f29cd18ddd04fe05fc8653a2"
"""Commit of the dataset repository; it holds C4 ("en") and the languages of mC4 as one configuration each."""

FIRST_SHARD = "en/c4-train.00000-of-01024.json.gz"
"""The file of C4 that the published pruning methods draw from."""

PROBE_SECONDS = 5.0
"""How long the hub may take to answer at all; the libraries' own retries would take half a minute."""

WAYS_ON = "set calibration=builtin, or calibration=PATH to a .txt, .jsonl or folder"


def hub_documents(name: str, languages: Sequence[str], characters: int) -> list[Document]:
    """Stream the first documents of C4 or mC4.

    Args:
        name: "c4" or "mc4".
        languages: codes; for c4 empty or ("en",), for mc4 at least one.
        characters: stop each language after this many characters.

    Raises:
        PruneError: wrong languages, `datasets` missing, the hub out of reach (known within seconds) or its answer bad.
    """
    wanted = check_languages(name, languages)
    check_reachable(name)
    documents: list[Document] = []
    for language in wanted:
        taken = 0
        for text in _texts(name, language):
            if taken >= characters:
                break
            taken += len(text)
            if text.strip():
                documents.append(Document(text.strip(), language))
    return documents


def describe(name: str) -> str:
    """Return what the receipt says about the source, with its revision."""
    return f"{name} ({REPOSITORY}@{REVISION})"


def check_reachable(name: str) -> None:
    """Raise a PruneError within seconds if the hub cannot be reached, or may not be (HF_HUB_OFFLINE)."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise PruneError(f"calibration={name} needs the hub but HF_HUB_OFFLINE is set: unset it, or {WAYS_ON}")
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    try:
        _ask(endpoint)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise PruneError(
            f"calibration={name} needs {endpoint}, which cannot be reached ({reason}): {WAYS_ON}"
        ) from error


@cache
def _ask(endpoint: str) -> None:
    """Ask a hub for a sign of life, once a process; a refusal is not remembered."""
    try:
        urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=PROBE_SECONDS).close()
    except urllib.error.HTTPError:
        return
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ssl.SSLError):
            raise
        # A proxy with its own certificate answers; the hub's client may trust it.


def check_languages(name: str, languages: Sequence[str]) -> tuple[str, ...]:
    """Return the languages to read; a PruneError for those that do not go with C4 or mC4."""
    if name == "mc4":
        if not languages:
            raise PruneError("calibration=mc4 has no languages chosen: set calibration_languages, e.g. en+sw")
        return tuple(languages)
    if tuple(languages) not in {(), ("en",)}:
        raise PruneError(
            f"calibration=c4 is English only, calibration_languages is {'+'.join(languages)}: set calibration=mc4"
        )
    return ("en",)


def _texts(name: str, language: str) -> Iterable[str]:
    try:
        for row in _stream(name, language):
            yield str(row["text"])
    except ImportError as error:
        raise PruneError(
            f"calibration={name} needs the package datasets: pip install datasets, or {WAYS_ON}"
        ) from error
    except Exception as error:  # the hub's client has no common base class of errors
        message = " ".join(str(error).split())[:200]
        raise PruneError(
            f"calibration={name} could not read {language!r} from {REPOSITORY}@{REVISION[:7]} "
            f"({type(error).__name__}: {message}): check the language code, or {WAYS_ON}"
        ) from error


def _stream(name: str, language: str) -> Iterable[dict[str, Any]]:
    from datasets import load_dataset

    where: dict[str, Any] = {"data_files": {"train": FIRST_SHARD}} if name == "c4" else {"name": language}
    rows: Iterable[dict[str, Any]] = load_dataset(REPOSITORY, **where, split="train", streaming=True, revision=REVISION)
    return rows
