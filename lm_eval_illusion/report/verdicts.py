"""What became of an item: produced, demoted, recognised only, lost. The rule is one pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.columns import FLAGS
from lm_eval_illusion.report.halves import MATCHERS, NORMALISERS, GenerationHalf, Half, SeveralHalf
from lm_eval_illusion.report.join import Halves
from lm_eval_illusion.report.probe_measures import VERDICTS, VerdictCounts

__all__ = ["CONTROL_LIMIT", "count_moves", "count_verdicts", "form_failures", "item_verdict", "recoveries", "verdict"]

CONTROL_LIMIT = 0.5
"""A probe whose answer hits this share of the item's own wrong targets (all of them, in the prompt or not), or more,
recovers nothing."""


def verdict(produced: bool, recovered: Sequence[bool], recognised: bool) -> str:
    """The verdict on one item, one of `VERDICTS`.

    Args:
        produced: The open answer is right.
        recovered: For each recovering probe that was run on the item, whether it recovered it.
        recognised: Multiple choice is right against near or far options.
    """
    if produced:
        return "produced"
    if any(recovered):
        return "demoted"
    if not recovered:
        return "unprobed"
    return "recognised_only" if recognised else "lost"


def recoveries(probes: Mapping[str, Half]) -> dict[str, bool]:
    """Whether each recovering probe that was run on an item recovered it, at the item's own control.

    Args:
        probes: Condition -> record; an invalid one counts as not run.
    """
    found = {}
    for name, half in probes.items():
        if CONDITIONS[name].recovers and half.valid and isinstance(half, GenerationHalf | SeveralHalf):
            assert half.chance is not None
            found[name] = bool(half.right[MATCHERS[0]]) and half.chance < CONTROL_LIMIT
    return dict(sorted(found.items(), key=lambda pair: list(CONDITIONS).index(pair[0])))


def item_verdict(halves: Halves) -> str | None:
    """The verdict on an item as one model answered it; None without a valid open answer."""
    written = halves.generation
    if written is None or not written.valid:
        return None
    recognised = [half for half in (halves.near, halves.far) if half is not None and half.valid]
    return verdict(
        bool(written.right[MATCHERS[0]]),
        list(recoveries(halves.probes).values()),
        any(bool(half.right[NORMALISERS[0]]) for half in recognised),
    )


def form_failures(written: GenerationHalf) -> list[str]:
    """How the form of an open answer failed, of `FLAGS`; what is not known is left out."""
    return [flag for flag in FLAGS if written.flags.get(flag)]


def count_verdicts(asked: Asked) -> VerdictCounts | None:
    """Items by verdict; None without open generation, or where no recovering probe was run."""
    found = _verdicts(asked)
    if found is None:
        return None
    by_probe = dict.fromkeys((name for name in CONDITIONS if name in asked.probes() and CONDITIONS[name].recovers), 0)
    failures = {name: dict.fromkeys(FLAGS, 0) for name in VERDICTS}
    shown_alone = 0
    for halves, name in zip(asked.halves, found, strict=True):
        assert halves.generation is not None
        for flag in form_failures(halves.generation):
            failures[name][flag] += 1
        if name == "demoted":
            by = [probe for probe, recovered in recoveries(halves.probes).items() if recovered]
            shown_alone += by == ["shown"]
            for probe in by:
                by_probe[probe] += 1
    return VerdictCounts(
        items=len(found),
        counts={name: found.count(name) for name in VERDICTS},
        demoted_by=by_probe,
        demoted_by_shown_alone=shown_alone,
        failures=failures,
    )


def count_moves(dense: Asked, pruned: Asked) -> dict[str, dict[str, int]] | None:
    """Dense verdict -> pruned verdict -> items, as a full table; None where either model has no verdicts."""
    before, after = _verdicts(dense), _verdicts(pruned)
    if before is None or after is None:
        return None
    table = {name: dict.fromkeys(VERDICTS, 0) for name in VERDICTS}
    for one, two in zip(before, after, strict=True):
        table[one][two] += 1
    return table


def _verdicts(asked: Asked) -> list[str] | None:
    if not any(CONDITIONS[name].recovers for name in asked.probes()):
        return None
    found = [item_verdict(halves) for halves in asked.halves]
    known = [name for name in found if name is not None]
    return known if len(known) == len(found) else None
