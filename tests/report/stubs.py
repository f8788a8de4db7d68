"""Models that are plain functions: doc in, response out; their answers become run folders through `process_*`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from synthetic import STAMP, sha, write_run

from lm_eval_illusion.harness.answers import AnswerText, ScoredPair
from lm_eval_illusion.pairs.conditions import CONDITIONS, HALVES
from lm_eval_illusion.pairs.tables import SPLIT, keep_sampled, load
from tests.pairs.probed import PROCESS

Doc = Mapping[str, Any]
Stub = Callable[[Doc], list[Any]]
"""A row of some condition in, the response to it out."""
WRONG = "zebra zebu"
"""Says nothing that any passage or option of the mini set holds."""
_NEAR = ("choices_near", "gold_near")
_BOTH = ("choices_both", "gold_both")
OPTIONS = {
    "mc": _NEAR,
    "mc_far": ("choices_far", "gold_far"),
    "mc_letters": ("letters", "gold_letter"),
    "mc_graded": ("choices_graded", "gold_graded"),
    "closed_mc": _NEAR,
    "choices_only": _BOTH,
    "question_only": _BOTH,
    "rank_spans": ("choices_spans", "gold_spans"),
    "revise1_mc": _NEAR,
    "revise2_mc": _NEAR,
}
"""Condition -> the columns of its options and of the gold's number."""


@cache
def shipped(condition: str, language: str, fed: Path | None = None) -> tuple[dict[str, Any], ...]:
    """The rows that the harness would ask: the shipped questions under one condition."""
    named = {} if condition in HALVES else {"pairs_condition": condition}
    told = {"illusion_answers": str(fed)} if condition.startswith("revise") else {}
    table = load(pairs_dataset="illusion_mini", pairs_language=language, **named, **told)
    return tuple(dict(row) for row in keep_sampled(table[SPLIT]))


def write_fed(path: Path, languages: Iterable[str], stub: Mapping[str, Stub]) -> Path:
    """Write what a stub answers to every question, in both formats and both rounds: see `harness.feed`."""
    answers = {
        row["item_id"]: {
            "gen": str(stub["gen"](row)[0]),
            "mc": _picked(row, stub["mc"]),
            "revise1_gen": str(stub["revise1_gen"](row)[0]),
            "revise1_mc": _picked(row, stub["revise1_mc"]),
        }
        for language in languages
        for row in shipped("mc", language)
    }
    path.write_text(json.dumps({"schema": 1, "from": [], "items": None, "answers": answers}), encoding="utf-8")
    return path


def _picked(row: Doc, stub: Stub) -> str:
    scores = [pair[0] for pair in stub(row)]
    text: str = row["choices_near"][scores.index(max(scores))]
    return text


def drawn(doc: Doc, salt: object, n: int) -> int:
    """A number below n, uniform by hash of the item."""
    digest = hashlib.sha256(f"{doc['item_id']}/{salt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % n


def says(text: str, **told: Any) -> list[Any]:
    return [AnswerText(text, **{"fits": True, "finish": "stop", "non_finite": False, "tied_steps": 0, **told})]


def says_several(texts: Sequence[str], finish: str = "stop") -> list[Any]:
    found = [{"text": text, "logprob": -1.0 - i, "finish": finish} for i, text in enumerate(texts)]
    return says(texts[0], hypotheses=found)


def ranks(first: int, answer: str) -> list[Any]:
    """The gold's first token at this rank, its second the greedy one."""
    led = first == 1
    return says(
        answer,
        ranks={
            "ranks": [first, 1],
            "logprobs": [-0.5 * first, -0.1],
            "leave": None if led else 0,
            "margin": None if led else -1.0,
            "agreement": 1.0 if led else 0.5,
            "gold_logprob": -0.5 * first - 0.1,
            "greedy_logprob": -0.6,
            "gold_tokens": 2,
            "greedy_tokens": 2,
        },
    )


def picks(choices: Sequence[str], index: int) -> list[Any]:
    """Scores under which one option leads per character and by the sum."""
    return [
        ScoredPair(-0.001 * len(text) if i == index else -10.0 * len(text), i == index, fits=True, first_token_rank=1)
        for i, text in enumerate(choices)
    ]


def picking(condition: str, number: Callable[[Doc, int, int], int]) -> Stub:
    """A model that picks the option that a function of (row, gold, number of near options) names."""
    texts, gold = OPTIONS[condition]
    return lambda doc: picks(doc[texts], number(doc, doc[gold], min(4, len(doc[texts]))))


def answering(condition: str, text: Callable[[Doc], str]) -> Stub:
    """A model that gives the same open answer in each of as many outputs as the condition has."""
    outputs = {"beam4": 4, "beam8": 8, "sample": 8}.get(condition)
    return lambda doc: says(text(doc)) if outputs is None else says_several([text(doc)] * outputs)


def _model(right: bool) -> dict[str, Stub]:
    made: dict[str, Stub] = {}
    for name, condition in CONDITIONS.items():
        if name in OPTIONS:
            made[name] = picking(name, lambda doc, gold, n: gold if right else (gold + 1) % n)
        elif condition.kind == "rank":
            made[name] = lambda doc: ranks(1, doc["gold_text"]) if right else ranks(9, WRONG)
        else:
            made[name] = answering(name, lambda doc: doc["gold_text"] if right else WRONG)
    return made


KNOWS = _model(True)
"""A model that knows every answer, by condition."""


def model(**behaviour: Stub) -> dict[str, Stub]:
    """A model that is wrong in every way, but for what is given."""
    return {**_model(False), **behaviour}


def _line(number: int, doc: Doc, responses: list[Any], metric: dict[str, Any]) -> dict[str, Any]:
    return {
        "doc_id": number,
        "doc": doc,
        "target": doc["gold_text"],
        "arguments": {"gen_args_0": {"arg_0": doc["prompt"], "arg_1": ""}},
        "resps": [[response] for response in responses],
        "filtered_resps": responses,
        "filter": "none",
        "metrics": list(metric),
        "doc_hash": sha(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": sha(doc["prompt"]),
        "target_hash": sha(doc["gold_text"]),
        **metric,
    }


def write_stub_run(
    folder: Path,
    stub: Mapping[str, Stub],
    languages: Sequence[str],
    conditions: Iterable[str],
    *,
    fed: Path | None = None,
    change: Callable[[Doc], Doc] = dict,
    **facts: Any,
) -> Path:
    """Ask a stub model the shipped questions and write its run folder.

    Args:
        folder: Where to.
        stub: The model, by condition.
        languages: Of illusion_mini.
        conditions: What to ask.
        fed: Earlier answers, for conditions that show them.
        change: What to make of each row first.
        **facts: As for `synthetic.write_run` (pruning and the like).
    """
    counts: dict[str, int] = {}
    generates: set[str] = set()
    home = write_run(folder, [], **facts) / "org__model"
    for condition in conditions:
        for language in languages:
            task = f"illusion_mini_{condition}_{language}"
            lines = []
            for number, doc in enumerate(map(change, shipped(condition, language, fed))):
                responses = stub[condition](doc)
                lines.append(json.dumps(_line(number, doc, responses, PROCESS[condition](doc, responses))))
            counts[task] = len(lines)
            (home / f"samples_{task}_{STAMP}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
            if condition not in OPTIONS:
                generates.add(task)
    path = home / f"results_{STAMP}.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    generation = {"generation_kwargs": {"until": [], "do_sample": False, "max_gen_toks": 48}}
    told["results"] = {task: {"alias": task} for task in counts}
    told["configs"] = {task: {"task": task, **(generation if task in generates else {})} for task in counts}
    told["versions"] = dict.fromkeys(counts, "1.0")
    told["n-shot"] = dict.fromkeys(counts, 1)
    told["n-samples"] = {task: {"original": n, "effective": n} for task, n in counts.items()}
    path.write_text(json.dumps(told, ensure_ascii=False), encoding="utf-8")
    return folder
