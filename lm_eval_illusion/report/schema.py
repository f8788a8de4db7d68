"""The report as one plain, versioned structure; `report.schema.json` beside this file is its JSON schema.

None means "not measured" or "undefined" (0/0), never zero.
"""

from __future__ import annotations

from typing import Literal

from lm_eval_illusion.report.conclusion_figures import Conclusions
from lm_eval_illusion.report.curve_figures import Curves
from lm_eval_illusion.report.measures import (
    Contrast,
    Estimate,
    ModelFigures,
    Plain,
)
from lm_eval_illusion.report.probe_measures import ProbeContrast, ProbeFigures

__all__ = [
    "Comparison",
    "Example",
    "LayerSparsity",
    "LeakFigures",
    "Note",
    "OfficialMean",
    "OfficialRow",
    "Overlap",
    "PruningSummary",
    "ReportFile",
    "Row",
    "RunSummary",
    "Settings",
    "TaskAsked",
]


class Note(Plain):
    """One sentence for the reader."""

    level: Literal["alarm", "warning", "info"]
    text: str


class Row(Plain):
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
    dense_probes: ProbeFigures | None
    """None where the run has no probes here."""
    pruned_probes: ProbeFigures | None
    probe_contrast: ProbeContrast | None


class OfficialRow(Plain):
    """Mean over non-English languages, each weighing the same, of one model."""

    near: Estimate | None
    far: Estimate | None
    generation: Estimate | None
    gap_near: Estimate | None
    gap_far: Estimate | None
    exact: float | None
    f1: float | None


class OfficialMean(Plain):
    """TyDi QA's own aggregate."""

    dataset: str
    languages: list[str]
    dense: OfficialRow
    pruned: OfficialRow


class LeakFigures(Plain):
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


class Overlap(Plain):
    """Do calibration texts and evaluated passages overlap?"""

    status: Literal["none", "overlap", "unchecked", "not pruned", "no calibration"]
    hashes: int
    """Calibration texts known by the hash of the whole."""
    stretches: int
    """Stretches of calibration text known by a sampled hash."""
    items: int
    """Evaluated items whose passage is a calibration text or shares running text with one."""
    why: str


class LayerSparsity(Plain):
    """What pruning reached in one kind of matrix of one block; experts of a block count together."""

    block: int | None
    """0-based; None for a matrix outside numbered blocks."""
    part: str
    """Name within the block, numbers of experts as `*`: self_attn.q_proj."""
    weights: int
    zeros: int
    """Exact zeros after pruning."""


class PruningSummary(Plain):
    """The receipt in brief."""

    method: str | None
    pattern: str | None
    allocation: str | None
    seed: int | None
    settings: dict[str, str]
    """What tells it from other runs of the method, usual settings left out."""
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
    layers: list[LayerSparsity] | None
    """None where the receipt lists no matrices, or whole structures were removed instead of weights."""

    @property
    def pruned(self) -> bool:
        """Whether anything was to be pruned: a dense model has a receipt too."""
        return self.method not in (None, "none")


class TaskAsked(Plain):
    """What must be the same for two runs of a task to be comparable."""

    version: str
    num_fewshot: int
    generation: str | None
    """The generation arguments in effect; None where it generates nothing."""


class RunSummary(Plain):
    """One run."""

    label: str
    path: str
    results_file: str
    model: str
    model_args: str
    harness_version: str | None
    transformers_version: str | None
    identity: dict[str, str | None]
    """What was loaded: see `runs.IDENTITY`."""
    tasks: list[str]
    asked: dict[str, TaskAsked]
    """task -> how it was asked: a report can be the baseline of a later gate."""
    num_fewshot: list[int]
    fewshot_as_multiturn: bool | None
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


class Example(Plain):
    """An item that turned from both to recognition-only, chosen by the hash of its id."""

    item_id: str
    language: str
    question: str
    gold: str
    dense_answer: str
    pruned_answer: str


class Comparison(Plain):
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
    turned_items: int
    """Items that went from both to recognition-only (near, else far), of which `examples` shows some."""


class Settings(Plain):
    """What was fixed before looking."""

    level: float
    margin: float
    min_items: int
    min_clusters: int
    normaliser: str
    matcher: str


class ReportFile(Plain):
    """Everything the pages show."""

    schema_name: Literal["lm-eval-illusion/report"]
    schema_version: Literal[6]
    tool_version: str
    items_sha256: str
    """Of items.jsonl, so that the two files of a stored report are known to belong together."""
    settings: Settings
    headline: list[str]
    notes: list[Note]
    runs: list[RunSummary]
    comparisons: list[Comparison]
    curves: Curves | None
    """None where no method was run at two sparsities."""
    conclusions: Conclusions | None
    """None where no pruned run has probes."""
