"""Write the task files: the YAML of every data set, condition and language, and the templates of the probes.

python scripts/task_files.py          write them
python scripts/task_files.py --check  exit with 1 if a file differs from what would be written

The three templates of a pair's own halves are written by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lm_eval_illusion.harness.task_files import metrics_of, task_files
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.conditions import CONDITIONS, HALVES, Condition
from lm_eval_illusion.pairs.rows import MAX_NEW_TOKENS

TASKS = Path(__file__).resolve().parent.parent / "tasks"
COMMON = "common"
PROCESS = {
    "mc_letters": "process_letters",
    "mc_graded": "process_graded",
    "shown": "process_shown",
    "shown_nogold": "process_shown_nogold",
    "beam4": "process_beam",
    "beam8": "process_beam",
    "sample": "process_sample",
    "oneshot": "process_oneshot",
    "closed_mc": "process_closed_mc",
    "closed_gen": "process_closed_gen",
    "choices_only": "process_choices_only",
    "question_only": "process_question_only",
    "rank": "process_rank",
    "rank_spans": "process_rank_spans",
    "revise1_mc": "process_revise_mc",
    "revise1_gen": "process_revise_gen",
    "revise2_mc": "process_revise_mc",
    "revise2_gen": "process_revise_gen",
}
"""Probe -> the function that judges it."""
OPTIONS = {
    "mc_letters": ("letters", "gold_letter"),
    "mc_graded": ("choices_graded", "gold_graded"),
    "closed_mc": ("choices_near", "gold_near"),
    "choices_only": ("choices_both", "gold_both"),
    "question_only": ("choices_both", "gold_both"),
    "rank_spans": ("choices_spans", "gold_spans"),
    "revise1_mc": ("choices_near", "gold_near"),
    "revise2_mc": ("choices_near", "gold_near"),
}
"""Probe with options -> the columns of its options and of the right one's place; all others are generated."""
MORE_METRICS = {"sample": ("pass_at_1", "pass_at_2", "pass_at_4", "pass_at_8")}
"""Metrics of a task where the group averages fewer: which of them there are depends on `illusion_samples`."""


def template(condition: Condition) -> str:
    """Return the template of one probe."""
    columns = OPTIONS.get(condition.name)
    lines = [
        f"# {condition.words[0].upper()}{condition.words[1:]}. Written by scripts/task_files.py.",
        "custom_dataset: !function utils.load",
        "test_split: test",
        "fewshot_split: test  # equal to test_split, or the sampler would not be told the item",
        "process_docs: !function utils.keep_sampled",
        f"output_type: {'multiple_choice' if columns else 'generate_until'}",
        "doc_to_text: prompt",
    ]
    lines += (
        [f"doc_to_choice: {columns[0]}", f"doc_to_target: {columns[1]}"] if columns else ["doc_to_target: gold_text"]
    )
    lines.append(f"process_results: !function utils.{PROCESS[condition.name]}")
    if not columns:
        lines += ["generation_kwargs:", "  until: []", "  do_sample: false", f"  max_gen_toks: {MAX_NEW_TOKENS}"]
    lines += [
        "fewshot_config:",
        "  sampler: !function utils.ItemSampler",
        "  process_docs: !function utils.keep_demonstrations",
    ]
    lines += ["  doc_to_choice: null", "  doc_to_target: gold_text"] if columns else []
    lines.append("metric_list:")
    for metric in MORE_METRICS.get(condition.name, metrics_of(condition)):
        lines += [f"  - metric: {metric}", "    aggregation: mean", "    higher_is_better: true"]
    lines += ["  - metric: illusion", "    aggregation: !function utils.count_valid", "    higher_is_better: true"]
    return "\n".join([*lines, "metadata:", "  version: 1.0"]) + "\n"


def all_files() -> dict[str, str]:
    """Return path below `tasks/` -> text, for every file that is written."""
    files = {f"{COMMON}/{name}_template": template(CONDITIONS[name]) for name in PROCESS}
    for dataset in DATASETS.values():
        written = task_files(dataset.name, dataset.languages, list(CONDITIONS), templates=f"../{COMMON}")
        files |= {f"{dataset.name}/{name}": text for name, text in written.items()}
    return files


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the files; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the task files.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file differs")
    check = parser.parse_args(argv).check
    folder = TASKS
    wanted = all_files()
    by_hand = {f"{COMMON}/{name}_template" for name in HALVES} | {f"{COMMON}/utils.py"}
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    stale = sorted(there - set(wanted) - by_hand)
    changed = [
        name
        for name, text in wanted.items()
        if name not in there or (folder / name).read_text(encoding="utf-8") != text
    ]
    if check:
        for name in [*stale, *changed]:
            print(f"tasks/{name} is not what scripts/task_files.py writes; run it")
        return 1 if stale or changed else 0
    for name in stale:
        (folder / name).unlink()
    for name in changed:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(wanted[name], encoding="utf-8")
    print(f"{len(changed)} files written, {len(stale)} removed, {len(wanted)} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
