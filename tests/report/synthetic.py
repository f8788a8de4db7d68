"""Write run folders exactly as lm-eval 0.4.13 does (evaluation_tracker.py, evaluator.py), from a short description."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.shingles import RULE, shingles

GENERATION = {"until": [], "do_sample": False, "max_gen_toks": 48}
STAMP = "2026-11-30T10-00-00.000000"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass
class Question:
    """One item: what it is, and what the model made of it under each condition (None: condition not run)."""

    number: int
    near: bool | None = True
    gen: bool | None = True
    far: bool | None = True
    language: str = "en"
    dataset: str = "tydiqa"
    cluster: str | None = None
    passage: str | None = None
    answer: str | None = None
    question: str | None = None
    rank: int | None = 1
    valid: bool = True
    invalid_reason: str | None = None
    fits: bool | None = True
    tie: bool = False
    tied_steps: int | None = None
    parting: dict[str, Any] | None = None
    flags: dict[str, bool | None] = field(default_factory=dict)
    extra_right: dict[str, bool] = field(default_factory=dict)
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Further condition -> the fields of its record (see probe_records.py); only these are asked."""

    @property
    def item_id(self) -> str:
        return f"{self.dataset}/{self.language}/{self.number:04d}"

    def doc(self) -> dict[str, Any]:
        passage = self.passage or f"Passage of {self.item_id}: Paris, Rome, Oslo, Bonn."
        return {
            "item_id": self.item_id,
            "dataset": self.dataset,
            "language": self.language,
            "cluster": self.cluster or self.item_id,
            "passage": passage,
            "question": self.question or f"Question {self.number}?",
            "answers": ["Paris"],
            "passage_sha256": sha(" ".join(passage.split())),
        }


CHOICES = {"mc": ["Paris", "Rome", "Oslo", "Bonn"], "mc_far": ["Lima", "Paris", "Cairo", "Quito"]}


def metric(question: Question, condition: str) -> dict[str, Any]:
    """The `illusion` metric of one record."""
    doc = question.doc()
    common = {
        "schema": 1,
        **{key: doc[key] for key in ("item_id", "dataset", "language", "cluster", "passage_sha256")},
        "condition": condition,
        "valid": question.valid,
        "invalid_reason": question.invalid_reason,
        "fits": question.fits,
    }
    if condition in question.probes:
        source = CONDITIONS[condition].answers_from
        told = question.probes[condition]
        if source is not None and "earlier" not in told:
            told = {**told, "earlier": _answer(metric(question, source))}
        return {**common, **told}
    if condition == "gen":
        right = bool(question.gen)
        flags = {"empty": False, "cut": False, "repeated": False, "unclosed_thought": False, "non_finite": False}
        return {
            **common,
            "answers": ["Paris"],
            "gold_text": "Paris",
            "answer": question.answer if question.answer is not None else ("Paris" if right else "Rome"),
            "right": {"standard": right, "exact": right, "f1": right, "contained": right},
            "f1": float(right),
            "char_f1": float(right),
            "tied_steps": question.tied_steps,
            "flags": {**flags, **question.flags},
        }
    right = bool(question.near if condition == "mc" else question.far)
    gold = CHOICES[condition].index("Paris")
    other = (gold + 1) % 4
    scores = [-9.0] * 4
    scores[gold], scores[other] = (-1.0, -2.0) if right else (-2.0, -1.0)
    if question.tie:
        right, scores = False, [-1.0] * 4
    kinds = {"chars": right, "sum": right, "bytes": right, "pmi": right}
    return {
        **common,
        "choices": CHOICES[condition],
        "gold": gold,
        "sources": ["gold" if c == "Paris" else "passage:name" for c in CHOICES[condition]],
        "logprobs": scores if question.valid else [float("nan")] * 4,
        "logprobs_unconditional": None,
        "right": {**kinds, **question.extra_right},
        "picked": None if question.tie else gold if right else other,
        "first_token_rank": question.rank,
        "parting": question.parting,
        "flags": {"non_finite": False},
    }


def _answer(value: dict[str, Any]) -> str:
    """What was answered, in either format."""
    if "answer" in value:
        return str(value["answer"])
    return str(value["choices"][value["picked"]])


def record(question: Question, condition: str, doc_id: int, prompt_prefix: str = "") -> dict[str, Any]:
    """One line of a samples file."""
    doc = question.doc()
    asked = CONDITIONS[condition]
    prompt = f"{prompt_prefix}{doc['passage']}\n{doc['question']}\nAnswer:"
    if condition in question.probes:
        return _probe_record(question, condition, doc_id, prompt if asked.same_prompt else f"{condition}: {prompt}")
    generation = condition == "gen"
    arguments = (
        {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": [], "do_sample": False, "max_gen_toks": 48}}}
        if generation
        else {f"gen_args_{i}": {"arg_0": prompt, "arg_1": f" {c}"} for i, c in enumerate(CHOICES[condition])}
    )
    value = metric(question, condition)
    resps = [[value["answer"]]] if generation else [[[str(lp), "False"]] for lp in value["logprobs"]]
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": "Paris" if generation else str(value["gold"]),
        "arguments": arguments,
        "resps": resps,
        "filtered_resps": [r[0] for r in resps],
        "filter": "none",
        "metrics": ["illusion"],
        "doc_hash": sha(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": sha(prompt),
        "target_hash": sha("Paris"),
        "illusion": value,
    }


def _probe_record(question: Question, condition: str, doc_id: int, prompt: str) -> dict[str, Any]:
    value = metric(question, condition)
    doc = {**question.doc(), "condition": condition}
    if CONDITIONS[condition].answers_from is not None:
        doc["earlier"] = value["earlier"]
        prompt = f"{prompt} Earlier answer: {value['earlier']}"
    return {
        "doc_id": doc_id,
        "doc": doc,
        "filter": "none",
        "metrics": ["illusion"],
        "doc_hash": sha(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": sha(prompt),
        "illusion": value,
    }


def receipt(
    method: str = "wanda",
    sparsity: float = 0.5,
    texts: Sequence[str] = ("other",),
    parts: bool = False,
    **spec: Any,
) -> dict[str, Any]:
    """A pruning receipt as pruned_hf leaves it in the results file; `parts`: with sampled hashes of running text.

    More keywords are fields of the spec.
    """
    sampled = {"rule": RULE, "hashes": sorted(set().union(*(shingles(text) for text in texts))), "cut": False}
    return {
        "schema": 1,
        "spec": {"method": method, "sparsity": sparsity, "pattern": "unstructured", "allocation": "uniform", **spec},
        "spec_digest": "ab" * 32,
        "sparsity_asked": sparsity,
        "sparsity_reached": sparsity,
        "whole_model_sparsity": sparsity / 3,
        "coverage": 1.0,
        "weights": [],
        "calibration": None
        if method == "none"
        else {
            "source": "builtin",
            "digest": "cd" * 32,
            "rows": 16,
            "length": 512,
            "tokens_per_language": {"de": 4096, "en": 4096},
            "text_hashes": [sha(text) for text in texts],
            **({"shingles": sampled} if parts else {}),
        },
        "weights_sha256": "ef" * 32,
    }


def write_run(
    folder: Path,
    questions: Iterable[Question],
    *,
    pruning: dict[str, Any] | None = None,
    conditions: Sequence[str] = ("mc", "mc_far", "gen"),
    num_fewshot: int = 1,
    version: str = "1.0",
    prompt_prefix: str = "",
    results: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    stamp: str = STAMP,
) -> Path:
    """Write OUT/<model>/results_T.json and samples_TASK_T.jsonl; returns OUT.

    Under the given conditions, and under every other that some question has among its probes.
    """
    questions = list(questions)
    probed = [name for name in CONDITIONS if any(name in q.probes for q in questions)]
    home = folder / "org__model"
    home.mkdir(parents=True, exist_ok=True)
    tasks: dict[str, int] = {}
    scores: dict[str, dict[str, Any]] = {}
    places = sorted({(q.dataset, q.language) for q in questions})
    for dataset, language in places:
        mine = [q for q in questions if (q.dataset, q.language) == (dataset, language)]
        for condition in [*conditions, *probed]:
            attribute = {"mc": "near", "mc_far": "far", "gen": "gen"}.get(condition)
            here = [q for q in mine if condition in q.probes or (attribute and getattr(q, attribute) is not None)]
            if not here:
                continue
            task = f"{dataset}_{condition}_{language}"
            tasks[task] = len(here)
            scores[task] = {"alias": task, **_score(condition, here)}
            lines = [json.dumps(record(q, condition, n, prompt_prefix), ensure_ascii=False) for n, q in enumerate(here)]
            path = home / f"samples_{task}_{stamp}.jsonl"
            path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    whole = {
        "results": scores,
        "configs": {
            task: {"task": task, **({"generation_kwargs": GENERATION} if "_gen_" in task else {})} for task in tasks
        },
        "versions": dict.fromkeys(tasks, version),
        "n-shot": dict.fromkeys(tasks, num_fewshot),
        "n-samples": {task: {"original": count, "effective": count} for task, count in tasks.items()},
        "config": {
            "model": "pruned_hf",
            "model_args": {"pretrained": "org/model"},
            "illusion": {
                "receipt": pruning,
                "model": model or {},
                "versions": {},
                "batch_size": 8,
                "enable_thinking": False,
            },
            "batch_size": "8",
            "device": "cpu",
            "use_cache": None,
            "limit": None,
            "gen_kwargs": {},
            **(config or {}),
        },
        "lm_eval_version": "0.4.13",
        "transformers_version": "5.24.0",
        "date": 1796032800.0,
        "system_instruction": None,
        "fewshot_as_multiturn": True,
        "chat_template": None,
        "chat_template_sha": None,
        **(results or {}),
    }
    (home / f"results_{stamp}.json").write_text(json.dumps(whole, indent=2, ensure_ascii=False), encoding="utf-8")
    return folder


def _score(condition: str, questions: Sequence[Question]) -> dict[str, float]:
    """The mean of R or G over valid items, as the harness writes it; nothing of probes."""
    name = {"mc": "acc_norm,none", "mc_far": "acc_norm,none", "gen": "correct,none"}.get(condition)
    key = "standard" if condition == "gen" else "chars"
    rights = [float(metric(q, condition)["right"][key]) for q in questions if q.valid] if name else []
    return {name: sum(rights) / len(rights)} if name and rights else {}


def pattern(bits: str, **fields: Any) -> list[Question]:
    """Questions from letters: b both, r recognition-only, g generation-only, n neither (far as near)."""
    table = {"b": (True, True), "r": (True, False), "g": (False, True), "n": (False, False)}
    return [
        Question(number, near=table[c][0], far=table[c][0], gen=table[c][1], **fields) for number, c in enumerate(bits)
    ]
