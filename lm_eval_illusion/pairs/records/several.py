"""Several answers to one question: is any of them right, and would any of them hit a distractor as well?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb, isfinite
from typing import Any

from .common import all_fit, common, finite, require_told, told
from .controls import control_targets, hits, item_control, share
from .generation import MATCHERS, judge

PASS_AT = (1, 2, 4, 8)
"""The k of pass@k that a record tells, as far as there are so many draws."""


def pass_at_k(draws: int, right: int, k: int) -> float:
    """Return the unbiased chance that k of an item's draws hold a right one: 1 - C(n - c, k) / C(n, k).

    It is the plain average over all choices of k among the n draws; 1 - (1 - c/n)^k would be biased.

    Args:
        draws: n, at least 1.
        right: c, how many of them are right, 0 to n.
        k: How many are looked at, 1 to n.

    Raises:
        ValueError: numbers outside of those ranges.
    """
    if not 0 <= right <= draws or not 1 <= k <= draws:
        raise ValueError(f"pass@{k} of {right} right among {draws} draws: 0 <= right <= draws, 1 <= k <= draws needed")
    return 1.0 - comb(draws - right, k) / comb(draws, k)


def _output(doc: Mapping[str, Any], hypothesis: Mapping[str, Any], targets: list[str], valid: bool) -> dict[str, Any]:
    judged = judge(doc, str(hypothesis["text"]), hypothesis["finish"])
    answer = judged.reading.answer
    return {
        "answer": answer,
        "logprob": finite(hypothesis["logprob"]),
        "right": judged.right(valid),
        "flags": judged.flags,
        "control_hits": [valid and hit for hit in hits(answer, targets, doc["language"])],
    }


def _several(doc: Mapping[str, Any], responses: Sequence[Any], what: str) -> dict[str, Any]:
    """Return the record over all outputs of an item."""
    response = responses[0] if responses else ""
    hypotheses = require_told(doc, response, "hypotheses", what) or []
    broken = any(h["logprob"] is not None and not isfinite(h["logprob"]) for h in hypotheses)
    non_finite = broken or bool(told(response, "non_finite"))
    record = common(doc, doc["condition"], all_fit([response]), non_finite)
    wanted = control_targets(doc)
    targets = wanted.texts
    outputs = [_output(doc, hypothesis, targets, record["valid"]) for hypothesis in hypotheses]
    nothing: dict[str, Any] = {"right": dict.fromkeys(MATCHERS, False), "control_hits": [False] * len(targets)}
    first = outputs[0] if outputs else nothing
    return record | {
        "answers": list(doc["answers"]),
        "gold_text": doc["gold_text"],
        "outputs": outputs,
        "right": {name: any(output["right"][name] for output in outputs) for name in MATCHERS},
        "right_first": first["right"],
        "control_targets": targets,
        "control_in_prompt": wanted.in_prompt,
        "control": share([any(output["control_hits"][i] for output in outputs) for i in range(len(targets))]),
        "control_first": share(first["control_hits"]),
        "item_control": item_control(doc, [output["answer"] for output in outputs] if record["valid"] else []),
        "flags": {"non_finite": non_finite},
    }


def process_beam(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Judge every hypothesis of a beam search.

    Returns:
        `correct` (any hypothesis), `correct_first` and the record `illusion`; of an invalid item the record alone.
    """
    record = _several(doc, responses, "hypotheses")
    if not record["valid"]:
        return {"illusion": record}
    return {
        "correct": float(record["right"]["standard"]),
        "correct_first": float(record["right_first"]["standard"]),
        "illusion": record,
    }


def process_sample(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Judge every draw.

    Returns:
        `pass_at_1`, `pass_at_K` for the largest K of `PASS_AT` with so many draws, and the record `illusion`; of an
        invalid item the record alone.
    """
    record = _several(doc, responses, "samples")
    outputs = record["outputs"]
    n, ks = len(outputs), [k for k in PASS_AT if k <= len(outputs)]
    by_target = [sum(output["control_hits"][i] for output in outputs) for i in range(len(record["control_targets"]))]
    right = sum(output["right"]["standard"] for output in outputs)
    record |= {
        "temperature": doc["temperature"],
        "top_p": doc["top_p"],
        "seed": doc["sample_seed"],
        "hits": right if outputs else None,
        "draws": n or None,
        "pass_at": {str(k): pass_at_k(n, right, k) for k in ks},
        "control_pass_at": {str(k): share([pass_at_k(n, count, k) for count in by_target]) for k in ks},
    }
    if not record["valid"]:
        return {"illusion": record}
    return {**{f"pass_at_{k}": record["pass_at"][str(k)] for k in (1, ks[-1])}, "illusion": record}
