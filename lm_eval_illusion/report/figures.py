"""One model's figures on one set of items: the definitions of the report, as arithmetic over columns."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lm_eval_illusion.report.classes import QUADRANTS, quadrant
from lm_eval_illusion.report.close_calls import parting_figures, tied_answers
from lm_eval_illusion.report.columns import Distance, Floats, Side
from lm_eval_illusion.report.halves import MATCHERS, NORMALISERS
from lm_eval_illusion.report.measures import DistanceFigures, Estimate, Failures, ModelFigures
from lm_eval_illusion.report.stats import Clusters, Interval, mean_interval

__all__ = ["corrected", "difference", "estimate", "model_figures", "quadrants_of", "share"]


def estimate(interval: Interval) -> Estimate:
    """An interval as the report holds it: NaN becomes None."""
    return Estimate(
        value=_none(interval.value),
        low=_none(interval.low),
        high=_none(interval.high),
        items=interval.items,
        clusters=interval.clusters,
    )


def share(values: Floats, clusters: Clusters) -> Estimate:
    """Mean of zeros and ones."""
    return estimate(mean_interval(values, clusters, scale="share", bounds=(0.0, 1.0)))


def difference(values: Floats, clusters: Clusters, bounds: tuple[float, float] = (-1.0, 1.0)) -> Estimate:
    """Mean of values on both sides of zero."""
    return estimate(mean_interval(values, clusters, scale="difference", bounds=bounds))


def corrected(values: Floats, chance: Floats) -> Floats:
    """(x - 1/k)/(1 - 1/k), item by item."""
    return (values - chance) / (1 - chance)


def quadrants_of(recognised: Floats, answered: Floats) -> list[str]:
    """The quadrant of each item."""
    return [quadrant(bool(r), bool(g)) for r, g in zip(recognised, answered, strict=True)]


def model_figures(side: Side, clusters: Clusters) -> ModelFigures:
    """Everything the report says about one model on these items."""
    answered = side.answered
    near, far = side.recognised("near"), side.recognised("far")
    return ModelFigures(
        near=_distance(side, "near", clusters),
        far=_distance(side, "far", clusters),
        generation=None if answered is None else share(answered, clusters),
        exact=_mean(side.generated["exact"]) if side.generated else None,
        f1=_mean(side.f1),
        char_f1=_mean(side.char_f1),
        far_less_near=None if near is None or far is None else difference(far - near, clusters),
        failures=_failures(side, clusters),
        tied=tied_answers(side),
    )


def _distance(side: Side, distance: Distance, clusters: Clusters) -> DistanceFigures | None:
    recognised, chance, answered = side.recognised(distance), side.chance[distance], side.answered
    if recognised is None or chance is None:
        return None
    accuracy = share(recognised, clusters)
    guess = float(chance.mean())
    figures = DistanceFigures(
        chance=guess,
        accuracy=accuracy,
        ties=side.ties[distance],
        interpretable=accuracy.low is not None and accuracy.low > guess,
        gap=None,
        corrected_gap=None,
        counts=None,
        quadrants=None,
        recognised_failures=None,
        recognised_failures_corrected=None,
        sensitivity=None,
        parting=None,
    )
    if answered is None:
        return figures
    names = quadrants_of(recognised, answered)
    failed: NDArray[np.bool_] = answered == 0
    rest = clusters.subset(failed)
    floor = -float(np.max(chance / (1 - chance)))
    return figures.model_copy(
        update={
            "gap": difference(recognised - answered, clusters),
            "corrected_gap": difference(corrected(recognised, chance) - answered, clusters, (floor - 1, 1.0)),
            "counts": {q: names.count(q) for q in QUADRANTS},
            "quadrants": {
                q: share(np.array([name == q for name in names], dtype=np.float64), clusters) for q in QUADRANTS
            },
            "recognised_failures": share(recognised[failed], rest),
            "recognised_failures_corrected": difference(corrected(recognised, chance)[failed], rest, (floor, 1.0)),
            "sensitivity": _sensitivity(side, distance),
            "parting": parting_figures(side, distance, names),
        }
    )


def _sensitivity(side: Side, distance: Distance) -> dict[str, dict[str, float | None]]:
    right, generated = side.right[distance] or {}, side.generated or {}
    return {n: {m: _mean(right[n] - generated[m]) for m in MATCHERS} for n in NORMALISERS}


def _failures(side: Side, clusters: Clusters) -> Failures | None:
    if side.flags is None:
        return None
    known = {name: values for name, values in side.flags.items() if not np.isnan(values).any()}
    return Failures.model_validate(
        {name: _mean(values) for name, values in side.flags.items()}
        | {"intervals": {name: share(values, clusters) for name, values in known.items()}}
    )


def _mean(values: Floats | None) -> float | None:
    """Mean, or None where nothing is there or any value is unknown."""
    return None if values is None or not values.size else _none(float(values.mean()))


def _none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
