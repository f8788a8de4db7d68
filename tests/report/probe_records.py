"""Fields of probe records, short to write, and one model's answers without files."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

from synthetic import Question, metric

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.halves import HALVES, parse_half
from lm_eval_illusion.report.join import Halves, gather
from lm_eval_illusion.report.stats import Clusters

MATCHERS = ("standard", "exact", "f1", "contained")
FLAGS = {"empty": False, "cut": False, "repeated": False, "unclosed_thought": False}
Record = dict[str, Any]


def writes(right: bool, *hits: bool, **fields: Any) -> Record:
    """An open answer; `hits`: whether it hits each wrong target, three of them missed where left out."""
    found = list(hits) or [False, False, False]
    return {
        "answers": ["Paris"],
        "gold_text": "Paris",
        "answer": "Paris" if right else "Rome",
        "right": dict.fromkeys(MATCHERS, right),
        "control_targets": [f"target {n}" for n in range(len(found))],
        "control_hits": found,
        "control": sum(found) / len(found),
        "flags": FLAGS,
        **fields,
    }


def beams(*rights: bool, control: float = 0.0, control_first: float = 0.0) -> Record:
    """Hypotheses, the best first."""
    outputs = [{"answer": "Paris" if r else "Rome", "logprob": -1.0 - n} for n, r in enumerate(rights)]
    return {
        "outputs": [{**o, "right": dict.fromkeys(MATCHERS, r)} for o, r in zip(outputs, rights, strict=True)],
        "right": dict.fromkeys(MATCHERS, any(rights)),
        "right_first": dict.fromkeys(MATCHERS, rights[0]),
        "control": control,
        "control_first": control_first,
    }


def samples(*rights: bool, wrong: int = 0) -> Record:
    """Draws in their order; `wrong` of them hit the only control target."""
    n = len(rights)
    ks = [k for k in (1, 2, 4, 8) if k <= n]
    at = {name: {str(k): 1 - comb(n - c, k) / comb(n, k) for k in ks} for name, c in (("h", sum(rights)), ("c", wrong))}
    return {
        **beams(*rights, control=float(wrong > 0)),
        "hits": sum(rights),
        "draws": n,
        "pass_at": at["h"],
        "control_pass_at": at["c"],
    }


def ranked(*ranks: int, margin: float = -1.0) -> Record:
    """The gold's tokens by rank."""
    leave = next((n for n, rank in enumerate(ranks) if rank > 1), None)
    return {
        "ranks": list(ranks),
        "logprobs": [-float(rank) for rank in ranks],
        "leave": leave,
        "margin": None if leave is None else margin,
        "agreement": sum(rank == 1 for rank in ranks) / len(ranks),
        "gold_logprob": -float(sum(ranks)),
        "greedy_logprob": -0.5,
        "gold_tokens": len(ranks),
    }


def spans(rank: int, count: int) -> Record:
    """The gold's likelihood rank among spans."""
    return {"spans": count, "gold_rank": rank, "gold_logprob": -3.0, "best": "Rome", "best_logprob": -2.0}


def picks(right: bool, choices: Sequence[str] = ("Paris", "Rome", "Oslo", "Bonn"), **fields: Any) -> Record:
    """Options, the gold the first; a wrong pick is the second."""
    return {
        "choices": list(choices),
        "gold": 0,
        "logprobs": [-1.0 if n == (0 if right else 1) else -9.0 for n in range(len(choices))],
        "right": {"chars": right, "sum": right, "bytes": right, "pmi": None},
        "picked": 0 if right else 1,
        **fields,
    }


def halves(question: Question) -> Halves:
    """What a model did with one question."""
    names = [name for name in CONDITIONS if name in HALVES or name in question.probes]
    return gather({name: parse_half(metric(question, name)) for name in names})


def ask(questions: Sequence[Question], least: tuple[int, int] = (1, 1)) -> Asked:
    """One model's answers to questions, each of its own passage unless it names one."""
    clusters = Clusters.from_keys(
        [q.dataset for q in questions], [q.language for q in questions], [q.cluster or q.item_id for q in questions]
    )
    return Asked([halves(q) for q in questions], [(q.dataset, q.language) for q in questions], clusters, least)
