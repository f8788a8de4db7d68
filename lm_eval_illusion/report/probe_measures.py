"""What the recovery probes showed of one model, and of one against another: leaves of the report's structure."""

from __future__ import annotations

from lm_eval_illusion.report.measures import Estimate, Plain

__all__ = [
    "VERDICTS",
    "Discordance",
    "ForcedFigures",
    "GradedPoint",
    "LadderStep",
    "OptionShift",
    "ProbeContrast",
    "ProbeFigures",
    "RankFigures",
    "RecoveryFigures",
    "RevisionFigures",
    "SpanFigures",
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
    """Demoted items that nothing but the display of the candidates, the gold among them, recovered."""
    failures: dict[str, dict[str, int]]
    """verdict -> empty, repeated, cut, unclosed_thought, gold_inside -> items."""


class RecoveryFigures(Plain):
    """One probe over the items whose open answer was wrong."""

    probe: str
    """Condition, or `sample pass@k`."""
    items: int
    """Failures on which the probe was run and valid."""
    decided: bool
    """Whether these reach the least size (items and passages); below it nothing is claimed."""
    hits: float
    """Failures turned right; a whole number but for pass@k of fewer samples than were drawn (then the expected one)."""
    control: float | None
    """Mean share of the item's own distractors in the prompt that the same outputs hit, over items that have any."""
    recovered: Estimate
    """Share of failures recovered."""
    corrected: Estimate | None
    """(recovered - control)/(1 - control), over the failures with a wrong option in the prompt: `items` of it."""
    corrected_hits: float | None
    """Hits among those; None without any."""
    first: Estimate | None
    """Share recovered by the first output alone (beam; sample at its largest k)."""
    gained: int | None
    """Failures that the probe turned right: equals hits; None where hits is an expectation."""
    lost: int | None
    """Items whose open answer was right and whose probe answer was wrong; None where not all items were probed."""
    p: float | None
    """Exact McNemar on gained and lost; None where either is."""


class LadderStep(Plain):
    """One rung: open, shown, likelihood."""

    name: str
    """gen, shown, shown_nogold, mc, mc_far, mc_letters."""
    share: Estimate
    """Over the items that have every rung of the ladder."""


class RankFigures(Plain):
    """Rank of the gold's first token, and of the token where it parts from the greedy answer."""

    group: str
    """all, turned_near (both before, recognition-only after), turned_far, failures (of the pruned model)."""
    items: int
    """Items with the probe in every run that has it at all."""
    dense_first: list[float] | None
    """Quantiles 0.1, 0.25, 0.5, 0.75, 0.9 of the first token's rank; None where the dense run has no rank probe."""
    pruned_first: list[float] | None
    dense_parting: list[float] | None
    """The same quantiles of the rank at the parting token; None where no gold parts from the greedy answer."""
    pruned_parting: list[float] | None
    dense_parted: int | None
    """Items whose gold parts from the greedy answer, which `dense_parting` is over."""
    pruned_parted: int | None
    dense_within: dict[str, float] | None
    """Share of items whose first token has rank at most 1, 4, 10, 100."""
    pruned_within: dict[str, float] | None
    slid: int | None
    """Items whose first-token rank rose."""
    rose: int | None
    """Items whose first-token rank fell (became better)."""
    clusters: int
    """Passages that the items stand in."""
    dense_first_logprob: float | None
    """Median log-probability of the gold's first token, nats."""
    pruned_first_logprob: float | None
    dense_parting_logprob: float | None
    """The same of the token at which the gold parts from the greedy answer, over the items where it does."""
    pruned_parting_logprob: float | None


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
    """Median of log p(gold) - log p(greedy) at the token where they part, nats."""
    answer_margin_median: float | None
    """Median of log p(gold) - log p(greedy answer), both whole, nats; over all items where both are finite."""


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
    right_before: int
    mended: int
    """Wrong before, right after."""
    spoilt: int
    """Right before, wrong after."""
    kept: int
    """Gave the same answer again."""
    p: float | None
    """Exact McNemar; None where not all items were asked (of chosen failures none can be spoilt)."""


class Discordance(Plain):
    """Which way the items went that both models have under one condition."""

    items: int
    lost: int
    """Right in the dense model, wrong in the pruned one."""
    won: int
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
    flipped: int
    lost: int
    """Right to wrong, highest log-probability per character."""
    won: int
    accuracy_change: float
    """(won - lost)/items."""


class SpanFigures(Plain):
    """The gold's likelihood rank among all spans of the passage with as many words."""

    items: int
    median_rank: float
    first: Estimate
    """Share of items whose gold has the highest log-probability of all spans."""
    median_above: float
    """Median share of the other spans that are likelier than the gold."""


class ProbeFigures(Plain):
    """All probes of one model on one row."""

    failures: int | None
    """Joined items whose open answer was wrong, probed or not; None without generation."""
    probed: int
    """Of these, those on which at least one recovering probe was run."""
    partly: list[str]
    """Probes that were run on part of the items only: their shares are of chosen items."""
    sampling: str | None
    """How samples were drawn, in words; None without them, or where an older run does not say."""
    verdicts: VerdictCounts | None
    recovery: list[RecoveryFigures]
    ladder: list[LadderStep]
    forced: ForcedFigures | None
    span_rank: SpanFigures | None
    graded: list[GradedPoint]
    revisions: list[RevisionFigures]
    accuracies: dict[str, Estimate]
    """Every further condition: mc_letters, closed_mc, closed_gen, choices_only(_far), question_only(_far)."""
    chances: dict[str, float]
    """A guesser's share in those that offer options."""


class ProbeContrast(Plain):
    """Pruned against dense under the probes."""

    verdicts: dict[str, dict[str, int]] | None
    """Dense verdict -> pruned verdict -> items, as a full table; None without generation or probes in either run."""
    ranks: list[RankFigures]
    discordance: dict[str, dict[str, Discordance]]
    """`ladder`, `graded`, `accuracies` -> rung, distance, condition -> counts, where both models have it."""
    options: list[OptionShift]
    """KL and flips beside accuracy."""
