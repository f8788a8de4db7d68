"""The text of task files: one YAML file a condition and language, and the groups over them.

The files in `tasks/` and those that `lm-eval-illusion pair` writes come from here, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lm_eval_illusion.pairs.conditions import CONDITIONS, HALVES, PROBE_GROUPS, PROBES, Condition
from lm_eval_illusion.pairs.prompts import delimiter_of

VERSION = "1.0"
"""Version of the groups; that of the tasks stands in their templates."""

_BY_KIND: dict[str, tuple[str, ...]] = {
    "choice": ("acc", "acc_norm"),
    "generation": ("exact_match", "f1", "correct"),
    "several": ("correct", "correct_first"),
    "rank": ("gold_first",),
    "spans": ("gold_best",),
}
_BY_CONDITION: dict[str, tuple[str, ...]] = {
    "mc": ("acc", "acc_norm", "acc_mutual_info"),
    "mc_far": ("acc", "acc_norm", "acc_mutual_info"),
    "sample": ("pass_at_1", "pass_at_8"),
}


def metrics_of(condition: Condition) -> tuple[str, ...]:
    """Return the metrics that a group over a condition averages."""
    return _BY_CONDITION.get(condition.name, _BY_KIND[condition.kind])


def task_name(dataset: str, condition: str, language: str) -> str:
    """Return the name of one task: `tydiqa_mc_sw`."""
    return f"{dataset}_{condition}_{language}"


def task_files(
    dataset: str,
    languages: Iterable[str],
    conditions: Sequence[str],
    *,
    templates: str,
    extra_kwargs: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Write every task file of a data set.

    Args:
        dataset: As task names begin.
        languages: ISO 639-1 codes.
        conditions: Names in `CONDITIONS`; each needs a file `{condition}_template` in the folder of templates.
        templates: That folder, relative to the files ("../common").
        extra_kwargs: Further `dataset_kwargs` of every task.

    Returns:
        File name -> text: the tasks, a group for each `Condition.group`, and one of all probes where any are asked.
    """
    codes = sorted(languages)
    files = {
        f"{task_name(dataset, name, code)}.yaml": _task(dataset, CONDITIONS[name], code, templates, extra_kwargs or {})
        for name in conditions
        for code in codes
    }
    groups: dict[str, list[Condition]] = {}
    for name in conditions:
        groups.setdefault(CONDITIONS[name].group, []).append(CONDITIONS[name])
    for group, members in groups.items():
        tasks = [task_name(dataset, condition.name, code) for condition in members for code in codes]
        shared = metrics_of(members[0]) if len(members) == 1 else ()
        files[f"_{dataset}_{group}.yaml"] = _group(f"{dataset}_{group}", tasks, shared)
    probes = [f"{dataset}_{group}" for group in PROBE_GROUPS if group in groups]
    if probes:
        files[f"_{dataset}_{PROBES}.yaml"] = _group(f"{dataset}_{PROBES}", probes, ())
    return files


def _task(dataset: str, condition: Condition, language: str, templates: str, extra: Mapping[str, str]) -> str:
    given = {"pairs_dataset": dataset, "pairs_language": _quoted(language)}
    if condition.name not in HALVES:
        given["pairs_condition"] = condition.name
    lines = [f"include: {templates}/{condition.name}_template", f"task: {task_name(dataset, condition.name, language)}"]
    lines += ["dataset_kwargs:", *(f"  {key}: {value}" for key, value in {**given, **extra}.items())]
    if delimiter_of(language) != " ":
        lines.append('target_delimiter: ""  # nothing after a full-width colon')
    return "\n".join(lines) + "\n"


def _quoted(language: str) -> str:
    return f'"{language}"' if language == "no" else language  # YAML reads Norwegian's code as False


def _group(name: str, tasks: Sequence[str], metrics: Sequence[str]) -> str:
    """Return a group file; one over several conditions averages nothing."""
    lines = [f"group: {name}", "task:", *(f"  - {task}" for task in tasks)]
    if metrics:
        lines.append("aggregate_metric_list:")
    for metric in metrics:
        lines += [f"  - metric: {metric}", "    aggregation: mean", "    weight_by_size: true"]
    return "\n".join([*lines, "metadata:", f"  version: {VERSION}"]) + "\n"
