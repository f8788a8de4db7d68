"""Do calibration texts and evaluated passages overlap? Whole texts by their digest, parts of them by sampled hashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from lm_eval_illusion.report.runs import Run
from lm_eval_illusion.report.schema import Overlap
from lm_eval_illusion.report.shingles import RULE, SAMPLED, shingles

__all__ = ["HASH_CAP", "LEAST_SHARED", "find_overlap"]

HASH_CAP = 5000
"""The receipt lists at most this many digests of whole texts; a full list may be cut."""

LEAST_SHARED = 2
"""Sampled stretches that a passage must share with calibration text to count; all of them where it has fewer."""

Found = Literal["whole", "part", "no", "unknown"]


@dataclass(frozen=True)
class _Known:
    """What a receipt tells about calibration text."""

    digests: frozenset[str]
    stretches: frozenset[str] | None
    """None: the receipt lists none, or by another rule."""
    largest: str | None
    """Above this hash the list was cut; None: it is whole."""

    @property
    def all_digests(self) -> bool:
        """Whether a digest that is not listed is no calibration text."""
        return len(self.digests) < HASH_CAP


def find_overlap(run: Run) -> Overlap:
    """Compare a run's calibration text, as its receipt tells, with the passages of every item of this run.

    Raises:
        AttributeError: The receipt is damaged.
        TypeError: The receipt is damaged.
    """
    receipt = run.facts.receipt
    if receipt is None:
        return _without("unchecked", "the run carries no pruning receipt")
    if (receipt.get("spec") or {}).get("method") == "none":
        return _without("not pruned", "nothing was pruned")
    if not receipt.get("calibration"):
        return _without("no calibration", "the method used no calibration text")
    known = _read(receipt["calibration"])
    if not known.digests:
        return _without("unchecked", "the receipt lists no text hashes (token rows were given)")
    passages = {
        item_id: (run.documents[item_id].passage if item_id in run.documents else "", record.half.passage_sha256)
        for records in run.halves.values()
        for item_id, record in records.items()
    }
    judged = {passage: _judge(known, *passage) for passage in set(passages.values())}
    found = [judged[passage] for passage in passages.values()]
    counts = {kind: sum(kind == one for one, _ in found) for kind in ("whole", "part", "unknown")}
    by_parts = sum(parts for _, parts in found)
    return _said(known, len(found), counts, by_parts)


def _without(status: Literal["unchecked", "not pruned", "no calibration"], why: str) -> Overlap:
    return Overlap(status=status, hashes=0, stretches=0, items=0, why=why)


def _read(calibration: Mapping[str, Any]) -> _Known:
    digests = frozenset(calibration.get("text_hashes") or [])
    table = calibration.get("shingles") or {}
    if table.get("rule") != RULE:
        return _Known(digests, None, None)
    hashes = frozenset(table["hashes"])
    return _Known(digests, hashes, max(hashes) if table.get("cut") and hashes else None)


@lru_cache(maxsize=1 << 14)
def _stretches(passage: str) -> frozenset[str]:
    """Return a passage's sampled hashes; all runs of a report have the same passages."""
    return frozenset(shingles(passage))


def _judge(known: _Known, passage: str, digest: str | None) -> tuple[Found, bool]:
    """Return what was found of one passage, and whether its parts could be looked for."""
    sampled: set[str] = set()
    if known.stretches is not None:
        sampled = {one for one in _stretches(passage) if known.largest is None or one <= known.largest}
    if digest in known.digests:
        return "whole", bool(sampled)
    if sampled:
        shared = len(sampled & (known.stretches or frozenset()))
        return ("part" if shared >= min(LEAST_SHARED, len(sampled)) else "no"), True
    return ("no" if digest and known.all_digests else "unknown"), False


def _said(known: _Known, items: int, counts: Mapping[str, int], by_parts: int) -> Overlap:
    stretches = len(known.stretches or ())
    hits = counts["whole"] + counts["part"]
    if hits:
        why = f"{counts['whole']} whole passages are calibration texts, {counts['part']} share running text with them"
        status: Literal["overlap", "unchecked", "none"] = "overlap"
    elif counts["unknown"]:
        status, why = "unchecked", f"{counts['unknown']} of {items} items could not be checked: no passage hash"
        if not known.all_digests:
            why = (
                f"the receipt stops at {HASH_CAP} texts and {counts['unknown']} of {items} items could be compared "
                "with whole texts only"
            )
    elif known.stretches is None:
        status = "none"
        why = "no calibration document is an evaluated passage; passages inside longer documents were not looked for"
    else:
        status = "none"
        whole = f"; {items - by_parts} items' passages as wholes only" if by_parts < items else ""
        why = (
            f"{by_parts} of {items} items' passages looked for in parts, by a sample of 1 in {SAMPLED} of all "
            f"stretches of 13 words or 39 characters{whole}"
        )
    return Overlap(status=status, hashes=len(known.digests), stretches=stretches, items=hits, why=why)
