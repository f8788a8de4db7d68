"""How far the distribution over an item's options moved, which accuracy does not show (Dutta et al. 2024)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.halves import NORMALISERS, ChoiceHalf
from lm_eval_illusion.report.probe_measures import OptionShift

__all__ = ["divergence", "option_shifts"]


def divergence(before: Sequence[float], after: Sequence[float]) -> float:
    """KL(before || after) in nats, both being softmaxes of log-probabilities of the same options.

    Args:
        before: (k,) finite log-probabilities.
        after: (k,) the same of the other model.
    """
    one, two = _log_softmax(before), _log_softmax(after)
    return max(0.0, math.fsum(math.exp(p) * (p - q) for p, q in zip(one, two, strict=True)))


def option_shifts(dense: Asked, pruned: Asked) -> list[OptionShift]:
    """KL and flips of the picked option beside the change of accuracy, for near and for far options.

    Items whose scores are not all finite, in either model, are left out.
    """
    shifts = []
    for distance, condition in (("near", "mc"), ("far", "mc_far")):
        before, after = dense.having(condition, ChoiceHalf), pruned.having(condition, ChoiceHalf)
        both = {i: (_finite(before[i]), _finite(after[i])) for i in before.keys() & after.keys()}
        moved = {i: divergence(one, two) for i, (one, two) in both.items() if one and two and len(one) == len(two)}
        if not moved:
            continue
        rights = [(bool(before[i].right[NORMALISERS[0]]), bool(after[i].right[NORMALISERS[0]])) for i in moved]
        flipped = sum(before[i].picked != after[i].picked for i in moved)
        lost, won = rights.count((True, False)), rights.count((False, True))
        shifts.append(
            OptionShift(
                distance=distance,
                items=len(moved),
                kl=dense.mean(moved, (0.0, math.inf)),
                flips=flipped / len(moved),
                flipped=flipped,
                lost=lost,
                won=won,
                accuracy_change=(won - lost) / len(moved),
            )
        )
    return shifts


def _finite(half: ChoiceHalf) -> list[float] | None:
    scores = [score for score in half.logprobs if score is not None and math.isfinite(score)]
    return scores if len(scores) == len(half.choices) else None


def _log_softmax(scores: Sequence[float]) -> list[float]:
    top = max(scores)
    total = top + math.log(math.fsum(math.exp(score - top) for score in scores))
    return [score - total for score in scores]
