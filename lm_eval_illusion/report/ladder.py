"""From the open answer over shown candidates to likelihoods: how right answers grow as the question gets easier."""

from __future__ import annotations

from collections.abc import Mapping

from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.halves import MATCHERS, NORMALISERS, ChoiceHalf, GenerationHalf
from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.probe_measures import GradedPoint, LadderStep

__all__ = ["DISTANCES", "RUNGS", "further_accuracies", "graded_points", "ladder"]

RUNGS = ("gen", "shown_nogold", "shown", "mc_letters", "mc", "mc_far")
"""From the hardest question to the easiest."""
_DISPLAYS = ("shown", "shown_nogold", "mc_letters")
FURTHER = ("mc_letters", "closed_mc", "closed_gen", "choices_only", "question_only")
DISTANCES = ("paragraph", "article", "language", "random")
"""How far the one wrong option of a graded item comes from, the nearest first."""


def ladder(asked: Asked) -> list[LadderStep]:
    """Every rung over the same items: those that have all rungs which their languages were asked.

    Empty where no candidates were displayed.
    """
    table = {name: _right(asked, name) for name in RUNGS}
    shown = set().union(*(table[name] for name in _DISPLAYS))
    places = {asked.places[i] for i in shown}
    rungs = [name for name in RUNGS if places and places <= {asked.places[i] for i in table[name]}]
    items = set.intersection(*(set(table[name]) for name in rungs)) if rungs else set()
    return [LadderStep(name=name, share=asked.share({i: table[name][i] for i in items})) for name in rungs if items]


def further_accuracies(asked: Asked) -> tuple[dict[str, Estimate], dict[str, float]]:
    """Shares of right answers under every other condition, and a guesser's share where options are offered.

    The conditions with seven options are counted twice: over the gold and the near ones, and (`_far`) the far ones.
    """
    shares: dict[str, Estimate] = {}
    chances: dict[str, float] = {}
    for name in FURTHER:
        right = _right(asked, name)
        if not right:
            continue
        shares[name] = asked.share(right)
        chosen = {i: half for i, half in asked.having(name, ChoiceHalf).items() if i in right}
        if not chosen:
            continue
        far = {i: float(bool(half.right_far.get(NORMALISERS[0]))) for i, half in chosen.items() if half.right_far}
        options = [(len(half.choices) + 1) / 2 if half.right_far else len(half.choices) for half in chosen.values()]
        chances[name] = sum(1 / count for count in options) / len(options)
        if far:
            shares[f"{name}_far"] = asked.share(far)
            chances[f"{name}_far"] = chances[name]
    return shares, chances


def graded_points(asked: Asked) -> list[GradedPoint]:
    """For each distance, how often the gold is likelier per character than the one option from there."""
    halves = asked.having("mc_graded", ChoiceHalf)
    points = []
    for distance in DISTANCES:
        preferred = {i: _preferred(half, distance) for i, half in halves.items()}
        known = {i: float(value) for i, value in preferred.items() if value is not None}
        if known:
            points.append(GradedPoint(distance=distance, items=len(known), preferred=asked.share(known)))
    return points


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


def _right(asked: Asked, name: str) -> Mapping[int, float]:
    chosen = asked.having(name, ChoiceHalf)
    if chosen:
        return {i: float(bool(half.right[NORMALISERS[0]])) for i, half in chosen.items()}
    return {i: float(bool(half.right[MATCHERS[0]])) for i, half in asked.having(name, GenerationHalf).items()}
