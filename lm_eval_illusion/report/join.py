"""Join two runs item by item: pairs of pairs, and what had to stay outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.halves import HALVES, ChoiceHalf, GenerationHalf, Half
from lm_eval_illusion.report.runs import Run

__all__ = ["Halves", "Item", "Joined", "Outside", "gather", "join_runs"]


@dataclass(frozen=True, slots=True)
class Halves:
    """What one model did with one item; None where the condition was not run."""

    near: ChoiceHalf | None
    far: ChoiceHalf | None
    generation: GenerationHalf | None
    probes: Mapping[str, Half] = field(default_factory=dict, compare=False)
    """Further condition -> what it showed, valid or not; only those that were run on this item."""

    def all(self) -> list[Half]:
        """The halves of the pair that were run."""
        return [half for half in (self.near, self.far, self.generation) if half is not None]


@dataclass(frozen=True, slots=True)
class Item:
    """One question that both models met under every condition, valid in all of them."""

    item_id: str
    dataset: str
    language: str
    cluster: str
    """Passage key, unique within a dataset; items of one cluster are not independent."""
    passage_sha256: str | None
    dense: Halves
    pruned: Halves


@dataclass(frozen=True, slots=True)
class Outside:
    """An item that is counted but not compared."""

    item_id: str
    dataset: str
    language: str
    reason: str
    """`unmatched_dense` (complete there only), `unmatched_pruned`, `unmatched_both` (each lacks a half), or why it is
    invalid: `does_not_fit`, `non_finite`, ...
    """


@dataclass(frozen=True)
class Joined:
    """Items sorted by id, those outside, and which halves of the pair each dataset and language had."""

    items: tuple[Item, ...]
    outside: tuple[Outside, ...]
    conditions: Mapping[tuple[str, str], frozenset[str]]


def join_runs(first: Run, other: Run) -> Joined:
    """Join on the stable item id; the order of files and lines plays no part.

    An item is unmatched where one run lacks it, or lacks one of the conditions which its language was run under;
    excluded where it is invalid in any half of either run. Only the halves of the pair decide that; probes are
    attached to whatever is joined.

    Raises:
        IllusionError: No item is left to compare.
    """
    conditions: dict[tuple[str, str], set[str]] = {}
    for run in (first, other):
        for condition in HALVES:
            records = run.halves.get(condition, {})
            for record in records.values():
                conditions.setdefault((record.half.dataset, record.half.language), set()).add(condition)
    one, two = _by_item(first), _by_item(other)
    one_probes, two_probes = _by_item(first, probes=True), _by_item(other, probes=True)
    items: list[Item] = []
    outside: list[Outside] = []
    for item_id in sorted(one.keys() | two.keys()):
        found = [halves for halves in (one.get(item_id), two.get(item_id)) if halves]
        any_half = next(iter(found[0].values()))
        place = (any_half.dataset, any_half.language)
        needed = conditions[place]
        has_first, has_other = needed <= one.get(item_id, {}).keys(), needed <= two.get(item_id, {}).keys()
        if not (has_first and has_other):
            reason = "unmatched_dense" if has_first else "unmatched_pruned" if has_other else "unmatched_both"
            outside.append(Outside(item_id, *place, reason))
            continue
        invalid = sorted(str(h.invalid_reason or "invalid") for halves in found for h in halves.values() if not h.valid)
        if invalid:
            outside.append(Outside(item_id, *place, invalid[0]))
            continue
        items.append(
            Item(
                item_id,
                *place,
                any_half.cluster,
                any_half.passage_sha256,
                gather({**one[item_id], **one_probes.get(item_id, {})}),
                gather({**two[item_id], **two_probes.get(item_id, {})}),
            )
        )
    if not items:
        raise IllusionError(_nothing_left(first, other, outside))
    return Joined(tuple(items), tuple(outside), {key: frozenset(value) for key, value in conditions.items()})


def _by_item(run: Run, *, probes: bool = False) -> dict[str, dict[str, Half]]:
    table: dict[str, dict[str, Half]] = {}
    for condition in sorted(name for name in run.halves if (name not in HALVES) == probes):
        for item_id, record in run.halves[condition].items():
            table.setdefault(item_id, {})[condition] = record.half
    return table


def gather(found: Mapping[str, Half]) -> Halves:
    """What one model did with one item, from its records by condition."""
    near, far, generation = (found.get(name) for name in HALVES)
    assert near is None or isinstance(near, ChoiceHalf)
    assert far is None or isinstance(far, ChoiceHalf)
    assert generation is None or isinstance(generation, GenerationHalf)
    return Halves(near, far, generation, {name: half for name, half in found.items() if name not in HALVES})


def _nothing_left(first: Run, other: Run, outside: list[Outside]) -> str:
    counts: dict[str, int] = {}
    for item in outside:
        counts[item.reason] = counts.get(item.reason, 0) + 1
    said = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in sorted(counts.items()))
    return (
        f"zero items joined between {first.path} and {other.path} ({said}); expected the same items in both: "
        "run both with "
        "the same --limit, illusion_items_per_language and data"
    )
