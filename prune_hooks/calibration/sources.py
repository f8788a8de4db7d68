"""From the `calibration` options of a PruneSpec to rows of tokens."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from prune_hooks.calibration import hub
from prune_hooks.calibration.builtin import builtin_documents
from prune_hooks.calibration.documents import UNKNOWN_LANGUAGE, Document
from prune_hooks.calibration.local import read_path
from prune_hooks.calibration.packing import CalibrationSet, bos_ids, pack, take
from prune_hooks.calibration.ready import ready_rows
from prune_hooks.errors import PruneError
from prune_hooks.shares import Wanted, parse_languages

HUB_SOURCES = ("c4", "mc4")
DEFAULT_SAMPLES = 128
DEFAULT_LENGTH = 2_048
"""The published protocol: 128 rows of 2,048 tokens."""

BUILTIN_LENGTH = 512
"""Row length for the built-in text, which holds too few tokens for the published protocol."""

CHARACTERS_PER_TOKEN = 12
"""Text read from the hub per token needed: more than any tokenizer packs, and enough for the seed to choose from."""


def load_rows(
    calibration: str | os.PathLike[str] | CalibrationSet | torch.Tensor | Sequence[Sequence[int]],
    tokenizer: Any,
    *,
    languages: tuple[str, ...] = (),
    samples: int | None = None,
    length: int | None = None,
    seed: int = 0,
) -> CalibrationSet:
    """Make calibration rows; the same arguments and texts always give the same rows.

    Args:
        calibration: "builtin", "c4", "mc4", a path to text (see `local.read_path`), ready token rows (n, length), or a
            set that was made before.
        tokenizer: the model's own tokenizer; None is allowed with token rows.
        languages: codes that share the tokens equally, or as `shares` spells other shares; empty means all of the
            built-in text in equal shares, all text of a path as it comes, and English for c4.
        samples: number of rows; None means 128, or what the built-in text or the given rows hold.
        length: tokens per row, BOS included; None means 2,048, or at most 512 for the built-in text.
        seed: decides which documents are used, and their order.

    Raises:
        PruneError: nothing there by that name, a language that is missing, too little text, or malformed content.
    """
    if samples is not None and samples < 1:
        raise PruneError(f"calibration_samples is {samples}: expected 1 or more")
    if length is not None and length < 2:
        raise PruneError(f"calibration_length is {length}: expected 2 or more tokens")
    if not isinstance(calibration, (str, os.PathLike)):
        if languages:
            raise PruneError("calibration is token rows, which have no languages: leave calibration_languages out")
        return ready_rows(calibration, tokenizer, samples=samples, length=length)
    if tokenizer is None:
        raise PruneError(f"calibration={calibration} needs a tokenizer: pass the model's own, or ready token rows")
    source, wanted = os.fspath(calibration), parse_languages(languages)
    if source == "builtin":
        return _pack_builtin(tokenizer, wanted, samples, length, seed)
    samples, length = samples or DEFAULT_SAMPLES, length or DEFAULT_LENGTH
    if source in HUB_SOURCES:
        characters = CHARACTERS_PER_TOKEN * samples * length // max(1, len(wanted.codes))
        if wanted.unequal and wanted.codes:
            largest = max(wanted.shares(wanted.codes).values())
            characters = math.ceil(CHARACTERS_PER_TOKEN * samples * length * largest)
        documents = hub.hub_documents(source, wanted.codes, characters)
        groups = _by_language(source, documents, wanted.codes)
        return _pack(wanted, groups, tokenizer, source=hub.describe(source), samples=samples, length=length, seed=seed)
    documents = read_path(_existing(source))
    groups = _by_language(source, documents, wanted.codes) if languages else {"": documents}
    return _pack(wanted, groups, tokenizer, source=source, samples=samples, length=length, seed=seed)


def check_source(source: str, languages: Sequence[str]) -> None:
    """Finds what keeps a source from being read that can be found without a tokenizer; the hub is asked for an answer.

    Raises:
        PruneError: languages that do not go with it, the hub out of reach, or no such path.
    """
    wanted = parse_languages(languages)
    if source in HUB_SOURCES:
        hub.check_languages(source, wanted.codes)
        hub.check_reachable(source)
    elif source != "builtin":
        _existing(source)


def _existing(source: str) -> Path:
    path = Path(source).expanduser()
    if not source.strip() or not path.exists():
        known = ", ".join(("builtin", *HUB_SOURCES))
        raise PruneError(
            f"calibration {source!r} is none of {known} and no such path exists: set calibration=builtin, or a .txt, "
            ".jsonl, SQuAD .json or a folder of these"
        )
    return path


def _weights(wanted: Wanted, groups: Mapping[str, Sequence[Document]]) -> dict[str, float] | None:
    return wanted.shares(list(groups)) if wanted.unequal else None


def _pack(wanted: Wanted, groups: Mapping[str, Sequence[Document]], tokenizer: Any, **how: Any) -> CalibrationSet:
    """Pack groups in the shares asked for; a language that was named gets at least one token."""
    return pack(groups, tokenizer, weights=_weights(wanted, groups), may_be_empty=not wanted.codes, **how)


def _by_language(source: str, documents: Sequence[Document], languages: Sequence[str]) -> dict[str, list[Document]]:
    """Group documents by language, keeping the chosen ones (all if none is chosen)."""
    groups: dict[str, list[Document]] = {}
    for document in documents:
        groups.setdefault(document.language, []).append(document)
    missing = [language for language in languages if language not in groups]
    if missing:
        there = ", ".join(sorted(groups)) or "none"
        hint = (
            "name files like NAME.en.txt or give JSONL rows a language"
            if UNKNOWN_LANGUAGE in groups
            else ("choose among these")
        )
        raise PruneError(
            f"calibration {source} has no text in {', '.join(missing)}; languages there: {there}: set "
            f"calibration_languages, {hint}"
        )
    return {language: groups[language] for language in (languages or groups)}


def _pack_builtin(tokenizer: Any, wanted: Wanted, samples: int | None, length: int | None, seed: int) -> CalibrationSet:
    """Pack the built-in text; what was not asked for is set to what the text holds."""
    groups = _by_language("builtin", builtin_documents(), wanted.codes)
    weights = _weights(wanted, groups)
    bos = len(bos_ids(tokenizer))
    found = {name: len(take(group, tokenizer, None, seed).tokens) for name, group in groups.items()}
    usable = len(groups) * min(found.values())
    if weights is not None:
        usable = min(int(found[name] / share) for name, share in weights.items()) - len(groups)
    if length is None:
        length = max(2, min(BUILTIN_LENGTH, usable // (samples or 1) + bos))
    if samples is None:
        samples = max(1, usable // (length - bos))
    return _pack(wanted, groups, tokenizer, source="builtin", samples=samples, length=length, seed=seed)
