"""May these two runs be compared? Refuses, naming what differs and where."""

from __future__ import annotations

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.halves import HALVES
from lm_eval_illusion.report.runs import Run

__all__ = ["check_comparable"]


def check_comparable(first: Run, other: Run) -> None:
    """Two runs asked the same questions in the same words.

    The tasks of the pair itself must be the same; a probe that one run alone has is left for a note. Rounds of
    self-correction show each model its own answer, so their documents and prompts differ and are not compared.

    Raises:
        IllusionError: Tasks of the pair, versions, shots, chat template, system instruction, generation settings,
            documents or prompts differ, the first run was pruned and the other is its own dense model, or a run's
            scores are NaN throughout.
    """
    where = f"{first.path} and {other.path}"
    one_pair, two_pair = set(first.tasks_under(HALVES)), set(other.tasks_under(HALVES))
    if one_pair != two_pair:
        only = [
            f"only in {run.path}: {', '.join(sorted(mine - theirs))}"
            for run, mine, theirs in ((first, one_pair, two_pair), (other, two_pair, one_pair))
            if mine - theirs
        ]
        raise IllusionError(f"different tasks in {where} ({'; '.join(only)}); run both with the same --tasks")
    for name in sorted(first.tasks.keys() & other.tasks.keys()):
        one, two = first.tasks[name], other.tasks[name]
        if one.version != two.version:
            raise IllusionError(
                f"task {name} has version {one.version} in {first.path} and {two.version} in {other.path}: not "
                "comparable; "
                "run both with one version of lm-eval-illusion"
            )
        if one.num_fewshot != two.num_fewshot:
            raise IllusionError(
                f"task {name} had {one.num_fewshot} demonstrations in {first.path} and {two.num_fewshot} in "
                f"{other.path}; "
                "run both with the same --num_fewshot"
            )
        if one.generation != two.generation:
            raise IllusionError(
                f"task {name} generated with {_shown(one.generation)} in {first.path} and {_shown(two.generation)} in "
                f"{other.path}; run both with the same --gen_kwargs and version of lm-eval-illusion"
            )
    _check_checkpoint(first, other)
    _check_order(first, other)
    for what, option, one_fact, two_fact in _settings(first, other):
        if one_fact != two_fact:
            raise IllusionError(
                f"{what} differs: {_shown(one_fact)} in {first.path}, {_shown(two_fact)} in {other.path}; "
                f"run both with the same {option}"
            )
    for run in (first, other):
        _check_scores(run)
    _check_items(first, other)


def _check_checkpoint(first: Run, other: Run) -> None:
    """Two runs pruned in place, or of checkpoints exported from one, are of one checkpoint.

    A checkpoint that was left as it is may come from anywhere: a note says so. Any two runs are at least of one
    architecture where both say it.
    """
    one, two = first.facts, other.facts
    names = ["model_type"]
    if one.model == two.model == "pruned_hf" and not two.left_as_it_is:
        names = ["pretrained", "revision", "model_type"]
    for name in names:
        before, after = one.origin(name), two.origin(name)
        if before is not None and after is not None and before != after:
            raise IllusionError(
                f"the model's {name} differs: {before} in {first.path}, {after} in {other.path}; prune the checkpoint "
                "that the dense run used (one pruned and saved elsewhere is run with method=none, or with --model hf)"
            )


def _check_order(first: Run, other: Run) -> None:
    """The dense run comes first: else its gains would read as what pruning did."""
    one, two = first.facts, other.facts
    same = one.model == two.model == "pruned_hf" and one.origin("pretrained") == two.origin("pretrained")
    if same and not one.left_as_it_is and two.left_as_it_is and one.receipt and two.receipt:
        raise IllusionError(
            f"{first.path} was pruned and stands first, {other.path} is the same model as it was before (method none): "
            f"the first run is the one that all others are compared with; give the dense one first: {other.path} "
            f"{first.path}"
        )


def _settings(first: Run, other: Run) -> list[tuple[str, str, object, object]]:
    one, two = first.facts, other.facts
    rows: list[tuple[str, str, object, object]] = [
        ("chat template", "--apply_chat_template and tokenizer", one.chat_template, two.chat_template),
        ("system instruction", "--system_instruction", one.system_instruction, two.system_instruction),
        ("generation settings", "--gen_kwargs", one.gen_kwargs, two.gen_kwargs),
    ]
    if max(task.num_fewshot for task in first.tasks.values()):
        rows.append(
            (
                "few-shot layout",
                "--fewshot_as_multiturn",
                bool(one.fewshot_as_multiturn),
                bool(two.fewshot_as_multiturn),
            )
        )
    if one.enable_thinking is not None and two.enable_thinking is not None:
        rows.append(("enable_thinking", "enable_thinking in --model_args", one.enable_thinking, two.enable_thinking))
    return rows


def _shown(fact: object) -> str:
    text = "none" if fact is None else str(fact)
    return text if len(text) <= 160 else text[:157] + "..."


def _check_scores(run: Run) -> None:
    for condition in sorted(name for name in run.halves if name in HALVES):
        records = run.halves[condition].values()
        if all(r.half.invalid_reason == "non_finite" and not r.half.valid for r in records):
            task = min(r.task for r in records)
            raise IllusionError(
                f"{run.results_file}: all {len(records)} {condition} scores are NaN (first task {task}): the "
                "model is broken in "
                "this dtype; run it again with dtype=float32 in --model_args, or at a lower sparsity"
            )


def _check_items(first: Run, other: Run) -> None:
    for condition in sorted(name for name in first.halves if CONDITIONS[name].answers_from is None):
        theirs = other.halves.get(condition, {})
        for item_id, record in sorted(first.halves[condition].items()):
            match = theirs.get(item_id)
            if match is None:
                continue
            if match.doc_hash != record.doc_hash:
                raise IllusionError(
                    f"task {record.task}, item {item_id}: the document differs between {first.path} and "
                    f"{other.path} (doc_hash "
                    f"{record.doc_hash[:12]} and {match.doc_hash[:12]}); run both on the same data "
                    "(LM_EVAL_ILLUSION_DATA) "
                    "with the same illusion_seed"
                )
            if match.prompt_hash != record.prompt_hash:
                raise IllusionError(
                    f"task {record.task}, item {item_id}: the prompt differs between {first.path} and "
                    f"{other.path} (prompt_hash "
                    f"{record.prompt_hash[:12]} and {match.prompt_hash[:12]}); run both with the same --num_fewshot, "
                    "--apply_chat_template, --system_instruction and tokenizer"
                )
