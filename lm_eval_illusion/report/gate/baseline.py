"""A stored run as the baseline of a new one: what must match, and all that does not, in one sentence."""

from __future__ import annotations

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.halves import HALVES
from lm_eval_illusion.report.runs import Run

__all__ = ["check_matches", "differences"]


def check_matches(baseline: Run, run: Run) -> None:
    """The baseline was asked the same questions in the same way, and pruned with the same text where both were pruned.

    Raises:
        IllusionError: It was not; everything that differs is named.
    """
    found = differences(baseline, run)
    if found:
        raise IllusionError(
            f"the baseline {baseline.path} does not match {run.path}: {'; '.join(found)}; expected the same tasks, "
            "versions, items, prompts and calibration: run the model as the baseline was run, or make a new baseline "
            "with `lm-eval-illusion report`"
        )


def differences(baseline: Run, run: Run) -> list[str]:
    """What differs between a baseline and a run, kind by kind, the baseline first."""
    return [text for text in (_tasks(baseline, run), *_asked(baseline, run), *_items(baseline, run)) if text] + [
        text for text in [_calibration(baseline, run)] if text
    ]


def _tasks(baseline: Run, run: Run) -> str | None:
    one, two = set(baseline.tasks_under(HALVES)), set(run.tasks_under(HALVES))
    parts = [
        f"{', '.join(sorted(mine - theirs)[:4])} {where}"
        for mine, theirs, where in ((one, two, "only in the baseline"), (two, one, "only in the run"))
        if mine - theirs
    ]
    return f"tasks ({'; '.join(parts)})" if parts else None


def _asked(baseline: Run, run: Run) -> list[str]:
    shared = sorted(set(baseline.tasks_under(HALVES)) & set(run.tasks_under(HALVES)))
    kinds = {"versions": "version", "demonstrations": "num_fewshot", "generation arguments": "generation"}
    found = []
    for words, name in kinds.items():
        pairs = [(task, getattr(baseline.tasks[task], name), getattr(run.tasks[task], name)) for task in shared]
        differ = [f"{task} {before} and {after}" for task, before, after in pairs if before != after]
        if differ:
            found.append(f"{words} ({', '.join(differ[:2])}{_more(len(differ) - 2)})")
    return found


def _items(baseline: Run, run: Run) -> list[str]:
    """Item sets, documents and prompts, over the conditions of the pair."""
    only: list[set[str]] = [set(), set()]
    texts: dict[str, set[str]] = {"documents": set(), "prompts": set()}
    for condition in HALVES:
        before, after = baseline.halves.get(condition, {}), run.halves.get(condition, {})
        only[0] |= before.keys() - after.keys()
        only[1] |= after.keys() - before.keys()
        for item_id in before.keys() & after.keys():
            if before[item_id].doc_hash != after[item_id].doc_hash:
                texts["documents"].add(item_id)
            if before[item_id].prompt_hash != after[item_id].prompt_hash:
                texts["prompts"].add(item_id)
    found = []
    parts = [
        f"{len(ids)} only in the {where}, first {min(ids)}"
        for ids, where in ((only[0], "baseline"), (only[1], "run"))
        if ids
    ]
    if parts:
        found.append(f"items ({'; '.join(parts)})")
    found += [f"{words} of {len(ids)} items, first {min(ids)}" for words, ids in texts.items() if ids]
    return found


def _calibration(baseline: Run, run: Run) -> str | None:
    """Where both were pruned with calibration text, whether it was the same."""
    one, two = ((found.facts.receipt or {}).get("calibration") for found in (baseline, run))
    if not isinstance(one, dict) or not isinstance(two, dict):
        return None
    differ = [
        f"{key} {one.get(key)} and {two.get(key)}"
        for key in ("source", "rows", "length", "digest")
        if one.get(key) != two.get(key)
    ]
    return f"calibration ({', '.join(differ)})" if differ else None


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
