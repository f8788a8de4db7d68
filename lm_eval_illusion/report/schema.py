"""The report as one plain, versioned structure; `report.schema.json` beside this file is its JSON schema.

None means "not measured" or "undefined" (0/0), never zero.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

__all__ = [
    "Comparison",
    "Contrast",
    "DistanceContrast",
    "DistanceFigures",
    "EquivalenceFigures",
    "Estimate",
    "Example",
    "Failures",
    "Flips",
    "LeakFigures",
    "ModelFigures",
    "Note",
    "OfficialMean",
    "OfficialRow",
    "Overlap",
    "PruningSummary",
    "RankShift",
    "ReportFile",
    "Row",
    "RunSummary",
    "Settings",
]


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(_Plain):
    """A mean with its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None
    items: int
    """Items the mean is over."""
    clusters: int


class Note(_Plain):
    """One sentence for the reader."""

    level: Literal["alarm", "warning", "info"]
    text: str


class DistanceFigures(_Plain):
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
    """False where R's interval covers 1/k (or there is no interval): the gap says nothing."""
    counts: dict[str, int] | None
    """Items in each quadrant."""
    quadrants: dict[str, Estimate] | None
    recognised_failures: Estimate | None
    """r = P(R | not G)."""
    recognised_failures_corrected: Estimate | None
    """(r - 1/k)/(1 - 1/k)."""
    sensitivity: dict[str, dict[str, float | None]] | None
    """Gap under every normaliser and matcher."""


class Failures(_Plain):
    """Shares of all answers; None where the backend does not tell."""

    empty: float | None
    repeated: float | None
    cut: float | None
    unclosed_thought: float | None


class ModelFigures(_Plain):
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


class EquivalenceFigures(_Plain):
    """Two one-sided tests at 5 %."""

    verdict: Literal["equivalent", "different", "not shown", "undecided"]
    margin: float
    low: float | None
    high: float | None


class Flips(_Plain):
    """Dense against pruned, item by item, for one kind of answer."""

    lost: int
    """b: right to wrong."""
    won: int
    """c: wrong to right."""
    delta: Estimate
    """(c - b)/n."""
    flips: float | None
    """(b + c)/n."""
    p: float
    """Exact McNemar."""
    p_cluster: float | None
    """Exact sign-flip over clusters; None where every cluster has one item."""
    p_holm: float | None
    """The clustered p where there is one, else McNemar's, after Holm; None outside the family."""
    detectable: float
    """Difference found with 80 % power at this n and discordance."""
    equivalence: EquivalenceFigures


class RankShift(_Plain):
    """First-token rank of the gold in items that the pruned model only recognises."""

    items: int
    dense_median: float | None
    pruned_median: float | None


class DistanceContrast(_Plain):
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


class Contrast(_Plain):
    """Pruned against dense."""

    near: DistanceContrast | None
    far: DistanceContrast | None
    generation: Flips | None


class Row(_Plain):
    """One scope of one comparison."""

    scope: Literal["overall", "dataset", "language"]
    dataset: str | None
    language: str | None
    joined: int
    excluded: int
    """Invalid in any half of either run."""
    excluded_reasons: dict[str, int]
    unmatched: int
    unmatched_reasons: dict[str, int]
    clusters: int
    decided: bool
    """Whether the sample reaches the least size; below it no verdict is given."""
    missing: list[str]
    """Conditions not measured in every language of this scope."""
    dense: ModelFigures | None
    pruned: ModelFigures | None
    contrast: Contrast | None


class OfficialRow(_Plain):
    """Mean over non-English languages, each weighing the same, of one model."""

    near: Estimate | None
    far: Estimate | None
    generation: Estimate | None
    gap_near: Estimate | None
    gap_far: Estimate | None
    exact: float | None
    f1: float | None


class OfficialMean(_Plain):
    """TyDi QA's own aggregate."""

    dataset: str
    languages: list[str]
    dense: OfficialRow
    pruned: OfficialRow


class LeakFigures(_Plain):
    """What an options-only reader could exploit; `chance` is what a clean set shows."""

    distance: Literal["near", "far"]
    items: int
    chance: float
    longest: float
    """Share of golds that are the longest option (ties shared)."""
    shortest: float
    first_in_passage: float | None
    """Share of golds that occur first among the options found in the passage (items where at least two occur)."""
    most_frequent: float | None
    positions: list[int]
    """Golds at each position."""


class Overlap(_Plain):
    """Do calibration texts and evaluated passages overlap?"""

    status: Literal["none", "overlap", "unchecked", "not pruned"]
    hashes: int
    """Calibration texts known by hash."""
    items: int
    """Evaluated items whose passage is a calibration text."""
    why: str


class PruningSummary(_Plain):
    """The receipt in brief."""

    method: str | None
    pattern: str | None
    allocation: str | None
    sparsity_asked: float | None
    sparsity_reached: float | None
    whole_model_sparsity: float | None
    coverage: float | None
    calibration_source: str | None
    calibration_rows: int | None
    calibration_length: int | None
    calibration_digest: str | None
    tokens_per_language: dict[str, int] | None
    spec_digest: str | None
    weights_sha256: str | None


class RunSummary(_Plain):
    """One run."""

    label: str
    path: str
    results_file: str
    model: str
    model_args: str
    harness_version: str | None
    transformers_version: str | None
    tasks: list[str]
    num_fewshot: list[int]
    chat_template: str | None
    system_instruction: str | None
    enable_thinking: bool | None
    gen_kwargs: str | None
    limit: float | None
    batch_size: str | None
    device: str | None
    truncation_checked: bool
    """False where some record does not say whether its prompt fitted."""
    pruning: PruningSummary | None
    overlap: Overlap


class Example(_Plain):
    """An item that turned from both to recognition-only, chosen by the hash of its id."""

    item_id: str
    language: str
    question: str
    gold: str
    dense_answer: str
    pruned_answer: str


class Comparison(_Plain):
    """The first run against one other."""

    dense: str
    pruned: str
    headline: list[str]
    notes: list[Note]
    rows: list[Row]
    """Overall, then datasets, then languages."""
    official: list[OfficialMean]
    leaks: list[LeakFigures]
    examples: list[Example]


class Settings(_Plain):
    """What was fixed before looking."""

    level: float
    margin: float
    min_items: int
    min_clusters: int
    normaliser: str
    matcher: str


class ReportFile(_Plain):
    """Everything the pages show."""

    schema_name: Literal["lm-eval-illusion/report"]
    schema_version: Literal[1]
    tool_version: str
    settings: Settings
    headline: list[str]
    notes: list[Note]
    runs: list[RunSummary]
    comparisons: list[Comparison]
