"""How close a call was: greedy steps decided by rounding, and rank and margin where gold and rival part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lm_eval_illusion.report.classes import QUADRANTS
from lm_eval_illusion.report.columns import Distance, Side
from lm_eval_illusion.report.measures import PartingFigures, TiedAnswers, TiedOf

__all__ = ["parting_figures", "tied_answers", "tied_flips"]


def parting_figures(side: Side, distance: Distance, names: list[str]) -> dict[str, PartingFigures] | None:
    """Median rank of the gold's token and median margin to the rival's, by quadrant.

    Args:
        side: One model's answers on n items.
        distance: Where the options come from.
        names: Quadrant of each item.

    Returns:
        A figure for each quadrant, or None where no item tells.
    """
    ranks, margins = side.parting_rank[distance], side.parting_margin[distance]
    if ranks is None or margins is None:
        return None
    known = ~np.isnan(ranks) & ~np.isnan(margins)
    if not known.any():
        return None
    figures = {}
    for quadrant in QUADRANTS:
        chosen = known & np.array([name == quadrant for name in names], dtype=np.bool_)
        some = bool(chosen.any())
        figures[quadrant] = PartingFigures(
            items=int(chosen.sum()),
            median_rank=float(np.median(ranks[chosen])) if some else None,
            median_margin=float(np.median(margins[chosen])) if some else None,
        )
    return figures


def tied_answers(side: Side) -> TiedAnswers | None:
    """Count answers with a tied greedy step, all and the recognition-only ones; None where no answer tells."""
    if side.tied is None or side.answered is None:
        return None
    known, tied = ~np.isnan(side.tied), side.tied > 0
    if not known.any():
        return None
    counts: dict[str, TiedOf] = {}
    distances: tuple[Distance, ...] = ("near", "far")
    for distance in distances:
        recognised = side.recognised(distance)
        if recognised is not None:
            counts[distance] = _among(tied, known & (recognised == 1) & (side.answered == 0))
    return TiedAnswers(answers=_among(tied, known), recognition_only=counts)


def tied_flips(dense: Side, pruned: Side) -> TiedOf | None:
    """Of the open answers that turned right or wrong: how many had a tied greedy step in either model."""
    if dense.tied is None or pruned.tied is None or dense.answered is None or pruned.answered is None:
        return None
    known = ~np.isnan(dense.tied) & ~np.isnan(pruned.tied)
    if not known.any():
        return None
    return _among((dense.tied > 0) | (pruned.tied > 0), known & (dense.answered != pruned.answered))


def _among(tied: NDArray[np.bool_], chosen: NDArray[np.bool_]) -> TiedOf:
    return TiedOf(tied=int((tied & chosen).sum()), of=int(chosen.sum()))
