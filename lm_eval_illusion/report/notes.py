"""Sentences that warn: what would make a reader trust the numbers too much."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.report.halves import CONDITIONS
from lm_eval_illusion.report.join import Item
from lm_eval_illusion.report.measures import ModelFigures
from lm_eval_illusion.report.schema import LeakFigures, Note, Row, RunSummary

__all__ = ["comparison_notes", "run_notes"]

TOO_EASY = 0.95
"""Dense near multiple choice above this leaves no room to see a loss."""
TOO_HARD = 0.2
"""Dense generation below this leaves little to lose; the prompt may be wrong for the model."""
FORMAT_LOSS = 0.1
"""Share of empty, repeated, cut or unclosed answers from which a formatting loss is named."""


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

    Args:
        runs: Summaries, the dense run first.
        caches: Each run's --use_cache.
    """
    notes = []
    for run in runs:
        if run.overlap.status == "overlap":
            notes.append(
                _alarm(
                    f"{run.label} was calibrated on texts that are evaluated: {run.overlap.items} items' passages, or "
                    f"stretches of them, are in its calibration text ({run.overlap.why}). Its scores are not held out; "
                    "prune again with other calibration text."
                )
            )
    shots = "/".join(str(n) for n in runs[0].num_fewshot)
    chat = f"chat template {runs[0].chat_template[:8]}" if runs[0].chat_template else "no chat template"
    system = "a system instruction" if runs[0].system_instruction else "no system instruction"
    thinking = ", thinking on" if runs[0].enable_thinking else ""
    notes.append(_info(f"Prompt in all runs: {shots} demonstration(s), {chat}, {system}{thinking}."))
    for run in runs[1:]:
        notes += [
            _alarm(
                f"{run.label} is another model than {runs[0].label}: {name} {after} against {before}. Compare a pruned "
                "model with the checkpoint it was pruned from."
            )
            for name, before, after in (
                (name, runs[0].identity.get(name), run.identity.get(name)) for name in ("class", "parameters")
            )
            if before is not None and after is not None and before != after
        ]
        facts = zip(_made_with(runs[0]).items(), _made_with(run).values(), strict=True)
        notes += [
            _warning(f"{name} differs: {before} in {runs[0].label}, {after} in {run.label}.")
            for (name, before), after in facts
            if before is not None and after is not None and before != after
        ]
    for run, cache in zip(runs, caches, strict=True):
        if run.overlap.status == "none" or (run.overlap.status == "unchecked" and (run.pruning or run is not runs[0])):
            word = "no overlap found" if run.overlap.status == "none" else "not checked"
            notes.append(_info(f"Calibration and evaluated passages of {run.label}: {word} ({run.overlap.why})."))
        if not run.truncation_checked:
            notes.append(
                _warning(f"Truncation unchecked in {run.label}: its backend does not say whether prompts fitted.")
            )
        if cache:
            notes.append(
                _warning(f"{run.label} used --use_cache, which keys on requests only: answers may be another model's.")
            )
    for index, run in enumerate(runs):
        pruned = run.pruning is not None and run.pruning.method not in (None, "none")
        if pruned and index == 0:
            notes.append(_warning(f"The first run ({run.label}) is the reference, yet it was pruned itself."))
        if not pruned and index and run.pruning is not None:
            notes.append(_info(f"{run.label} was not pruned (method none): a comparison of a model with itself."))
        reached = run.pruning.sparsity_reached if run.pruning else None
        asked = run.pruning.sparsity_asked if run.pruning else None
        if pruned and reached is not None and asked is not None and abs(reached - asked) > 0.01:
            notes.append(_warning(f"{run.label}: sparsity asked {asked:.3f}, reached {reached:.3f} of block weights."))
        if pruned and run.pruning and run.pruning.coverage is not None and run.pruning.coverage < 0.99:
            notes.append(_warning(f"{run.label}: only {run.pruning.coverage:.1%} of block weights were reached."))
    return notes


def comparison_notes(
    row: Row,
    items: Sequence[Item],
    leaks: Sequence[LeakFigures],
    tasks: Sequence[str],
    dense: str,
    pruned: str,
    dtypes: tuple[str | None, str | None],
) -> list[Note]:
    """Notes about one comparison, from its overall row and items.

    Args:
        row: The overall row.
        items: What was joined.
        leaks: Leak figures of those items.
        tasks: Tasks that were run.
        dense: Label of the first run.
        pruned: Label of the other run.
        dtypes: Both models' dtypes, where known.
    """
    notes = []
    if items and all(item.dense == item.pruned for item in items):
        notes.append(
            _alarm(
                f"{pruned} gave exactly the scores and answers of {dense} on all {len(items)} items: is it the "
                "same model?"
            )
        )
    for condition in row.missing:
        notes.append(
            _warning(
                f"Not measured in every language: {CONDITIONS[condition]}. Never read one distance without the "
                "other; run both "
                f"models with --tasks {_with(tasks, condition)}."
            )
        )
    if row.joined and row.excluded / (row.joined + row.excluded) > 0.1:
        reasons = ", ".join(f"{count} {reason}" for reason, count in row.excluded_reasons.items())
        notes.append(
            _warning(f"{row.excluded} item(s) excluded as invalid ({reasons}); the rest may be the easier ones.")
        )
    if row.unmatched:
        notes.append(_warning(f"Not compared, since in one run only or lacking a half: {row.unmatched} item(s)."))
    if row.dense is not None:
        notes += _reference(row.dense, dense)
    for label, model in ((dense, row.dense), (pruned, row.pruned)):
        notes += _format(model, label)
    notes += _rounding(row, dense, pruned, dtypes)
    for leak in leaks:
        allowed = leak.chance + 3 * (leak.chance * (1 - leak.chance) / leak.items) ** 0.5
        if leak.longest > allowed:
            notes.append(
                _warning(
                    f"{leak.longest:.0%} of golds are the longest {leak.distance} option (chance "
                    f"{leak.chance:.0%}): a leak."
                )
            )
    return notes


def _reference(dense: ModelFigures, label: str) -> list[Note]:
    notes = []
    near = dense.near.accuracy.value if dense.near else None
    written = dense.generation.value if dense.generation else None
    if near is not None and near > TOO_EASY:
        notes.append(_warning(f"{label} scores {near:.2f} against near options: too easy to show a loss."))
    if written is not None and written < TOO_HARD:
        notes.append(
            _warning(
                f"{label} answers only {written:.2f} of the questions before pruning: there is little to lose. "
                "A base model "
                "wants --num_fewshot 1, an instruct model --apply_chat_template."
            )
        )
    return notes


def _format(model: ModelFigures | None, label: str) -> list[Note]:
    if model is None or model.failures is None:
        return []
    shares = model.failures.model_dump()
    high = [f"{share:.0%} {name.replace('_', ' ')}" for name, share in shares.items() if share and share > FORMAT_LOSS]
    if not high:
        return []
    return [_warning(f"Answers of {label}: {', '.join(high)}. Part of its loss may be of form, not of knowledge.")]


def _rounding(row: Row, dense: str, pruned: str, dtypes: tuple[str | None, str | None]) -> list[Note]:
    """Answers that hang on a tie of two tokens: the reader must not take rounding for an illusion."""
    notes = []
    for label, model, dtype in zip((dense, pruned), (row.dense, row.pruned), dtypes, strict=True):
        if model is None or model.tied is None or not model.tied.answers.tied:
            continue
        tied = model.tied.answers
        parts = [f"{c.tied} of {c.of} recognition-only ({d})" for d, c in model.tied.recognition_only.items()]
        flips = row.contrast.tied_flips if row.contrast and model is row.pruned else None
        if flips is not None:
            parts.append(f"{flips.tied} of {flips.of} flips of generation")
        notes.append(
            _warning(
                f"{tied.tied} of {tied.of} answers of {label} contain a greedy step where two tokens tie in "
                f"{dtype or 'its dtype'}: rounding, not pruning, may have chosen. Among them: {', '.join(parts)}."
            )
        )
    return notes


def _with(tasks: Sequence[str], condition: str) -> str:
    """The tasks that would measure a missing condition, as groups."""
    groups = set()
    for task in tasks:
        for known in sorted(CONDITIONS, key=len, reverse=True):
            if f"_{known}_" in task:
                groups.add(f"{task.split(f'_{known}_')[0]}_{condition}")
                break
    return ",".join(sorted(groups)) or f"<set>_{condition}"


def _alarm(text: str) -> Note:
    return Note(level="alarm", text=text)


def _warning(text: str) -> Note:
    return Note(level="warning", text=text)


def _info(text: str) -> Note:
    return Note(level="info", text=text)
