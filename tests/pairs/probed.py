"""One made-up row as every probe condition gets it, and answers as `pruned_hf` and other backends give them."""

from __future__ import annotations

from typing import Any

from lm_eval_illusion.harness.answers import AnswerText, ScoredPair
from lm_eval_illusion.pairs import results

NEAR = ["Rome", "Paris", "New York", "Oslo"]
BASE: dict[str, Any] = {
    "item_id": "d/en/1",
    "dataset": "d",
    "language": "en",
    "cluster": "d/c",
    "passage_sha256": "ab",
    "answers": ["Paris", "City of Paris"],
    "gold_text": "Paris",
    "prompt": "Passage: Rome, Paris, new York; then OSLO.\nQuestion: Where?\nAnswer:",
    "choices_near": NEAR,
    "gold_near": 1,
    "sources_near": ["passage:name", "gold", "passage:name", "paragraph:2"],
    "choices_far": ["Paris", "Lima", "Cairo", "Bern"],
    "gold_far": 0,
    "sources_far": ["gold", "language:3", "language:4", "language:5"],
}
SEVEN = {
    "choices_both": [*NEAR, "Lima", "Cairo", "Bern"],
    "gold_both": 1,
    "sources_both": [*BASE["sources_near"], "language:3", "language:4", "language:5"],
}
EXTRA: dict[str, dict[str, Any]] = {
    "mc_letters": {"letters": ["A", "B", "C", "D"], "gold_letter": 1},
    "mc_graded": {
        "choices_graded": ["Oslo", "Paris", "Lima", "qzxv"],
        "gold_graded": 1,
        "sources_graded": ["passage:name", "gold", "language:3", "random"],
        "distances_graded": ["paragraph", "gold", "language", "random"],
    },
    "beam4": {"beams": 4},
    "beam8": {"beams": 8},
    "sample": {"samples": 8, "temperature": 0.8, "top_p": 0.95, "sample_seed": 0},
    "oneshot": {"demonstration_item": "d/en/2", "demonstration_answers": ["Bonn", "Rome"]},
    "choices_only": SEVEN,
    "question_only": SEVEN,
    "rank_spans": {"choices_spans": ["In", "Paris", "they", "walked", "home"], "gold_spans": 1},
    "revise1_mc": {"earlier": "Oslo"},
    "revise2_mc": {"earlier": "Oslo"},
    "revise1_gen": {"earlier": "Oslo"},
    "revise2_gen": {"earlier": "Oslo"},
}
PROCESS = {
    "mc": results.process_near,
    "mc_far": results.process_far,
    "gen": results.process_generation,
    "mc_letters": results.process_letters,
    "mc_graded": results.process_graded,
    "shown": results.process_shown,
    "shown_nogold": results.process_shown_nogold,
    "beam4": results.process_beam,
    "beam8": results.process_beam,
    "sample": results.process_sample,
    "oneshot": results.process_oneshot,
    "closed_mc": results.process_closed_mc,
    "closed_gen": results.process_closed_gen,
    "choices_only": results.process_choices_only,
    "question_only": results.process_question_only,
    "rank": results.process_rank,
    "rank_spans": results.process_rank_spans,
    "revise1_mc": results.process_revise_mc,
    "revise1_gen": results.process_revise_gen,
    "revise2_mc": results.process_revise_mc,
    "revise2_gen": results.process_revise_gen,
}
"""Condition -> what its task files call."""


def row(condition: str, **change: Any) -> dict[str, Any]:
    """The row under one condition."""
    return {**BASE, "condition": condition, **EXTRA.get(condition, {}), **change}


def scored(*values: float, **told: Any) -> list[Any]:
    """Responses to the options of an item; with keywords, as `pruned_hf` tells them."""
    return [ScoredPair(value, False, **told) if told else (value, False) for value in values]


def said(text: str, **told: Any) -> list[Any]:
    """The response to an open question."""
    return [AnswerText(text, **{"fits": True, "finish": "stop", "non_finite": False, "tied_steps": None, **told})]


def several(*texts: str, logprobs: Any = None, finish: str | None = "stop", **told: Any) -> list[Any]:
    """The response to a request for several answers, best or first first."""
    numbers = [-1.0 - i for i in range(len(texts))] if logprobs is None else logprobs
    found = [{"text": t, "logprob": lp, "finish": finish} for t, lp in zip(texts, numbers, strict=True)]
    return said(texts[0] if texts else "", hypotheses=found, **told)
