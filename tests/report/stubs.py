"""Models that are plain functions: doc in, response out; their answers become run folders through `process_*`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from synthetic import STAMP, sha, write_run

from lm_eval_illusion.harness.answers import AnswerText, ScoredPair
from lm_eval_illusion.pairs import results
from lm_eval_illusion.pairs.conditions import CONDITIONS, HALVES
from lm_eval_illusion.pairs.docs import build

PROCESS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "mc": results.process_near,
    "mc_far": results.process_far,
    "gen": results.process_generation,
    "shown": results.process_shown,
    "beam4": results.process_beam,
    "sample": results.process_sample,
    "rank": results.process_rank,
}
"""The conditions that the stub models are asked under."""
Doc = Mapping[str, Any]
Stub = Callable[[Doc], list[Any]]
"""A row of some condition in, the response to it out."""
WRONG = "zebra zebu"
"""Says nothing that any passage or option of the mini set holds."""


@cache
def shipped(condition: str, language: str) -> tuple[dict[str, Any], ...]:
    """The shipped rows under one condition."""
    rows = build("illusion_mini", language).rows
    return tuple({**row, **({} if condition in HALVES else {"condition": condition})} for row in rows)


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


def model(**behaviour: Stub) -> dict[str, Stub]:
    """A model by condition: one that is wrong in every way, but for what is given."""

    def open_answer(doc: Doc) -> list[Any]:
        return says(WRONG)

    def choice(distance: str) -> Stub:
        return lambda doc: picks(doc[f"choices_{distance}"], (doc[f"gold_{distance}"] + 1) % 4)

    wrong: dict[str, Stub] = {
        "mc": choice("near"),
        "mc_far": choice("far"),
        "gen": open_answer,
        "shown": open_answer,
        "beam4": lambda doc: says_several([WRONG] * 4),
        "sample": lambda doc: says_several([WRONG] * 8),
        "rank": lambda doc: ranks(9, WRONG),
    }
    return {**wrong, **behaviour}


def recognises(doc: Doc) -> list[Any]:
    return picks(doc["choices_near"], doc["gold_near"])


def recognises_far(doc: Doc) -> list[Any]:
    return picks(doc["choices_far"], doc["gold_far"])


def gold(doc: Doc) -> list[Any]:
    return says(doc["gold_text"])


KNOWS: dict[str, Stub] = model(
    mc=recognises,
    mc_far=recognises_far,
    gen=gold,
    shown=gold,
    beam4=lambda doc: says_several([doc["gold_text"]] * 4),
    sample=lambda doc: says_several([doc["gold_text"]] * 8),
    rank=lambda doc: ranks(1, doc["gold_text"]),
)
"""A model that knows every answer."""


def _line(number: int, doc: dict[str, Any], responses: list[Any], metric: dict[str, Any]) -> dict[str, Any]:
    prompt = doc["prompt"] if CONDITIONS[metric["illusion"]["condition"]].same_prompt else f"?{doc['prompt']}"
    return {
        "doc_id": number,
        "doc": doc,
        "target": doc["gold_text"],
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": ""}},
        "resps": [[response] for response in responses],
        "filtered_resps": responses,
        "filter": "none",
        "metrics": list(metric),
        "doc_hash": sha(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": sha(prompt),
        "target_hash": sha(doc["gold_text"]),
        **metric,
    }


def write_stub_run(
    folder: Path, stub: Mapping[str, Stub], languages: Sequence[str], conditions: Sequence[str], **facts: Any
) -> Path:
    """Ask a stub model the shipped questions and write its run folder.

    Args:
        folder: Where to.
        stub: The model, by condition.
        languages: Of illusion_mini.
        conditions: What to ask, each a key of `PROCESS`.
        **facts: As for `synthetic.write_run` (pruning and the like).
    """
    counts: dict[str, int] = {}
    home = write_run(folder, [], **facts) / "org__model"
    for condition in conditions:
        for language in languages:
            task = f"illusion_mini_{condition}_{language}"
            lines = []
            for number, doc in enumerate(shipped(condition, language)):
                responses = stub[condition](doc)
                lines.append(json.dumps(_line(number, doc, responses, PROCESS[condition](doc, responses))))
            counts[task] = len(lines)
            (home / f"samples_{task}_{STAMP}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = home / f"results_{STAMP}.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    generation = {"generation_kwargs": {"until": [], "do_sample": False, "max_gen_toks": 48}}
    generates = {task: CONDITIONS[task.split("_", 2)[2].rpartition("_")[0]].kind != "choice" for task in counts}
    told["results"] = {task: {"alias": task} for task in counts}
    told["configs"] = {task: {"task": task, **(generation if generates[task] else {})} for task in counts}
    told["versions"] = dict.fromkeys(counts, "1.0")
    told["n-shot"] = dict.fromkeys(counts, 1)
    told["n-samples"] = {task: {"original": n, "effective": n} for task, n in counts.items()}
    path.write_text(json.dumps(told, ensure_ascii=False), encoding="utf-8")
    return folder
