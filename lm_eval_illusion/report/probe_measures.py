"""What the recovery probes showed of one model, and of one against another: leaves of the report's structure."""

from __future__ import annotations

from lm_eval_illusion.report.measures import Estimate, Plain

__all__ = [
    "VERDICTS",
    "ForcedFigures",
    "GradedPoint",
    "LadderStep",
    "OptionShift",
    "ProbeContrast",
    "ProbeFigures",
    "RankFigures",
    "RecoveryFigures",
    "RevisionFigures",
    "VerdictCounts",
]

VERDICTS = ("produced", "demoted", "recognised_only", "lost", "unprobed")
"""What became of an item; `unprobed`: wrong, and no recovering probe was run on it."""


class VerdictCounts(Plain):
    """Items by verdict."""

    items: int
    counts: dict[str, int]
    """verdict -> items."""
    demoted_by: dict[str, int]
    """probe -> demoted items that it recovered (one item may count for several)."""
    demoted_by_shown_alone: int
    """Demoted items that nothing but the display of the candidates recovered."""
    failures: dict[str, dict[str, int]]
    """verdict -> empty, repeated, cut, unclosed_thought -> items."""


class RecoveryFigures(Plain):
    """One probe over the items whose open answer was wrong."""

    probe: str
    """Condition, or `sample pass@k`."""
    items: int
    """Failures on which the probe was run and valid."""
    hits: int
    control: float | None
    """Mean share of the item's own distractors that the same outputs hit."""
    recovered: Estimate
    """Share of failures recovered."""
    corrected: Estimate | None
    """(recovered - control)/(1 - control)."""
    first: Estimate | None
    """Share recovered by the first output alone (beam, sample)."""
    gained: int
    """Failures (over all probed items) that the probe turned right; equals hits."""
    lost: int | None
    """Items whose open answer was right and whose probe answer was wrong; None where only failures were probed."""
    p: float | None
    """Exact McNemar on gained and lost."""


class LadderStep(Plain):
    """One rung: open, shown, likelihood."""

    name: str
    """gen, shown, shown_nogold, mc, mc_far, mc_letters."""
    share: Estimate
    """Over the items that have every rung of the ladder."""


class RankFigures(Plain):
    """Rank of the gold's first token, and of the token where it parts from the greedy answer."""

    group: str
    """all, turned_near (both before, recognition-only after), turned_far, failures."""
    items: int
    dense_first: list[float] | None
    """Quantiles 0.1, 0.25, 0.5, 0.75, 0.9 of the first token's rank; None where the dense run has no rank probe."""
    pruned_first: list[float] | None
    dense_parting: list[float] | None
    pruned_parting: list[float] | None
    pruned_within: dict[str, float] | None
    """Share of items whose first token has rank at most 1, 4, 10, 100 in the pruned model."""
    slid: int | None
    """Items whose first-token rank rose."""
    rose: int | None
    """Items whose first-token rank fell (became better)."""


class ForcedFigures(Plain):
    """Under teacher forcing: where along the gold does the model leave it?"""

    items: int
    never: int
    """Items whose every gold token is the greedy one."""
    at_first: int
    later: int
    agreement: Estimate
    """Mean share of gold tokens that are the greedy ones."""
    margin_median: float | None
    """Median of log p(gold) - log p(greedy) where they part, nats."""


class GradedPoint(Plain):
    """Multiple choice against one option at one distance."""

    distance: str
    """paragraph, article, language, random."""
    items: int
    preferred: Estimate
    """Share of items whose gold has a higher log-probability per character than this option."""


class RevisionFigures(Plain):
    """Self-correction: what the model did when shown its own answer."""

    round: int
    format: str
    """gen or mc."""
    items: int
    mended: int
    """Wrong before, right after."""
    spoilt: int
    """Right before, wrong after."""
    kept: int
    """Gave the same answer again."""
    p: float
    """Exact McNemar."""


class OptionShift(Plain):
    """How far the distribution over an item's options moved from dense to pruned."""

    distance: str
    """near or far."""
    items: int
    kl: Estimate
    """Mean KL(dense || pruned) over softmax of the options' summed log-probabilities, nats."""
    flips: float
    """Share of items whose picked option changed."""
    accuracy_change: float


class ProbeFigures(Plain):
    """All probes of one model on one row."""

    verdicts: VerdictCounts | None
    recovery: list[RecoveryFigures]
    ladder: list[LadderStep]
    forced: ForcedFigures | None
    span_rank: dict[str, float] | None
    """items, median rank, share at rank 1, median share of spans above the gold."""
    graded: list[GradedPoint]
    revisions: list[RevisionFigures]
    accuracies: dict[str, Estimate]
    """Every further condition: mc_letters, closed_mc, closed_gen, choices_only(_far), question_only(_far)."""


class ProbeContrast(Plain):
    """Pruned against dense under the probes."""

    verdicts: dict[str, dict[str, int]] | None
    """Dense verdict -> pruned verdict -> items."""
    ranks: list[RankFigures]
    options: list[OptionShift]
    """KL and flips beside accuracy."""
