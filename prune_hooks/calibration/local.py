"""Calibration text from files: .txt, .jsonl, SQuAD-format .json, or a folder of these."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prune_hooks.calibration.documents import Document
from prune_hooks.calibration.languages import language_of
from prune_hooks.errors import PruneError

SHOWN_BAD_ROWS = 3
"""How many bad rows of a JSONL file an error names before it only counts."""


def read_path(path: Path) -> list[Document]:
    """Read the documents of a file, or of all files with a known suffix below a folder.

    Args:
        path: an existing .txt file (documents set apart by blank lines), .jsonl file (an object with "text" and
            perhaps "language" on each line), SQuAD-format .json file (each paragraph's context), or folder.

    Returns:
        At least one document; the language is the row's own, else the one in the file's name, else "und".

    Raises:
        PruneError: unknown suffix, unreadable or malformed content, or no text.
    """
    documents = [document for file in _files(path) for document in READERS[file.suffix.lower()](file)]
    if not documents:
        raise PruneError(f"calibration path {path} holds no text: put documents into it, or set calibration=builtin")
    return documents


def split_documents(text: str) -> list[str]:
    """Split a text into its documents, which blank lines set apart."""
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def _files(path: Path) -> list[Path]:
    known = ", ".join(READERS)
    if path.is_file():
        if path.suffix.lower() not in READERS:
            raise PruneError(
                f"calibration file {path} has suffix {path.suffix!r}, expected one of {known}: rename or convert it"
            )
        return [path]
    files = sorted(f for f in path.rglob("*") if f.is_file() and f.suffix.lower() in READERS)
    if not files:
        raise PruneError(f"calibration folder {path} has no file with suffix {known}: put text files into it")
    return files


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PruneError(
            f"calibration file {file} is not UTF-8 (byte {error.start}): convert it, e.g. with iconv -t UTF-8"
        ) from error
    except OSError as error:
        raise PruneError(f"calibration file {file} cannot be read ({error.strerror}): check its permissions") from error


def _read_txt(file: Path) -> list[Document]:
    return [Document(text, language_of(file)) for text in split_documents(_read(file))]


def _read_jsonl(file: Path) -> list[Document]:
    documents, bad = [], []
    for number, line in enumerate(_read(file).split("\n"), start=1):
        if not line.strip():
            continue
        row, fault = _parse_row(line)
        if fault:
            bad.append(f"line {number} ({fault})")
        else:
            documents.append(Document(row["text"].strip(), row.get("language") or language_of(file)))
    if bad:
        shown = "; ".join(bad[:SHOWN_BAD_ROWS]) + ("; ..." if len(bad) > SHOWN_BAD_ROWS else "")
        raise PruneError(
            f"calibration file {file} has {len(bad)} bad rows: {shown}; "
            'expected {"text": "...", "language": "sw"} on each line: mend or remove them'
        )
    return documents


def _parse_row(line: str) -> tuple[dict[str, Any], str]:
    try:
        row = json.loads(line)
    except ValueError as error:
        return {}, f"not JSON: {error}"
    if not isinstance(row, dict):
        return {}, f"a {type(row).__name__}, not an object"
    if not isinstance(row.get("text"), str) or not row["text"].strip():
        return {}, 'no "text"' if "text" not in row else '"text" is empty or not a string'
    if not isinstance(row.get("language", ""), str):
        return {}, '"language" is not a string'
    return row, ""


def _read_squad(file: Path) -> list[Document]:
    try:
        articles = json.loads(_read(file))["data"]
        contexts = [str(paragraph["context"]) for article in articles for paragraph in article["paragraphs"]]
    except (ValueError, KeyError, TypeError) as error:
        raise PruneError(
            f'calibration file {file} is not in SQuAD format ({{"data": [{{"paragraphs": [{{"context": ...}}]}}]}}): '
            "other text goes into .txt or .jsonl files"
        ) from error
    return [Document(context.strip(), language_of(file)) for context in contexts if context.strip()]


READERS: dict[str, Callable[[Path], list[Document]]] = {".txt": _read_txt, ".jsonl": _read_jsonl, ".json": _read_squad}
"""Suffix -> reader of one file."""
