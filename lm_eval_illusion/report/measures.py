"""What is measured of one model, and of one against another: the leaves of the report's structure."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

__all__ = [
    "Contrast",
    "DistanceContrast",
    "DistanceFigures",
    "EquivalenceFigures",
    "Estimate",
    "Failures",
    "Flips",
    "ModelFigures",
    "PartingFigures",
    "Plain",
    "RankShift",
    "TiedAnswers",
    "TiedOf",
]


class Plain(BaseModel):
    """Immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(Plain):
    """A mean with its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None
    items: int
    """Items the mean is over."""
    clusters: int


class PartingFigures(Plain):
    """Where the gold parts from its strongest rival, over the items of one quadrant."""

    items: int
    """Items whose rank and margin are known."""
    median_rank: float | None
    """1: at that token the model would write the gold."""
    median_margin: float | None
    """The gold's log-probability less the rival's, nats; below 0 the rival is preferred there."""


class TiedOf(Plain):
    """Items with a tied greedy step among those whose backend tells."""

    tied: int
    of: int


class TiedAnswers(Plain):
    """Answers with a greedy step at which two tokens shared the highest logit: there rounding chose."""

    answers: TiedOf
    recognition_only: dict[str, TiedOf]
    """distance -> of the recognition-only items."""


class DistanceFigures(Plain):
    """One model under one distance of the wrong options (near or far)."""

    chance: float
    """1/k, a guesser's share."""
    accuracy: Estimate
    """R: share of items whose gold has the highest log-probability per character; ties are not right."""
    ties: int
    gap: Estimate | None
    """R - G; None without generation."""
    corrected_gap: Estimate | None
    """(R - 1/k)/(1 - 1/k) - G."""
    interpretable: bool
    """False where R's interval reaches down to 1/k, lies below it, or is not there: the gap says nothing."""
    counts: dict[str, int] | None
    """Items in each quadrant."""
    quadrants: dict[str, Estimate] | None
    recognised_failures: Estimate | None
    """r = P(R | not G)."""
    recognised_failures_corrected: Estimate | None
    """(r - 1/k)/(1 - 1/k)."""
    sensitivity: dict[str, dict[str, float | None]] | None
    """Gap under every normaliser and matcher."""
    parting: dict[str, PartingFigures] | None
    """quadrant -> rank and margin at the parting token; None where no item tells."""


class Failures(Plain):
    """Shares of all answers; None where the backend does not tell."""

    empty: float | None
    repeated: float | None
    cut: float | None
    unclosed_thought: float | None
    gold_inside: float | None
    """Wrong under G, yet a gold stands somewhere in the answer."""
    intervals: dict[str, Estimate]
    """The same shares with their intervals, by name, where they are known."""


class ModelFigures(Plain):
    """One model on one row."""

    near: DistanceFigures | None
    far: DistanceFigures | None
    generation: Estimate | None
    """G: exact, contained or F1 as fixed in advance."""
    exact: float | None
    f1: float | None
    char_f1: float | None
    far_less_near: Estimate | None
    """Far gap less near gap: what the distance of the options alone makes."""
    failures: Failures | None
    tied: TiedAnswers | None
    """None where no answer tells."""


class EquivalenceFigures(Plain):
    """Two one-sided tests at 5 %."""

    verdict: Literal["equivalent", "different", "not shown", "undecided"]
    margin: float
    low: float | None
    high: float | None


class Flips(Plain):
    """Dense against pruned, item by item, for one kind of answer."""

    lost: int
    """b: right to wrong."""
    won: int
    """c: wrong to right."""
    delta: Estimate
    """(c - b)/n."""
    flips: float | None
    """(b + c)/n."""
    changed: Estimate
    """The same share with its interval."""
    p: float
    """Exact McNemar."""
    p_cluster: float | None
    """Exact sign-flip over clusters; None where every cluster has one item."""
    p_holm: float | None
    """The clustered p where there is one, else McNemar's, after Holm; None outside the family."""
    detectable: float
    """Difference found with 80 % power at this n and discordance."""
    equivalence: EquivalenceFigures


class RankShift(Plain):
    """First-token rank of the gold in items that the pruned model only recognises."""

    items: int
    dense_median: float | None
    pruned_median: float | None


class DistanceContrast(Plain):
    """Pruned against dense under one distance."""

    accuracy: Flips
    excess_gap: Estimate | None
    """gap(pruned) - gap(dense)."""
    excess_p: float | None
    """Exact sign-flip test over clusters."""
    excess_equivalence: EquivalenceFigures | None
    induced: Estimate | None
    """Share of dense "both" items that became recognition-only, less 1/k; None where dense has no such item."""
    induced_count: int | None
    transitions: dict[str, dict[str, int]] | None
    """Dense quadrant -> pruned quadrant -> items."""
    rank: RankShift | None


class Contrast(Plain):
    """Pruned against dense."""

    near: DistanceContrast | None
    far: DistanceContrast | None
    generation: Flips | None
    tied_flips: TiedOf | None
    """Of the flips of G, those with a tied greedy step in either answer; None where no pair of answers tells."""
