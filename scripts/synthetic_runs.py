"""Make synthetic run folders: `python scripts/synthetic_runs.py OUT --items 10000 [--probes] [--hostile]`.

Writes OUT/dense, OUT/wanda-0.5 and OUT/wanda-0.7 as lm-eval 0.4.13 lays runs out, with made-up questions in eight
languages and scripts. Every item depends on its number alone. For measuring and testing pages; no model is asked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STAMP = "2026-11-30T10-00-00.000000"
SYLLABLES = {
    "en": "the ra ti on ing er st ow en ble man tor wa ser pli mo",
    "sw": "ka wa ni ma ki li tu mba nya sha ku za fu ji ndo ra",
    "ru": "но ста ре при ско вол ка ть ве гра до мы ло ни зе пу",
    "ar": "كا مر ال بن سل عد هر نو طا لي قم دو فت حس رج يا",
    "th": "กา มี นั่ ที่ ไป ชา เรา คน ดี ปลา ไม้ น้ำ สูง ใจ บ้าน เมือง",
    "hi": "का में है रा ति नी प्र सं गा दे व्या लो हि म स्त्र या",
    "ko": "가 나 다 은 서울 시 도 한 국 는 이 로 사 람 물 산",
    "te": "కా ము న్న రా తె లు గు పా డి వా ని చె ట్టు మ ళ్ళీ యా",
}
UNSPACED = ("th",)
RUNS = {"dense": None, "wanda-0.5": 0.5, "wanda-0.7": 0.7}
CONDITIONS = ("mc", "mc_far", "gen")
PROBES = ("shown", "beam4", "rank")
MATCHERS = ("standard", "exact", "f1", "contained")
NORMALISERS = ("chars", "sum", "bytes", "pmi")
HOSTILE = (
    "</script><script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\"> <!-- <svg/onload=alert(1)>",
    "\u202eevil\u202c \u2066a\u2069 \u0000\u0007\u001b[31m \ufeff\u2028",
    "Z" + "\u0341" * 400,
    "word" * 25_000,
    "]]> &amp;&#60;b&#62; {{7*7}} ${7*7} | a | b | ` javascript:alert(1)",
)


def main() -> None:
    """Read the arguments and write the folders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--probes", action="store_true", help="also shown, beam4 and rank")
    parser.add_argument("--hostile", action="store_true", help="some answers that try to break a page")
    given = parser.parse_args()
    write_runs(given.out, given.items, probes=given.probes, hostile=given.hostile)


def write_runs(out: Path, items: int, *, probes: bool = False, hostile: bool = False) -> list[Path]:
    """Write the folders and name them, the dense one first."""
    questions = [_question(number) for number in range(items)]
    for name, sparsity in RUNS.items():
        conditions = (*CONDITIONS, *(PROBES if probes else ()))
        tasks: dict[str, int] = {}
        home = out / name / "org__model"
        home.mkdir(parents=True, exist_ok=True)
        for language in SYLLABLES:
            mine = [question for question in questions if question["language"] == language]
            for condition in conditions if mine else ():
                task = f"tydiqa_{condition}_{language}"
                tasks[task] = len(mine)
                lines = (_record(question, condition, sparsity or 0.0, hostile) for question in mine)
                text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
                (home / f"samples_{task}_{STAMP}.jsonl").write_text(text, encoding="utf-8", newline="\n")
        text = json.dumps(_results(tasks, sparsity), ensure_ascii=False)
        (home / f"results_{STAMP}.json").write_text(text, encoding="utf-8")
    return [out / name for name in RUNS]


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _text(draw: random.Random, language: str, words: int) -> str:
    parts = SYLLABLES[language].split()
    made = ("".join(draw.choices(parts, k=draw.randint(1, 3))) for _ in range(words))
    return ("" if language in UNSPACED else " ").join(made)


def _question(number: int) -> dict[str, Any]:
    languages = list(SYLLABLES)
    language = languages[number % len(languages)]
    draw = random.Random(f"question {number}")
    near = [f"{_text(draw, language, 2)} {number * 10 + place}" for place in range(4)]
    far = [near[0], *(f"{_text(draw, language, 2)} {number * 10 + place}" for place in range(4, 7))]
    spans = [part for option in near for part in (_text(draw, language, 18), option)]
    passage = " ".join([*spans, _text(draw, language, 18)]) + "."
    item_id = f"tydiqa/{language}/{number:06d}"
    return {
        "item_id": item_id,
        "dataset": "tydiqa",
        "language": language,
        "cluster": item_id,
        "passage": passage,
        "question": f"{_text(draw, language, 7)}?",
        "answers": [near[0]],
        "passage_sha256": _sha(" ".join(passage.split())),
        "near": near,
        "far": far,
        "number": number,
    }


def _right(question: dict[str, Any], condition: str, sparsity: float) -> bool:
    """Harder questions are lost first, open answers before choices."""
    hardness = random.Random(f"hardness {question['number']}").random()
    luck = random.Random(f"{condition} {sparsity} {question['number']}").random()
    ease = {"mc": 0.85, "mc_far": 1.15, "gen": 0.55, "shown": 0.7, "beam4": 0.6}[condition]
    cost = {"mc": 0.4, "mc_far": 0.2, "gen": 0.7, "shown": 0.4, "beam4": 0.6}[condition]
    return hardness + 0.3 * (luck - 0.5) < ease - cost * sparsity


def _answer(question: dict[str, Any], right: bool, hostile: bool) -> str:
    if hostile and question["number"] % 4 == 1:
        return HOSTILE[question["number"] // 4 % len(HOSTILE)]
    return str(question["answers"][0] if right else question["far"][1])


def _metric(question: dict[str, Any], condition: str, sparsity: float, hostile: bool) -> dict[str, Any]:
    keys = ("item_id", "dataset", "language", "cluster", "passage_sha256")
    common = {key: question[key] for key in keys}
    common |= {"schema": 1, "condition": condition, "valid": True, "invalid_reason": None, "fits": True}
    gold, draw = question["answers"][0], random.Random(f"{condition} {sparsity} {question['item_id']}")
    if condition == "rank":
        first = 1 + int(draw.expovariate(0.5 / (1 + 12 * sparsity)))
        leave = 0 if first > 1 else None
        told = {"ranks": [first, 1], "logprobs": [-1.0, -0.1], "agreement": 0.5 if first > 1 else 1.0}
        return {**common, "gold_text": gold, **told, "leave": leave, "margin": None if leave is None else -1.0}
    right = _right(question, condition, sparsity)
    if condition in ("mc", "mc_far"):
        choices = question["near"] if condition == "mc" else question["far"]
        order = sorted(range(4), key=lambda place: _sha(f"{question['item_id']} {condition} {place}"))
        choices, key = [choices[place] for place in order], order.index(0)
        scores = [-draw.uniform(8.0, 30.0) for _ in choices]
        picked = key if right else (key + 1) % 4
        scores[picked] = -draw.uniform(0.5, 1.5)
        return {
            **common,
            "choices": choices,
            "gold": key,
            "sources": ["gold" if place == 0 else "passage:phrase" for place in order],
            "logprobs": scores,
            "right": dict.fromkeys(NORMALISERS, right),
            "picked": picked,
            "first_token_rank": 1 + int(draw.expovariate(0.5 / (1 + 12 * sparsity))),
        }
    answer, rights = _answer(question, right, hostile), dict.fromkeys(MATCHERS, right)
    told = {"answers": [gold], "gold_text": gold, "right": rights, "control": 0.0}
    if condition == "beam4":
        outputs = [{"answer": answer, "logprob": -1.0, "right": rights}]
        return {**common, **told, "outputs": outputs, "right_first": rights, "control_first": 0.0}
    flags = {"empty": False, "cut": False, "repeated": False, "unclosed_thought": False, "gold_inside": False}
    return {**common, **told, "answer": answer, "f1": float(right), "char_f1": float(right), "flags": flags}


def _record(question: dict[str, Any], condition: str, sparsity: float, hostile: bool) -> dict[str, Any]:
    doc = {key: value for key, value in question.items() if key not in ("near", "far", "number")}
    same = condition in (*CONDITIONS, "beam4", "rank")
    prompt = f"{doc['passage']}\n{doc['question']}\n" + ("" if same else condition)
    doc = doc if condition in CONDITIONS else {**doc, "condition": condition}
    return {
        "doc": doc,
        "metrics": ["illusion"],
        "doc_hash": _sha(json.dumps(doc, ensure_ascii=False)),
        "prompt_hash": _sha(prompt),
        "illusion": _metric(question, condition, sparsity, hostile),
    }


def _weights(sparsity: float) -> Iterator[dict[str, Any]]:
    """A receipt's matrices: the later the block, the sparser."""
    for block in range(12):
        for part in ("self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj"):
            zeros = int(256 * 256 * sparsity * (0.9 + 0.2 * block / 11))
            name = f"model.layers.{block}.{part}.weight"
            yield {"name": name, "shape": [256, 256], "zeros_before": 0, "zeros_after": zeros, "masked": zeros}


def _results(tasks: dict[str, int], sparsity: float | None) -> dict[str, Any]:
    receipt = {
        "schema": 1,
        "spec": {"method": "wanda", "sparsity": sparsity, "pattern": "unstructured", "allocation": "uniform"},
        "sparsity_asked": sparsity,
        "sparsity_reached": sparsity,
        "coverage": 1.0,
        "weights": list(_weights(sparsity or 0.0)),
        "calibration": {"source": "builtin", "rows": 16, "length": 512, "tokens_per_language": {}, "text_hashes": []},
        "weights_sha256": _sha(f"{sparsity}"),
    }
    asked = {"until": [], "do_sample": False, "max_gen_toks": 48}
    return {
        "results": {task: {"alias": task} for task in tasks},
        "configs": {
            task: {"task": task, **({"generation_kwargs": asked} if "_gen_" in task else {})} for task in tasks
        },
        "versions": dict.fromkeys(tasks, "1.0"),
        "n-shot": dict.fromkeys(tasks, 1),
        "n-samples": {task: {"original": count, "effective": count} for task, count in tasks.items()},
        "config": {
            "model": "pruned_hf",
            "model_args": {"pretrained": "org/model"},
            "illusion": {"receipt": receipt if sparsity else None, "enable_thinking": False},
            "gen_kwargs": {},
        },
        "lm_eval_version": "0.4.13",
        "fewshot_as_multiturn": True,
    }


if __name__ == "__main__":
    main()
