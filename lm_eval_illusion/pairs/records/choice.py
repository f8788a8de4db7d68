"""Multiple choice: which option has the highest log-probability, under each way to normalise it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .common import all_fit, common, finite, told


def best(scores: Sequence[float]) -> int | None:
    """Return the index of the highest score; None where two share it or any is not finite."""
    if not scores or not all(math.isfinite(score) for score in scores):
        return None
    top = max(scores)
    return scores.index(top) if list(scores).count(top) == 1 else None


def number(response: Any) -> float:
    """Return the log-probability out of a response, which may be a bare number."""
    return float(response[0] if isinstance(response, tuple | list) else response)


def _best_among(scores: Sequence[float], among: Sequence[int]) -> int | None:
    found = best([scores[i] for i in among])
    return None if found is None else among[found]


def _parting(
    responses: Sequence[Any], by_chars: Sequence[float], gold: int, among: Sequence[int]
) -> dict[str, Any] | None:
    """Return how the gold fares against its strongest rival (log-probability per character) where their tokens part."""
    rivals = [i for i in among if i != gold]
    if not rivals or not all(math.isfinite(score) for score in by_chars):
        return None
    rival = max(rivals, key=lambda i: by_chars[i])
    parting = told(responses[rival], "parting")
    return {"rival": rival, **parting} if isinstance(parting, Mapping) else None


class _Scores:
    """The options of one item with their scores."""

    def __init__(self, choices: Sequence[str], responses: Sequence[Any]) -> None:
        n = len(choices)
        self.sums = [number(response) for response in responses[:n]]
        self.apart = [number(response) for response in responses[n : 2 * n]]
        self.has_apart = len(self.apart) == n
        self.finite = all(math.isfinite(score) for score in self.sums)
        self.by_chars = [score / max(len(c), 1) for score, c in zip(self.sums, choices, strict=True)]
        self.by_bytes = [score / max(len(c.encode()), 1) for score, c in zip(self.sums, choices, strict=True)]
        self.by_gain = [score - alone for score, alone in zip(self.sums, self.apart, strict=False)]

    def right(self, gold: int, among: Sequence[int], valid: bool) -> dict[str, bool | None]:
        """Say under each normaliser whether the gold is the best of the options at `among`."""
        pmi = self.has_apart and all(map(math.isfinite, self.apart))
        return {
            "chars": valid and _best_among(self.by_chars, among) == gold,
            "sum": valid and _best_among(self.sums, among) == gold,
            "bytes": valid and _best_among(self.by_bytes, among) == gold,
            "pmi": (valid and _best_among(self.by_gain, among) == gold) if pmi else None,
        }


def choice_result(
    doc: Mapping[str, Any],
    responses: Sequence[Any],
    condition: str,
    columns: tuple[str, str, str],
    extra: Mapping[str, Any] | None = None,
    near: int | None = None,
) -> dict[str, Any]:
    """Score the options of an item.

    Args:
        doc: A row of the task.
        responses: (log-probability, is greedy) of each option after the prompt, then, if asked for, of each alone.
        condition: Name of the condition.
        columns: The row's columns with the options' texts, the gold's index and the options' sources.
        extra: Further fields of the record.
        near: If given, the first so many options are the near ones, among which `right` is judged; `right_far` is
            judged among the gold and all others.

    Returns:
        The harness's numbers and the record; of an invalid item the record alone.
    """
    texts, key, sources = columns
    choices: list[str] = list(doc[texts])
    gold, everything = int(doc[key]), range(len(choices))
    among = everything if near is None else range(near)
    scores = _Scores(choices, responses)
    record = common(doc, condition, all_fit(responses), not scores.finite)
    valid: bool = record["valid"]
    right = scores.right(gold, among, valid)
    record |= {
        "choices": choices,
        "gold": gold,
        "sources": list(doc[sources]),
        "logprobs": [finite(score) for score in scores.sums],
        "logprobs_unconditional": [finite(score) for score in scores.apart] if scores.has_apart else None,
        "right": right,
        "picked": _best_among(scores.by_chars, among) if valid else None,
        "first_token_rank": told(responses[gold], "first_token_rank"),
        "parting": _parting(responses, scores.by_chars, gold, among) if valid else None,
        "flags": {"non_finite": not scores.finite},
    }
    if near is not None:
        record["right_far"] = scores.right(gold, [gold, *everything[near:]], valid)
    record |= extra or {}
    if not valid:
        return {"illusion": record}
    return {"acc": float(bool(right["sum"])), "acc_norm": float(bool(right["chars"])), "illusion": record}


_NEAR = ("choices_near", "gold_near", "sources_near")
_FAR = ("choices_far", "gold_far", "sources_far")
_BOTH = ("choices_both", "gold_both", "sources_both")


def _with_gain(result: dict[str, Any]) -> dict[str, Any]:
    """Add the gain over each option alone, for which only the tasks of a pair's own halves ask."""
    record = result.pop("illusion")
    if record["valid"] and record["right"]["pmi"] is not None:
        result["acc_mutual_info"] = float(record["right"]["pmi"])
    return {**result, "illusion": record}


def process_near(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score the four near options.

    Args:
        doc: A row of the task.
        responses: (log-probability, is greedy) of each option after the prompt, then, if the harness asked for them, of
            each option alone.

    Returns:
        `acc` (sum of log-probabilities), `acc_norm` (per character: R), `acc_mutual_info` where known, and the record
        `illusion`; of an invalid item the record alone.
    """
    return _with_gain(choice_result(doc, responses, "mc", _NEAR))


def process_far(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score the four far options; see `process_near`."""
    return _with_gain(choice_result(doc, responses, "mc_far", _FAR))


def process_letters(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score the letters of the near options; the record's `options` are the texts behind them."""
    columns = ("letters", "gold_letter", "sources_near")
    return choice_result(doc, responses, doc["condition"], columns, {"options": list(doc["choices_near"])})


def process_graded(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score the gold beside one option from each distance; `distances` says how far each option comes from."""
    columns = ("choices_graded", "gold_graded", "sources_graded")
    return choice_result(doc, responses, doc["condition"], columns, {"distances": list(doc["distances_graded"])})


def process_closed_mc(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score the four near options without the passage."""
    return choice_result(doc, responses, doc["condition"], _NEAR)


def process_choices_only(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score four near and three far options without passage or question, near and far judged apart."""
    return choice_result(doc, responses, doc["condition"], _BOTH, near=len(doc["choices_near"]))


def process_question_only(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score four near and three far options without the passage, near and far judged apart."""
    return process_choices_only(doc, responses)


def process_revise_mc(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score the near options after the model was shown its earlier answer."""
    return choice_result(doc, responses, doc["condition"], _NEAR, {"earlier": doc["earlier"]})
