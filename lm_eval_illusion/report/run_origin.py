"""Notes about where a run's checkpoint comes from: the dense run's model, an export of it, or one made elsewhere."""

from __future__ import annotations

from lm_eval_illusion.report.schema import Note, RunSummary

__all__ = ["origin_notes"]


def origin_notes(first: RunSummary, run: RunSummary) -> list[Note]:
    """What is to be said of one run's checkpoint beside the dense run's.

    Args:
        first: The dense run.
        run: Another.
    """
    return [*_another_model(first, run), *_made_elsewhere(first, run)]


def _another_model(first: RunSummary, run: RunSummary) -> list[Note]:
    notes = []
    for name in ("class", "parameters"):
        before, after = first.identity.get(name), run.identity.get(name)
        if before is None or after is None or before == after:
            continue
        if name == "parameters" and run.pruning and run.pruning.pruned and _fewer(after, before):
            continue  # whole structures were removed: the receipt says how many
        if name == "parameters" and _fewer(after, before):
            text = (
                f"{run.label} counts {after} parameters, {first.label} {before}: packed or removed weights count as "
                "fewer. If it is no compressed checkpoint of that very model, compare it with the one it was made from."
            )
            notes.append(Note(level="warning", text=text))
            continue
        text = (
            f"{run.label} is another model than {first.label}: {name} {after} against {before}. Compare a pruned "
            "model with the checkpoint it was pruned from."
        )
        notes.append(Note(level="alarm", text=text))
    return notes


def _fewer(after: str, before: str) -> bool:
    return after.isdigit() and before.isdigit() and int(after) < int(before)


def _made_elsewhere(first: RunSummary, run: RunSummary) -> list[Note]:
    base, loaded = run.identity.get("base"), run.identity.get("pretrained")
    if base is not None:
        text = (
            f"{run.label} is the checkpoint {loaded}, exported from {base}: its weights are, by hash, those of the "
            "receipt shown."
        )
        return [Note(level="info", text=text)]
    if run.pruning is None or run.pruning.method != "none":
        return []
    if loaded is None or loaded == first.identity.get("pretrained"):
        text = f"{run.label} was not pruned (method none): a comparison of a model with itself."
        return [Note(level="info", text=text)]
    text = (
        f"{run.label} is the checkpoint {loaded}, left as it is: nothing tells what was done to it, with which "
        f"calibration text, or that it was made from {first.label}'s."
    )
    return [Note(level="warning", text=text)]
