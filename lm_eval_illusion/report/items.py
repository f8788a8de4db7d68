"""One plain line an item, with every run's answers: what items.jsonl and a browser of items hold."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lm_eval_illusion.report.classes import quadrant
from lm_eval_illusion.report.halves import HALVES, ChoiceHalf, GenerationHalf, Half
from lm_eval_illusion.report.join import Item, gather
from lm_eval_illusion.report.probe_items import probe_states
from lm_eval_illusion.report.render.safe import escape_invisible
from lm_eval_illusion.report.runs import Document, HalfRecord, Run
from lm_eval_illusion.report.schema import Example

__all__ = ["count_turned", "examples", "item_lines", "items_digest", "items_text"]


def item_lines(runs: Sequence[Run], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Every item of any run, sorted by id.

    Returns:
        JSON-able dicts: identity, question, passage, options, and under `runs` one entry a label (None: not there).
    """
    tables = [_by_item(run) for run in runs]
    lines = []
    for item_id in sorted(set().union(*tables)):
        found = [table[item_id] for table in tables if item_id in table]
        halves = {condition: record.half for there in reversed(found) for condition, record in there.items()}
        first = next(iter(halves.values()))
        near, far, written = halves.get("mc"), halves.get("mc_far"), halves.get("gen")
        document = next((run.documents[item_id] for run in runs if item_id in run.documents), Document("", ""))
        lines.append(
            {
                "item_id": item_id,
                "dataset": first.dataset,
                "language": first.language,
                "cluster": first.cluster,
                "passage_sha256": first.passage_sha256,
                "question": document.question,
                "passage": document.passage,
                "gold": written.gold_text if isinstance(written, GenerationHalf) else _gold(near) or _gold(far),
                "answers": written.answers if isinstance(written, GenerationHalf) else [],
                "near": _options(near),
                "far": _options(far),
                "runs": {
                    label: _answers(table[item_id]) if item_id in table else None
                    for label, table in zip(labels, tables, strict=True)
                },
            }
        )
    return lines


def items_text(items: Iterable[Mapping[str, Any]]) -> str:
    """What items.jsonl holds: a line each, invisible and direction-changing characters as escapes."""
    lines = (json.dumps(item, ensure_ascii=False, allow_nan=False) for item in items)
    return escape_invisible("".join(line + "\n" for line in lines))


def items_digest(items: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 of items.jsonl."""
    return hashlib.sha256(items_text(items).encode("utf-8", "surrogatepass")).hexdigest()


def _by_item(run: Run) -> dict[str, dict[str, HalfRecord]]:
    table: dict[str, dict[str, HalfRecord]] = {}
    for condition, records in run.halves.items():
        for item_id, record in records.items():
            table.setdefault(item_id, {})[condition] = record
    return table


def _gold(half: Half | None) -> str | None:
    return half.choices[half.gold] if isinstance(half, ChoiceHalf) and half.choices else None


def _options(half: Half | None) -> dict[str, Any] | None:
    if not isinstance(half, ChoiceHalf):
        return None
    return {"choices": half.choices, "gold": half.gold, "sources": half.sources}


def _answers(records: Mapping[str, HalfRecord]) -> dict[str, Any]:
    halves = {condition: record.half for condition, record in records.items()}
    written = halves.get("gen")
    answers: dict[str, Any] = {
        "asked": {
            condition: {"task": record.task, "doc_hash": record.doc_hash, "prompt_hash": record.prompt_hash}
            for condition, record in sorted(records.items())
            if condition in HALVES
        }
    }
    for name, key in (("near", "mc"), ("far", "mc_far")):
        half = halves.get(key)
        answers[name] = _scored(half) if isinstance(half, ChoiceHalf) else None
        if isinstance(half, ChoiceHalf) and isinstance(written, GenerationHalf) and half.valid and written.valid:
            answers[f"quadrant_{name}"] = quadrant(bool(half.right["chars"]), bool(written.right["standard"]))
    answers["generation"] = _written(written) if isinstance(written, GenerationHalf) else None
    return answers | probe_states(gather(halves))


def _scored(half: ChoiceHalf) -> dict[str, Any]:
    return {
        "valid": half.valid,
        "invalid_reason": half.invalid_reason,
        "fits": half.fits,
        "right": half.right,
        "picked": half.picked,
        "logprobs": [None if value is None or not math.isfinite(value) else value for value in half.logprobs],
        "first_token_rank": half.first_token_rank,
        "parting": half.parting.model_dump() if half.parting else None,
    }


def _written(half: GenerationHalf) -> dict[str, Any]:
    return {
        "valid": half.valid,
        "invalid_reason": half.invalid_reason,
        "fits": half.fits,
        "answer": half.answer,
        "right": half.right,
        "f1": None if half.f1 is None or not math.isfinite(half.f1) else half.f1,
        "char_f1": None if half.char_f1 is None or not math.isfinite(half.char_f1) else half.char_f1,
        "tied_steps": half.tied_steps,
        "flags": half.flags,
    }


def examples(items: Sequence[Item], documents: Mapping[str, Document], count: int = 6) -> list[Example]:
    """A few items that went from both to recognition-only (near, else far), picked by the hash of their id."""
    chosen = sorted(
        (item for item in items if _turned(item)), key=lambda item: hashlib.sha256(item.item_id.encode()).hexdigest()
    )
    result = []
    for item in chosen[:count]:
        before, after = item.dense.generation, item.pruned.generation
        assert before is not None
        assert after is not None
        result.append(
            Example(
                item_id=item.item_id,
                language=item.language,
                question=documents.get(item.item_id, Document("", "")).question,
                gold=before.gold_text,
                dense_answer=before.answer,
                pruned_answer=after.answer,
            )
        )
    return result


def count_turned(items: Sequence[Item]) -> int:
    """How many items went from both to recognition-only: what `examples` picks from."""
    return sum(_turned(item) for item in items)


def _turned(item: Item) -> bool:
    before, after = item.dense, item.pruned
    recognised = (before.near or before.far, after.near or after.far)
    if before.generation is None or after.generation is None or recognised[0] is None or recognised[1] is None:
        return False
    stayed = bool(recognised[0].right["chars"]) and bool(recognised[1].right["chars"])
    return stayed and bool(before.generation.right["standard"]) and not after.generation.right["standard"]
