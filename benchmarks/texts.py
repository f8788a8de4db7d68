"""Texts by language: one half to calibrate on, the other held out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LEAST = 8
"""Languages that a folder of texts must have."""


def halves(data: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Returns calibration texts and held-out texts by language: the first and the second half of the documents.

    Translations of one document stand at one place in each language, so no half holds a translation of the other.
    """
    from prune_hooks.calibration.local import read_path

    found: dict[str, list[str]] = {}
    for document in read_path(data):
        found.setdefault(document.language, []).append(document.text)
    if len(found) < LEAST:
        raise SystemExit(
            f"--data {data} has text in {', '.join(sorted(found)) or 'no language'}: expected {LEAST} languages or more"
        )
    first = {code: texts[: len(texts) // 2] for code, texts in sorted(found.items())}
    return first, {code: texts[len(texts) // 2 :] for code, texts in sorted(found.items())}


def heldout_rows(texts: dict[str, list[str]], tokenizer: Any, rows: int, length: int) -> dict[str, Any]:
    """Returns language -> (rows, length) int64, evenly spread over the language's held-out text."""
    import torch

    bos = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    found = {}
    for code, documents in texts.items():
        ids = tokenizer("\n\n".join(documents), add_special_tokens=False, verbose=False).input_ids
        body = length - len(bos)
        step = (len(ids) - body) // rows
        if step < 1:
            raise SystemExit(
                f"{code} has {len(ids)} held-out tokens: expected more than {rows} rows of {length}; lower --rows"
            )
        found[code] = torch.tensor([bos + ids[k * step : k * step + body] for k in range(rows)])
    return found


def write_calibration(texts: dict[str, list[str]], folder: Path) -> Path:
    """Writes calibration texts as a folder that `calibration=PATH` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    for code, documents in texts.items():
        lines = [json.dumps({"text": text, "language": code}, ensure_ascii=False) for text in documents]
        (folder / f"calibration.{code}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
