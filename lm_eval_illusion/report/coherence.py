"""Do the conditions of one model belong together? They may come from several run folders; refuses what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.halves import ChoiceHalf, GenerationHalf, answered
from lm_eval_illusion.report.runs import HalfRecord, Run

__all__ = ["check_coherent"]


def check_coherent(run: Run) -> None:
    """Check the prompts, options and earlier answers of every item across its conditions.

    Args:
        run: A run, or several of one model as one.

    Raises:
        IllusionError: Something of an item differs between two of its conditions, named by task and item.
    """
    _check_prompts(run)
    _check_options(run)
    _check_fed(run)


def _check_prompts(run: Run) -> None:
    """All halves of an item, and the probes that read its prompt, saw the same prompt up to the answer.

    Raises:
        IllusionError: Two such conditions of one item have different prompt hashes.
    """
    conditions = (name for name in run.halves if CONDITIONS[name].same_prompt)
    for item_id, one, other in _differing(run, conditions, lambda record: record.prompt_hash):
        raise IllusionError(
            f"{run.results_file}: item {item_id} saw different prompts in {one.task} and {other.task} "
            f"(prompt_hash {one.prompt_hash[:12]} and {other.prompt_hash[:12]}); the halves of a pair, and the probes "
            "that read its prompt, must share theirs: run all of them with one --num_fewshot and one version "
            "of lm-eval-illusion"
        )


def _check_options(run: Run) -> None:
    """Every condition of an item offered the same options in the same order, or has none.

    Raises:
        IllusionError: Two conditions of one item were built from other options.
    """
    for item_id, one, other in _differing(run, run.halves, lambda record: record.options):
        raise IllusionError(
            f"{run.path}: item {item_id} has other options, or another order of them, in {other.task} than in "
            f"{one.task}; expected the same under every condition: run all of them on the same data "
            "(LM_EVAL_ILLUSION_DATA) with one illusion_seed and one version of lm-eval-illusion"
        )


def _differing(
    run: Run, conditions: Iterable[str], of: Callable[[HalfRecord], str | None]
) -> Iterator[tuple[str, HalfRecord, HalfRecord]]:
    """Yield each item that some condition tells otherwise than the first one that tells it, with both records."""
    first: dict[str, HalfRecord] = {}
    for condition in sorted(conditions):
        for item_id, record in sorted(run.halves[condition].items()):
            if of(record) is not None and of(first.setdefault(item_id, record)) != of(record):
                yield item_id, first[item_id], record


def _check_fed(run: Run) -> None:
    """Rounds of self-correction showed the model the answers that stand beside them.

    Raises:
        IllusionError: An item was shown another answer than the one it is joined with.
    """
    for condition in sorted(run.halves):
        source = CONDITIONS[condition].answers_from
        given = run.halves.get(source, {}) if source is not None else {}
        for item_id, record in sorted(run.halves[condition].items()):
            half, before = record.half, given.get(item_id)
            if before is None or not isinstance(half, ChoiceHalf | GenerationHalf) or half.earlier is None:
                continue
            answer = answered(before.half)
            if answer != half.earlier:
                raise IllusionError(
                    f"{run.path}: under {condition} item {item_id} was shown the answer {_shown(half.earlier)}, but "
                    f"its {source} answer here is {_shown(answer)}; expected the answers of the run it is joined with: "
                    f"ask {record.task} again with --answers and that run's folder"
                )


def _shown(answer: str | None) -> str:
    text = "nothing valid" if answer is None else repr(answer)
    return text if len(text) <= 80 else text[:77] + "..."
