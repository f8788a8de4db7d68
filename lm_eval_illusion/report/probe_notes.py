"""Sentences about the probes of a comparison that warn: what was probed, in which run, and on how few items."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.join import Halves, Item
from lm_eval_illusion.report.probe_measures import ProbeFigures
from lm_eval_illusion.report.schema import Note, Row, Settings

__all__ = ["probe_notes"]

MOST_NAMES = 4
"""Probes that a note names where all that were run are meant."""


def probe_notes(row: Row, items: Sequence[Item], dense: str, pruned: str, settings: Settings) -> list[Note]:
    """Notes about the probes of one comparison; none where neither run has any.

    Args:
        row: The overall row.
        items: What was joined.
        dense: Label of the first run.
        pruned: Label of the other run.
        settings: Least sizes.
    """
    sides = (
        (dense, row.dense_probes, [i.dense for i in items]),
        (pruned, row.pruned_probes, [i.pruned for i in items]),
    )
    if all(figures is None for _, figures, _ in sides):
        return []
    notes = _one_sided(row.joined, *((label, _asked(halves)) for label, _, halves in sides))
    for label, figures, halves in sides:
        if figures is not None:
            notes += _partly(label, figures, halves) + _invalid(label, halves) + _few(label, figures, settings)
    return notes


def _asked(halves: Sequence[Halves]) -> set[str]:
    return set().union(*(half.probes for half in halves))


def _one_sided(joined: int, one: tuple[str, set[str]], two: tuple[str, set[str]]) -> list[Note]:
    notes = []
    for (label, mine), (other, theirs) in ((one, two), (two, one)):
        alone = _named(mine - theirs, mine)
        if alone and joined:
            notes.append(
                _note(
                    "warning",
                    f"Probed in {label} alone, so without a comparison: {alone}. Run {other} on the same probes, and "
                    "join the folders of one model with +.",
                )
            )
    return notes


def _partly(label: str, figures: ProbeFigures, halves: Sequence[Halves]) -> list[Note]:
    counts: dict[int, set[str]] = {}
    for name in figures.partly:
        counts.setdefault(sum(name in half.probes for half in halves), set()).add(name)
    there = _asked(halves)
    return [
        _note(
            "info",
            f"{label}: {_named(names, there)} asked on {count} of {len(halves)} items: shares are of these, and what "
            "the probe would spoil is unknown.",
        )
        for count, names in sorted(counts.items())
    ]


def _invalid(label: str, halves: Sequence[Halves]) -> list[Note]:
    broken = {
        name: sum(name in half.probes and not half.probes[name].valid for half in halves)
        for name in CONDITIONS
        if any(name in half.probes for half in halves)
    }
    said = ", ".join(f"{count} {name}" for name, count in broken.items() if count)
    return [_note("warning", f"{label}: probe answers left out as invalid: {said}.")] if said else []


def _few(label: str, figures: ProbeFigures, settings: Settings) -> list[Note]:
    there = {found.probe.partition(" ")[0] for found in figures.recovery}
    counts: dict[int, set[str]] = {}
    for found in figures.recovery:
        if not found.decided:
            counts.setdefault(found.items, set()).add(found.probe.partition(" ")[0])
    parts = [f"{items} of {figures.failures} by {_named(names, there)}" for items, names in sorted(counts.items())]
    if not parts:
        return []
    return [
        _note(
            "warning",
            f"Undecided for {label}: too few failures were probed to say what comes back ({'; '.join(parts)}); it "
            f"takes {settings.min_items} in {settings.min_clusters} passages.",
        )
    ]


def _named(names: set[str], among: set[str]) -> str:
    """Some probes by name, or their number where they are all of many."""
    if names == among and len(names) > MOST_NAMES:
        return f"all {len(names)} probes"
    return ", ".join(name for name in CONDITIONS if name in names)


def _note(level: str, text: str) -> Note:
    return Note.model_validate({"level": level, "text": text})
