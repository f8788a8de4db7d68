"""What a sample tells of its row beside the record: the options it offers, and fields that older runs' records lack."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.pairs.records.controls import item_control

__all__ = ["completed", "options_digest"]

_OFFERED = ("choices_near", "gold_near", "choices_far", "gold_far")
_DRAWING = {"temperature": "temperature", "top_p": "top_p", "seed": "sample_seed"}
"""Field of a record of samples -> field of its row."""


def options_digest(doc: Mapping[str, Any]) -> str | None:
    """The SHA-256 of the options of an item, near and far with their order; None where the row holds none."""
    offered = {name: doc[name] for name in _OFFERED if name in doc}
    if not offered:
        return None
    return hashlib.sha256(json.dumps(offered, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def completed(metric: Mapping[str, Any], doc: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record with the fields that runs of an earlier version lack, as far as its row tells them.

    Args:
        metric: What the sample file holds under `illusion`, its condition one of `CONDITIONS`.
        doc: What it holds under `doc`; may be empty.
    """
    condition = CONDITIONS[metric["condition"]]
    more: dict[str, Any] = {}
    if condition.recovers and "item_control" not in metric and metric.get("valid") and "choices_near" in doc:
        outputs = metric.get("outputs", [metric])
        more["item_control"] = item_control(doc, [str(output["answer"]) for output in outputs])
    if metric["condition"] == "sample":
        more |= {name: doc[field] for name, field in _DRAWING.items() if name not in metric and field in doc}
    return {**metric, **more} if more else metric
