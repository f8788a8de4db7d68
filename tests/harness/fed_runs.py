"""Run folders as the harness writes them, with only what is fed on: which item, which condition, what was answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CHOICES = ["Oslo", "Paris", "Rome", "Bonn"]


def record(item: str, condition: str, answer: str | None, right: bool, valid: bool = True) -> dict[str, Any]:
    """The `illusion` metric of one item: an answer written, or the option of that text picked (None: a tie)."""
    dataset, language, _ = item.split("/")
    common = {"schema": 1, "item_id": item, "dataset": dataset, "language": language, "condition": condition}
    common |= {"cluster": item, "valid": valid, "invalid_reason": None if valid else "does_not_fit"}
    if condition.endswith("gen"):
        told = {"answers": ["Paris"], "gold_text": "Paris", "answer": answer, "right": {"standard": right}}
        control = {"control_targets": ["Rome"], "control_hits": [False], "control": 0.0} if condition != "gen" else {}
        return common | told | control
    picked = None if answer is None else CHOICES.index(answer)
    return {**common, "choices": CHOICES, "gold": 1, "right": {"chars": right}, "picked": picked}


def write_run(folder: Path, *records: dict[str, Any]) -> str:
    """Write a finished run of these records and return its folder."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for told in records:
        tasks.setdefault(f"{told['dataset']}_{told['condition']}_{told['language']}", []).append(told)
    folder.mkdir(parents=True)
    for name, of_task in tasks.items():
        lines = [
            json.dumps({"doc_hash": "d", "prompt_hash": "p", "doc": {}, "illusion": told}, ensure_ascii=False)
            for told in of_task
        ]
        (folder / f"samples_{name}_T.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    results = {"configs": {name: {} for name in tasks}, "config": {"model": "pruned_hf"}}
    (folder / "results_T.json").write_text(json.dumps(results), encoding="utf-8")
    return str(folder)
