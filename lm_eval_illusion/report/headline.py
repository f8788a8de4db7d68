"""What the numbers allow one to conclude, in words, and what they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lm_eval_illusion.report.columns import Distance
from lm_eval_illusion.report.measures import DistanceContrast, DistanceFigures, Estimate
from lm_eval_illusion.report.numbers import decimals, interval, probability
from lm_eval_illusion.report.render.grid import DISTANCES, contrast_at, far_or_near
from lm_eval_illusion.report.schema import Row, Settings

__all__ = ["LIMITS", "PROBED_LIMITS", "headline", "in_short", "to_guessing", "translated"]

LIMITS = (
    "Not shown by these numbers: whether a lost answer is erased or only demoted, and anything about other questions, "
    "prompts, matchers or calibration texts."
)
PROBED_LIMITS = (
    "Not shown by these numbers: that an answer which no probe brought back is erased, and anything about other "
    "questions, prompts, matchers, probes or calibration texts."
)


_Change = Literal["guessing", "widened", "narrowed", "stayed", "open"]
_SHORT: dict[_Change, str] = {
    "guessing": "not interpretable",
    "widened": "widened",
    "narrowed": "narrowed",
    "stayed": "stayed within the margin",
    "open": "not shown to change",
}


def headline(row: Row, dense: str, pruned: str, settings: Settings, *, translated: bool = False) -> list[str]:
    """Sentences about one comparison, from its overall row.

    Args:
        row: The overall row.
        dense: Label of the first run.
        pruned: Label of the other run.
        settings: Least sizes, for the words.
        translated: Whether passages stand in several languages.
    """
    limits = PROBED_LIMITS if row.pruned_probes and row.pruned_probes.recovery else LIMITS
    if row.dense is None or row.pruned is None or row.contrast is None:
        return [f"{pruned} against {dense}: no items to compare."]
    said = [_numbers(row, dense, pruned)]
    if not row.decided:
        said.append(
            f"Undecided: {_size(row, translated)}; a verdict takes {settings.min_items} items in "
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


def in_short(row: Row, pruned: str, settings: Settings, *, translated: bool = False) -> str:
    """The strongest thing that the numbers allow about one of many runs, in one sentence.

    Args:
        row: The overall row.
        pruned: Label of the run.
        settings: Least sizes, for the words.
        translated: Whether passages stand in several languages.
    """
    if row.contrast is None:
        return f"{pruned}: no items to compare."
    if not row.decided:
        least = f"{settings.min_items} in {settings.min_clusters}"
        return f"{pruned}: undecided, {_size(row, translated)}; a verdict takes {least}."
    sides = {distance: contrast_at(row.contrast, distance) for distance in DISTANCES}
    changes = {d: _SHORT[_changed(row, d, side)] for d, side in sides.items() if side and side.excess_gap}
    told = [f"{distance} gap {words}" for distance, words in changes.items()]
    if len(told) > 1 and len(set(changes.values())) == 1:
        told = [f"near and far gap {changes['near']}"]
    if row.contrast.generation is not None:
        told.append(f"generation {_moved(row.contrast.generation.delta)}")
    return f"{pruned}: {'; '.join(told) or 'neither gap nor generation measured'}."


def _moved(change: Estimate) -> str:
    """How a share changed, as far as its interval shows."""
    if change.value is None or change.low is None or change.high is None or change.low <= 0 <= change.high:
        return "not shown to change"
    return f"{'rose' if change.value > 0 else 'fell'} by {decimals(abs(change.value))}"


def translated(rows: Sequence[Row]) -> bool:
    """Whether some passage stands in several languages, so that the languages' passages are more than the overall ones.

    Args:
        rows: All rows of a comparison.
    """
    return sum(row.clusters for row in rows if row.scope == "language") > rows[0].clusters


def _size(row: Row, translated: bool) -> str:
    counted = " (translations of one passage count as one)" if translated else ""
    return f"{row.joined} items in {row.clusters} passages{counted}"


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
    change = _changed(row, distance, contrast)
    if change == "guessing":
        index, figures = _guessing(row, distance)[0]
        return (
            f"Against {distance} options {(dense, pruned)[index]} {to_guessing(figures, 'guessing')} "
            f"({decimals(figures.accuracy.value)}, chance "
            f"{figures.chance:.2f}), so the {distance} gap is not interpretable."
        )
    size = f"{interval(contrast.excess_gap, sign=True)}, sign-flip p {probability(contrast.excess_p)}"
    if change == "widened":
        lost = f"Against {distance} options the gap widened by {size}: answers lost ground against recognition."
        return lost + _copied(row, distance)
    if change == "narrowed":
        return f"Against {distance} options the gap narrowed by {size}: recognition lost ground against answers."
    if change == "stayed":
        assert contrast.excess_equivalence is not None
        return f"Against {distance} options the gap stayed within {contrast.excess_equivalence.margin:.2f} ({size})."
    return f"Against {distance} options no change of the gap is shown ({size}); what the interval holds stays possible."


def _copied(row: Row, distance: Distance) -> str:
    """The caveat of a gap that widened against far options alone."""
    near = contrast_at(row.contrast, "near") if row.contrast else None
    if distance == "near" or near is None or near.excess_gap is None or _changed(row, "near", near) == "widened":
        return ""
    return (
        " By itself this may be copying: far options come from other passages, so that the gold alone stands in the "
        "passage shown; it is near options, from the same passage, that show whether the answer is still recognised."
    )


def _changed(row: Row, distance: Distance, contrast: DistanceContrast) -> _Change:
    """What the interval of the excess allows."""
    excess, same = contrast.excess_gap, contrast.excess_equivalence
    if _guessing(row, distance):
        return "guessing"
    if excess is not None and excess.low is not None and excess.low > 0:
        return "widened"
    if excess is not None and excess.high is not None and excess.high < 0:
        return "narrowed"
    return "stayed" if same is not None and same.verdict == "equivalent" else "open"


def to_guessing(figures: DistanceFigures, guess: str) -> str:
    """How multiple choice that is not interpretable stands to guessing, in words.

    Args:
        figures: Of the model.
        guess: What guessing is called.
    """
    high = figures.accuracy.high
    return f"{'lies below' if high is not None and high < figures.chance else 'cannot be told from'} {guess}"


def _guessing(row: Row, distance: Distance) -> list[tuple[int, DistanceFigures]]:
    """The models that do no better than guessing: 0 dense, 1 pruned."""
    found = []
    for index, model in enumerate((row.dense, row.pruned)):
        side = far_or_near(model, distance)
        if side is not None and not side.interpretable:
            found.append((index, side))
    return found
