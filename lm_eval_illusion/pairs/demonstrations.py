"""Which questions demonstrate for an item, and how they look there: by ids and seeds alone.

Never chosen: a question about the item's own passage, one whose answer stands among the item's options (showing it
would favour that option), or a second one about the same passage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median_low
from typing import Any

from ..errors import IllusionError
from .display import DISPLAYS, PAIRED, text_of
from .draw import draw
from .normalise import normalise
from .options import Options
from .prompts import LETTERS, delimiter_of

Shot = Mapping[str, Any]
"""A question that may demonstrate: item_id, cluster, source_id, prompt, gold_text, and more where a probe needs it."""
Dress = Callable[[Shot], Shot | None]
"""Gives a demonstration the form of the item's condition; None where it cannot have it."""


def _halves(pool: Sequence[Shot]) -> tuple[list[Shot], list[Shot]]:
    limit = median_low([len(shot["prompt"]) for shot in pool])
    return [s for s in pool if len(s["prompt"]) <= limit], [s for s in pool if len(s["prompt"]) > limit]


def short_half(pool: Sequence[Shot]) -> list[Shot]:
    """Return the half of the pool with the shorter prompts, so that demonstrations leave room."""
    return _halves(pool)[0]


def _taboo(item: Mapping[str, Any]) -> set[str]:
    """Return what no demonstration may answer: the item's options and answers, normalised."""
    return {normalise(t, item["language"]) for key in ("choices_near", "choices_far", "answers") for t in item[key]}


def choose_shots(item: Mapping[str, Any], candidates: Sequence[Shot], n: int, seed: object, dress: Dress) -> list[Shot]:
    """Return up to n demonstrations for an item, nearest hash first.

    Args:
        item: The row that is asked.
        candidates: Questions of the same language in any order.
        n: How many.
        seed: The harness's few-shot seed.
        dress: The form they take; a candidate that cannot have it is passed over.
    """
    taboo, taken = _taboo(item), {item["cluster"]}
    chosen: list[Shot] = []
    key = ("demonstration", item["dataset"], item["source_id"], seed)
    for shot in sorted(candidates, key=lambda s: draw(*key, s["source_id"])):
        if shot["cluster"] in taken or normalise(shot["gold_text"], item["language"]) in taboo:
            continue
        worn = dress(shot)
        if worn is None:
            continue
        taken.add(shot["cluster"])
        chosen.append(worn)
        if len(chosen) == n:
            break
    return chosen


def one_more(item: Mapping[str, Any], pool: Sequence[Shot], seed: int) -> Shot:
    """Return one demonstration on top of however many the harness adds, and never one of those.

    They come from the half of the pool with the shorter prompts; this one comes from the other half, out of its shorter
    part where that has one that may be shown.

    Args:
        item: The row that is asked.
        pool: Every question of the language, sampled or not.
        seed: `illusion_seed`.

    Raises:
        IllusionError: no question may be shown.
    """
    longer = _halves(pool)[1]
    middle = median_low([len(shot["prompt"]) for shot in longer]) if longer else 0
    key = ("one more demonstration", item["dataset"], item["source_id"], seed)
    taboo = _taboo(item)
    for shot in sorted(longer, key=lambda s: (len(s["prompt"]) > middle, draw(*key, s["source_id"]))):
        if shot["cluster"] != item["cluster"] and normalise(shot["gold_text"], item["language"]) not in taboo:
            return shot
    raise IllusionError(
        f"{item['item_id']}: no question about another passage is left for one more demonstration (those with the "
        "shorter prompts are kept for --num_fewshot); ask a set with more passages"
    )


def before(shot: Shot, prompt: str, language: str) -> str:
    """Return a prompt with a demonstration and its answer in front, as the harness would put it there."""
    return f"{shot['prompt']}{delimiter_of(language)}{shot['gold_text']}\n\n{prompt}"


def earlier_of(options: Options, *key: object) -> str:
    """Return what a demonstration says that was answered before: by hash the gold or a distractor, half and half."""
    number = draw("earlier", *key)
    wrong = [text for place, text in enumerate(options.choices) if place != options.gold]
    return options.choices[options.gold] if number % 2 else wrong[number // 2 % len(wrong)]


def dressed(shot: Shot, item: Mapping[str, Any], near: Callable[[Shot], Options | None]) -> Shot | None:
    """Return a demonstration in the form of the item's condition; the answer of a lettered one is its letter.

    Args:
        shot: A question of the pool.
        item: The row that is asked.
        near: Finds the near options of a question; asked only where the form shows some.

    Returns:
        None where the form needs options and the question has none, or would show an answer of the item among them.
    """
    display = DISPLAYS.get(item.get("condition", ""), PAIRED)
    if display == PAIRED:
        return shot
    language = item["language"]
    if not display.needs_options:
        return {**shot, "prompt": text_of(display, language, shot["passage"], shot["question"])}
    options = near(shot)
    right = {normalise(answer, language) for answer in item["answers"]}
    if options is None or not right.isdisjoint(normalise(choice, language) for choice in options.choices):
        return None
    prompt = text_of(
        display,
        language,
        shot["passage"],
        shot["question"],
        options=options.choices,
        earlier=earlier_of(options, item["dataset"], item["source_id"], shot["source_id"]),
    )
    return {**shot, "prompt": prompt, "gold_text": LETTERS[options.gold] if display.lettered else shot["gold_text"]}
