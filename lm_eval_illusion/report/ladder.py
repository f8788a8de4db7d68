"""From the open answer over shown candidates to likelihoods: how right answers grow as the question gets easier."""

from __future__ import annotations

from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.halves import MATCHERS, NORMALISERS, ChoiceHalf, GenerationHalf
from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.probe_measures import GradedPoint, LadderStep

__all__ = [
    "DISTANCES",
    "RUNGS",
    "further_accuracies",
    "further_rights",
    "graded_points",
    "graded_rights",
    "ladder",
    "ladder_rights",
]

RUNGS = ("gen", "shown_nogold", "shown", "mc_letters", "mc", "mc_far")
"""From the hardest question to the easiest."""
_DISPLAYS = ("shown", "shown_nogold", "mc_letters")
FURTHER = ("mc_letters", "closed_mc", "closed_gen", "choices_only", "question_only")
DISTANCES = ("paragraph", "article", "language", "random")
"""How far the one wrong option of a graded item comes from, the nearest first."""


def ladder(asked: Asked) -> list[LadderStep]:
    """Every rung over the same items; empty where no candidates were displayed."""
    return [LadderStep(name=name, share=asked.share(right)) for name, right in ladder_rights(asked).items()]


def ladder_rights(asked: Asked) -> dict[str, dict[int, float]]:
    """Rung -> item -> 1 where it is right, over the items that have all rungs which their languages were asked."""
    table = {name: _right(asked, name) for name in RUNGS}
    shown = set().union(*(table[name] for name in _DISPLAYS))
    places = {asked.places[i] for i in shown}
    rungs = [name for name in RUNGS if places and places <= {asked.places[i] for i in table[name]}]
    items = set.intersection(*(set(table[name]) for name in rungs)) if rungs else set()
    return {name: {i: table[name][i] for i in items} for name in rungs if items}


def further_accuracies(asked: Asked) -> tuple[dict[str, Estimate], dict[str, float]]:
    """Shares of right answers under every other condition, and a guesser's share where options are offered."""
    shares = {name: asked.share(right) for name, right in further_rights(asked).items()}
    chances: dict[str, float] = {}
    for name in FURTHER:
        chosen = asked.having(name, ChoiceHalf)
        options = [(len(half.choices) + 1) / 2 if half.right_far else len(half.choices) for half in chosen.values()]
        if options:
            chances[name] = sum(1 / count for count in options) / len(options)
        if f"{name}_far" in shares:
            chances[f"{name}_far"] = chances[name]
    return shares, chances


def further_rights(asked: Asked) -> dict[str, dict[int, float]]:
    """Every other condition -> item -> 1 where it is right.

    The conditions with seven options are counted twice: over the gold and the near ones, and (`_far`) the far ones.
    """
    found: dict[str, dict[int, float]] = {}
    for name in FURTHER:
        halves = asked.having(name, ChoiceHalf).items()
        far = {i: float(bool(half.right_far.get(NORMALISERS[0]))) for i, half in halves if half.right_far}
        found |= {name: _right(asked, name), f"{name}_far": far}
    return {name: right for name, right in found.items() if right}


def graded_points(asked: Asked) -> list[GradedPoint]:
    """For each distance, how often the gold is likelier per character than the one option from there."""
    return [
        GradedPoint(distance=distance, items=len(known), preferred=asked.share(known))
        for distance, known in graded_rights(asked).items()
    ]


def graded_rights(asked: Asked) -> dict[str, dict[int, float]]:
    """Distance -> item -> 1 where the gold is likelier per character than the option from there, if it has one."""
    halves = asked.having("mc_graded", ChoiceHalf)
    found = {}
    for distance in DISTANCES:
        preferred = {i: _preferred(half, distance) for i, half in halves.items()}
        found[distance] = {i: float(value) for i, value in preferred.items() if value is not None}
    return {distance: known for distance, known in found.items() if known}


def _preferred(half: ChoiceHalf, distance: str) -> bool | None:
    """Whether the gold beats the option at a distance; None where there is none. A tie is no preference."""
    if distance not in (half.distances or []):
        return None
    scores = [
        None if logprob is None else logprob / max(len(choice), 1)
        for logprob, choice in zip(half.logprobs, half.choices, strict=True)
    ]
    gold, other = scores[half.gold], scores[(half.distances or []).index(distance)]
    return None if gold is None or other is None else gold > other


def _right(asked: Asked, name: str) -> dict[int, float]:
    chosen = asked.having(name, ChoiceHalf)
    if chosen:
        return {i: float(bool(half.right[NORMALISERS[0]])) for i, half in chosen.items()}
    return {i: float(bool(half.right[MATCHERS[0]])) for i, half in asked.having(name, GenerationHalf).items()}
