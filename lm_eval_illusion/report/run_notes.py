"""Sentences about runs by themselves: what was used for pruning, and how they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from lm_eval_illusion.report.run_origin import origin_notes
from lm_eval_illusion.report.schema import Note, RunSummary

__all__ = ["run_notes"]

MOST_LABELS = 6
"""Runs that a shared note names."""

_Level = Literal["alarm", "warning", "info"]


class _Said(NamedTuple):
    """A sentence about one run."""

    level: _Level
    before: str
    label: str
    after: str


def _made_with(run: RunSummary) -> dict[str, str | None]:
    """Return what may differ between comparable runs, yet changes scores in the last bits or more."""
    watched = ("dtype", "attn_implementation", "max_length", "device", "torch")
    return {
        **{name: run.identity.get(name) for name in watched},
        "lm-eval": run.harness_version,
        "transformers": run.transformers_version,
    }


def run_notes(runs: Sequence[RunSummary], caches: Sequence[str | None]) -> list[Note]:
    """Notes about runs by themselves: overlap, prompt, truncation, cache, pruning.

    What holds of several runs in the same words is said once.

    Args:
        runs: Summaries, the dense run first.
        caches: Each run's --use_cache.
    """
    notes: list[Note] = []
    shared: list[_Said] = []
    for run in runs:
        if run.overlap.status == "overlap":
            notes.append(
                _note(
                    "alarm",
                    f"{run.label} was calibrated on texts that are evaluated: {run.overlap.items} items' passages, or "
                    f"stretches of them, are in its calibration text ({run.overlap.why}). Its scores are not held out; "
                    "prune again with other calibration text.",
                )
            )
    shots = "/".join(str(n) for n in runs[0].num_fewshot)
    chat = f"chat template {runs[0].chat_template[:8]}" if runs[0].chat_template else "no chat template"
    system = "a system instruction" if runs[0].system_instruction else "no system instruction"
    thinking = ", thinking on" if runs[0].enable_thinking else ""
    notes.append(_note("info", f"Prompt in all runs: {shots} demonstration(s), {chat}, {system}{thinking}."))
    for run in runs[1:]:
        notes += origin_notes(runs[0], run)
        facts = zip(_made_with(runs[0]).items(), _made_with(run).values(), strict=True)
        shared += [
            _Said("warning", f"{name} differs: {before} in {runs[0].label}, {after} in ", run.label, ".")
            for (name, before), after in facts
            if before is not None and after is not None and before != after
        ]
    for run, cache in zip(runs, caches, strict=True):
        if run.overlap.status == "none" or (run.overlap.status == "unchecked" and (run.pruning or run is not runs[0])):
            word = "no overlap found" if run.overlap.status == "none" else "not checked"
            why = f": {word} ({run.overlap.why})."
            shared.append(_Said("info", "Calibration and evaluated passages of ", run.label, why))
        if not run.truncation_checked:
            why = ": the backend does not say whether prompts fitted."
            shared.append(_Said("warning", "Truncation unchecked in ", run.label, why))
        if cache:
            why = " used --use_cache, which keys on requests only: answers may be another model's."
            shared.append(_Said("warning", "", run.label, why))
    notes += _merged(shared)
    for index, run in enumerate(runs):
        pruned = run.pruning is not None and run.pruning.pruned
        if pruned and index == 0:
            notes.append(_note("warning", f"The first run ({run.label}) is the reference, yet it was pruned itself."))
        reached = run.pruning.sparsity_reached if run.pruning else None
        asked = run.pruning.sparsity_asked if run.pruning else None
        if pruned and reached is not None and asked is not None and abs(reached - asked) > 0.01:
            notes.append(
                _note("warning", f"{run.label}: sparsity asked {asked:.3f}, reached {reached:.3f} of block weights.")
            )
        if pruned and run.pruning and run.pruning.coverage is not None and run.pruning.coverage < 0.99:
            notes.append(
                _note("warning", f"{run.label}: only {run.pruning.coverage:.1%} of block weights were reached.")
            )
    return notes


def _merged(said: Sequence[_Said]) -> list[Note]:
    """One note for all runs of which the same is said, in the order of the first."""
    labels: dict[tuple[_Level, str, str], list[str]] = {}
    for level, before, label, after in said:
        labels.setdefault((level, before, after), []).append(label)
    return [_note(level, f"{before}{_listed(runs)}{after}") for (level, before, after), runs in labels.items()]


def _listed(labels: Sequence[str]) -> str:
    if len(labels) <= MOST_LABELS:
        return ", ".join(labels)
    return f"{', '.join(labels[: MOST_LABELS - 2])} and {len(labels) - MOST_LABELS + 2} more runs"


def _note(level: _Level, text: str) -> Note:
    return Note(level=level, text=text)
