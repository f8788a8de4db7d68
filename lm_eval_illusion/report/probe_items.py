"""What the probes showed of one item, as plain data: its part of a line of items.jsonl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.halves import (
    MATCHERS,
    NORMALISERS,
    ChoiceHalf,
    GenerationHalf,
    Half,
    RankHalf,
    SeveralHalf,
)
from lm_eval_illusion.report.join import Halves
from lm_eval_illusion.report.verdicts import form_failures, item_verdict, recoveries

__all__ = ["probe_states"]


def probe_states(halves: Halves) -> dict[str, Any]:
    """Verdict, by which probes, first-token rank, failures of form, and the state under each further condition.

    Args:
        halves: What one model did with the item.

    Returns:
        `verdict` (None without a valid open answer), `recovered_by` (probes that recover what the open answer got
        wrong), `first_rank` (of the gold's first token, None where unknown), `failed_form` and `probes`.
    """
    written, name = halves.generation, item_verdict(halves)
    recovered = recoveries(halves.probes) if name == "demoted" else {}
    return {
        "verdict": name,
        "recovered_by": [probe for probe, found in recovered.items() if found],
        "first_rank": _first_rank(halves),
        "failed_form": form_failures(written) if written is not None and written.valid else [],
        "probes": {probe: _state(halves.probes[probe]) for probe in CONDITIONS if probe in halves.probes},
    }


def _first_rank(halves: Halves) -> int | None:
    rank = halves.probes.get("rank")
    if isinstance(rank, RankHalf) and rank.valid:
        return rank.first
    return halves.near.first_token_rank if halves.near is not None and halves.near.valid else None


def _state(half: Half) -> dict[str, Any]:
    common = {"valid": half.valid, "invalid_reason": half.invalid_reason}
    if not half.valid:
        return common
    if isinstance(half, ChoiceHalf):
        return {**common, **_choice(half)}
    if isinstance(half, GenerationHalf):
        return {**common, "right": _right(half.right), "answer": half.answer, **_controls(half)}
    if isinstance(half, SeveralHalf):
        return {
            **common,
            "right": _right(half.right),
            "right_first": _right(half.right_first),
            **_controls(half),
            "answers": [output.answer for output in half.outputs],
            **({"hits": half.hits, "draws": half.draws} if half.draws is not None else {}),
        }
    if isinstance(half, RankHalf):
        return {
            **common,
            "first": half.first,
            "leave": half.leave,
            "parting": half.parting,
            "margin": half.margin,
            "agreement": half.agreement,
            "first_logprob": half.first_logprob,
            "parting_logprob": half.parting_logprob,
            "gold_logprob": half.gold_logprob,
            "answer_margin": half.answer_margin,
        }
    return {**common, "gold_rank": half.gold_rank, "spans": half.spans, "best": half.best}


def _controls(half: GenerationHalf | SeveralHalf) -> dict[str, Any]:
    return {"control": half.control, "item_control": half.chance}


def _choice(half: ChoiceHalf) -> dict[str, Any]:
    texts = half.options or half.choices
    state: dict[str, Any] = {
        "right": half.right[NORMALISERS[0]],
        "picked": None if half.picked is None or half.picked >= len(texts) else texts[half.picked],
    }
    if half.right_far is not None:
        state["right_far"] = half.right_far.get(NORMALISERS[0])
    if half.distances is not None:
        state["logprobs"] = dict(zip(half.distances, half.logprobs, strict=False))
    return state


def _right(table: Mapping[str, bool | None]) -> bool | None:
    return table.get(MATCHERS[0])
