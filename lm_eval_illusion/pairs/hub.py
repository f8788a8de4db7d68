"""Reading a data set from the Hugging Face hub; a machine without network hears so within seconds."""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import urlparse

from ..errors import IllusionError
from .catalogue import Dataset

PROBE_SECONDS = 3.0
"""How long to wait for the hub to answer before calling it unreachable."""
_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def hub_reachable() -> bool:
    """Say whether the hub's address accepts connections; behind a proxy this cannot be probed and counts as yes."""
    if any(os.environ.get(name) for name in _PROXIES):
        return True
    address = urlparse(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        with socket.create_connection((address.hostname or "", address.port or 443), timeout=PROBE_SECONDS):
            return True
    except OSError:
        return False


def _rows(entry: Dataset, language: str) -> Any:
    import datasets

    config = datasets.DownloadConfig(local_files_only=not hub_reachable(), max_retries=0)
    return datasets.load_dataset(
        entry.hub_path,
        entry.hub_config[language],
        split="validation",
        revision=entry.hub_revision,
        download_config=config,
    )


def hub_content(entry: Dataset, language: str) -> dict[str, Any]:
    """Load one language from the hub and return it in SQuAD form, paragraph by paragraph.

    This path could not be tried against the real hub by the project's own tests, which have no network; the content pin
    guards it: other questions than the pinned ones are refused.

    Raises:
        IllusionError: the hub cannot be reached and the data set is not in the cache, or anything else the loader says.
    """
    if not hub_reachable() and not _is_cached(entry):
        raise IllusionError(_both_ways(entry, "the hub cannot be reached"))
    try:
        rows = _rows(entry, language)
    except Exception as error:  # the loader raises a wide family: offline, missing, gated, changed format
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise IllusionError(_both_ways(entry, first)) from None
    prefix = entry.hub_prefix.get(language, "")
    paragraphs: dict[str, dict[str, Any]] = {}
    for row in rows:
        if str(row["id"]).startswith(prefix):
            paragraph = paragraphs.setdefault(
                row["context"], {"title": row.get("title") or "", "context": row["context"], "qas": []}
            )
            answers = [{"text": text} for text in row["answers"]["text"]]
            paragraph["qas"].append({"id": row["id"], "question": row["question"], "answers": answers})
    return {"data": [{"title": p["title"], "paragraphs": [p]} for p in paragraphs.values()]}


def _is_cached(entry: Dataset) -> bool:
    from huggingface_hub import constants

    return os.path.isdir(os.path.join(constants.HF_HUB_CACHE, "datasets--" + str(entry.hub_path).replace("/", "--")))


def _both_ways(entry: Dataset, found: str) -> str:
    return (
        f"no {entry.name} questions: {found}, and no local folder is named; set LM_EVAL_ILLUSION_DATA to a folder "
        f"with {entry.name}/ (check and sweep: --data FOLDER; lm_eval: --metadata "
        f'\'{{"illusion_data": "FOLDER"}}\'), or connect so that {entry.hub_path} can be downloaded; '
        "illusion_mini needs neither"
    )
