"""What the numbers allow one to conclude, in words, and what they do not."""

from __future__ import annotations

from lm_eval_illusion.report.columns import Distance
from lm_eval_illusion.report.measures import DistanceContrast
from lm_eval_illusion.report.numbers import decimals, interval, probability
from lm_eval_illusion.report.schema import Row, Settings

__all__ = ["LIMITS", "PROBED_LIMITS", "headline"]

LIMITS = (
    "Not shown by these numbers: whether a lost answer is erased or only demoted, and anything about other questions, "
    "prompts, matchers or calibration texts."
)
PROBED_LIMITS = (
    "Not shown by these numbers: that an answer which no probe brought back is erased, and anything about other "
    "questions, prompts, matchers, probes or calibration texts."
)


def headline(row: Row, dense: str, pruned: str, settings: Settings) -> list[str]:
    """Sentences about one comparison, from its overall row.

    Args:
        row: The overall row.
        dense: Label of the first run.
        pruned: Label of the other run.
        settings: Least sizes, for the words.
    """
    limits = PROBED_LIMITS if row.pruned_probes and row.pruned_probes.recovery else LIMITS
    if row.dense is None or row.pruned is None or row.contrast is None:
        return [f"{pruned} against {dense}: no items to compare."]
    said = [_numbers(row, dense, pruned)]
    if not row.decided:
        said.append(
            f"Undecided: {row.joined} items in {row.clusters} passages; a verdict takes {settings.min_items} items in "
            f"{settings.min_clusters} passages."
        )
        return [*said, limits]
    distances: tuple[Distance, ...] = ("near", "far")
    for distance in distances:
        contrast = row.contrast.near if distance == "near" else row.contrast.far
        if contrast is not None and contrast.excess_gap is not None:
            said.append(_excess(row, distance, contrast, dense, pruned))
    if row.contrast.generation is not None:
        flips = row.contrast.generation
        p = flips.p if flips.p_cluster is None else flips.p_cluster
        said.append(
            f"Generation changed by {interval(flips.delta, sign=True)} (p {probability(p)}, {flips.lost} lost, "
            f"{flips.won} won)."
        )
    return [*said, limits]


def _numbers(row: Row, dense: str, pruned: str) -> str:
    assert row.dense is not None
    assert row.pruned is not None
    parts = []
    for name, before, after in (
        (
            "multiple choice near",
            row.dense.near and row.dense.near.accuracy,
            row.pruned.near and row.pruned.near.accuracy,
        ),
        ("multiple choice far", row.dense.far and row.dense.far.accuracy, row.pruned.far and row.pruned.far.accuracy),
        ("generation", row.dense.generation, row.pruned.generation),
        ("gap near", row.dense.near and row.dense.near.gap, row.pruned.near and row.pruned.near.gap),
        ("gap far", row.dense.far and row.dense.far.gap, row.pruned.far and row.pruned.far.gap),
    ):
        parts.append(
            f"{name} {decimals(before.value)} → {decimals(after.value)}" if before and after else f"{name} not measured"
        )
    return f"{dense} → {pruned} on {row.joined} items: {', '.join(parts)}."


def _excess(row: Row, distance: Distance, contrast: DistanceContrast, dense: str, pruned: str) -> str:
    assert contrast.excess_gap is not None
    for label, model in ((dense, row.dense), (pruned, row.pruned)):
        figures = model and (model.near if distance == "near" else model.far)
        if figures and not figures.interpretable:
            return (
                f"Against {distance} options {label} cannot be told from guessing "
                f"({decimals(figures.accuracy.value)}, chance "
                f"{figures.chance:.2f}), so the {distance} gap is not interpretable."
            )
    excess = contrast.excess_gap
    size = f"{interval(excess, sign=True)}, sign-flip p {probability(contrast.excess_p)}"
    if excess.low is not None and excess.low > 0:
        return f"Against {distance} options the gap widened by {size}: pruning cost more answers than recognitions."
    if excess.high is not None and excess.high < 0:
        return f"Against {distance} options the gap narrowed by {size}: pruning cost more recognitions than answers."
    same = contrast.excess_equivalence
    if same is not None and same.verdict == "equivalent":
        return f"Against {distance} options the gap stayed within {same.margin:.2f} ({size})."
    return f"Against {distance} options no change of the gap is shown ({size}); what the interval holds stays possible."
