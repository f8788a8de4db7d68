"""The items as the page carries them: the lines of items.jsonl with short names, shared texts once, gzip in base64.

Base64 has no character that HTML, a script element or an eye could mistake for anything else, whatever a model wrote.
The names are read by `assets/data.js`:

    top          labels; texts (passages, each once); items
    item         id, d data set, l language, c cluster, q question, p index of the passage, g gold, a further answers,
                 n near and f far options; r runs, in the order of labels
    item.n, f    o options, g index of the gold, s sources
    run          null, or: n, f choices, g open answer, qn, qf quadrants, v verdict, by probes that recover, k rank,
                 x form, pr further conditions by name, each as in items.jsonl
    run.n, f     r right, p picked, s log-probabilities, i why invalid
    run.g        a answer, r right, i why invalid
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_illusion.report.page.plain import around, plain

__all__ = ["BUDGET", "Packed", "pack_items"]

Line = Mapping[str, Any]
BUDGET = 6_500_000
"""Bytes of base64 that leave room for figures and tables in a page of 8 MB."""


@dataclass(frozen=True)
class _Cuts:
    """Longest texts, in characters."""

    passage: int
    answer: int
    probe: int


_LEVELS = (_Cuts(8000, 600, 300), _Cuts(1200, 400, 200), _Cuts(500, 300, 120), _Cuts(200, 160, 60), _Cuts(0, 80, 40))
"""Tried in this order until the budget is kept; the last is taken anyhow."""
_SHORT = 300
"""Longest option, gold or id."""
_QUESTION = 1000


@dataclass(frozen=True)
class Packed:
    """What the page embeds."""

    base64: str
    items: int
    passage_limit: int
    shortened: bool
    """Whether texts had to be cut more than usual to keep the page small."""


def pack_items(lines: Sequence[Line], labels: Sequence[str], budget: int = BUDGET) -> Packed:
    """Pack the items, with shorter passages and answers where the whole would be too large.

    Args:
        lines: What items.jsonl holds.
        labels: Of the runs, in the order of the report.
        budget: Greatest number of characters of the result, kept where cutting can.
    """
    text, cuts = "", _LEVELS[0]
    for cuts in _LEVELS:
        text = _squeeze(_table(lines, labels, cuts))
        if len(text) <= budget:
            break
    return Packed(text, len(lines), cuts.passage, cuts != _LEVELS[0])


def _squeeze(table: Mapping[str, Any]) -> str:
    raw = json.dumps(table, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    return base64.b64encode(gzip.compress(raw, compresslevel=9, mtime=0)).decode("ascii")


def _table(lines: Sequence[Line], labels: Sequence[str], cuts: _Cuts) -> dict[str, Any]:
    texts: dict[str, int] = {}
    items = [_item(line, labels, cuts, texts) for line in lines]
    return {"labels": list(labels), "texts": list(texts), "items": items}


def _item(line: Line, labels: Sequence[str], cuts: _Cuts, texts: dict[str, int]) -> dict[str, Any]:
    golds = [gold for gold in (line["gold"], *line["answers"]) if gold]
    whole = line["passage"]
    passage = plain(around(whole, golds, cuts.passage) if cuts.passage else "", cuts.passage + 8)
    return _told(
        {
            "id": plain(line["item_id"], _SHORT),
            "d": plain(line["dataset"], _SHORT),
            "l": plain(line["language"], _SHORT),
            "c": plain(line["cluster"], _SHORT),
            "q": plain(line["question"], _QUESTION),
            "p": texts.setdefault(passage, len(texts)),
            "g": plain(line["gold"] or "", _SHORT),
            "a": [plain(answer, _SHORT) for answer in line["answers"] if answer != line["gold"]],
            "n": _options(line["near"]),
            "f": _options(line["far"]),
            "r": [_run(line["runs"][label], cuts) for label in labels],
        }
    )


def _options(options: Line | None) -> dict[str, Any] | None:
    if options is None:
        return None
    return {
        "o": [plain(choice, _SHORT) for choice in options["choices"]],
        "g": options["gold"],
        "s": [plain(source, _SHORT) for source in options["sources"]],
    }


def _run(run: Line | None, cuts: _Cuts) -> dict[str, Any] | None:
    if run is None:
        return None
    return _told(
        {
            "n": _scored(run["near"]),
            "f": _scored(run["far"]),
            "g": _written(run["generation"], cuts),
            "qn": run.get("quadrant_near"),
            "qf": run.get("quadrant_far"),
            "v": run["verdict"],
            "by": run["recovered_by"],
            "k": run["first_rank"],
            "x": run["failed_form"],
            "pr": {name: _state(state, cuts) for name, state in run["probes"].items()},
        }
    )


def _scored(half: Line | None) -> dict[str, Any] | None:
    if half is None:
        return None
    scores = [None if value is None else round(value, 2) for value in half["logprobs"]]
    return _told({"r": _bit(half["right"].get("chars")), "p": half["picked"], "s": scores, "i": _why(half)})


def _written(half: Line | None, cuts: _Cuts) -> dict[str, Any] | None:
    if half is None:
        return None
    right = _bit(half["right"].get("standard"))
    return _told({"a": plain(half["answer"], cuts.answer), "r": right, "i": _why(half)})


def _state(state: Line, cuts: _Cuts) -> dict[str, Any]:
    """The state under a further condition; texts and foreign names made plain, numbers shortened."""
    return _told({key: _value(value, cuts) for key, value in state.items() if key not in ("valid",)})


def _value(value: object, cuts: _Cuts) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, str):
        return plain(value, cuts.probe)
    if isinstance(value, list):
        return [_value(entry, cuts) for entry in value]
    if isinstance(value, dict):
        return {plain(str(key), _SHORT): _value(entry, cuts) for key, entry in value.items()}
    return value


def _why(half: Line) -> str | None:
    return None if half["valid"] else plain(half["invalid_reason"] or "invalid", _SHORT)


def _bit(value: bool | None) -> int | None:
    return None if value is None else int(value)


def _told(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is unknown or empty."""
    return {key: value for key, value in fields.items() if value is not None and value != [] and value != {}}
