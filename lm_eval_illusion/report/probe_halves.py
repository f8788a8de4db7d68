"""Several answers, ranks and spans: what the probes that look behind the greedy answer leave of an item."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

from lm_eval_illusion.report.pair_halves import Common, Fraction

__all__ = ["Output", "RankHalf", "SeveralHalf", "SpanHalf"]

Rank = Annotated[StrictInt, Field(ge=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Output(BaseModel):
    """One hypothesis or one sample."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    answer: str
    logprob: float | None = None
    """Sum over its tokens, nats."""
    right: dict[str, bool | None] = {}
    flags: dict[str, bool | None] = {}
    control_hits: list[bool] = []


class SeveralHalf(Common):
    """Beams (best first) or samples (in the order drawn)."""

    answers: list[str] = Field(default_factory=list)
    gold_text: str = ""
    outputs: list[Output] = Field(default_factory=list)
    right: dict[str, bool | None] = Field(default_factory=dict)
    """matcher -> any output is right."""
    right_first: dict[str, bool | None] = Field(default_factory=dict)
    control_targets: list[str] = Field(default_factory=list)
    control: Fraction | None = None
    """Mean over wrong targets of "any output hits it"."""
    control_in_prompt: bool = True
    """Whether the targets stand in the prompt; if not, nobody can copy them, and chance is understated."""
    control_first: Fraction | None = None
    item_control: Fraction | None = None
    """Mean of the same over all of the item's own wrong texts, in the prompt or not. None: an older run whose rows hold
    no options; then `control` stands in."""
    hits: Annotated[StrictInt, Field(ge=0)] | None = None
    """Right samples."""
    draws: Annotated[StrictInt, Field(ge=1)] | None = None
    pass_at: dict[str, Fraction] = Field(default_factory=dict)
    """k -> chance that k of the samples hold a right one, unbiased."""
    control_pass_at: dict[str, Fraction] = Field(default_factory=dict)
    temperature: Finite | None = None
    top_p: Fraction | None = None
    seed: StrictInt | None = None
    """How the samples were drawn."""

    @property
    def chance(self) -> float | None:
        """The item's own control, by which a verdict goes."""
        return self.control if self.item_control is None else self.item_control

    @model_validator(mode="after")
    def _complete(self) -> SeveralHalf:
        if not self.valid:
            return self
        if self.right.get("standard") is None or self.right_first.get("standard") is None:
            raise ValueError("a valid record of several answers needs right.standard and right_first.standard")
        if self.control is None or not self.outputs:
            raise ValueError("a valid record of several answers needs outputs and control")
        if self.pass_at.keys() != self.control_pass_at.keys():
            raise ValueError("pass_at and control_pass_at must be of the same numbers of samples")
        if self.pass_at and self.draws is None:
            raise ValueError("pass_at needs draws")
        return self


class RankHalf(Common):
    """The gold under teacher forcing, against the greedy answer."""

    answers: list[str] = Field(default_factory=list)
    gold_text: str = ""
    answer: str = ""
    """The greedy answer."""
    ranks: list[Rank | None] = Field(default_factory=list)
    """Rank of each gold token, from 1."""
    logprobs: list[float | None] = Field(default_factory=list)
    leave: Annotated[StrictInt, Field(ge=0)] | None = None
    """First gold token that is not the greedy one; None where all are."""
    margin: Finite | None = None
    """log p(gold token) - log p(greedy token) at `leave`, nats."""
    agreement: Fraction | None = None
    """Share of gold tokens that are the greedy ones."""
    gold_logprob: float | None = None
    greedy_logprob: float | None = None
    gold_tokens: int | None = None
    greedy_tokens: int | None = None

    @model_validator(mode="after")
    def _complete(self) -> RankHalf:
        if not self.valid:
            return self
        if not self.ranks or None in self.ranks or self.agreement is None:
            raise ValueError("a valid rank record needs the rank of every gold token, and agreement")
        if self.leave is not None and self.leave >= len(self.ranks):
            raise ValueError(f"leave {self.leave} does not index {len(self.ranks)} ranks")
        return self

    @property
    def first(self) -> int | None:
        """Rank of the gold's first token."""
        return self.ranks[0] if self.ranks else None

    @property
    def parting(self) -> int | None:
        """Rank of the gold's token where it parts from the greedy answer; None where it never does."""
        return None if self.leave is None else self.ranks[self.leave]

    @property
    def first_logprob(self) -> float | None:
        """Log-probability of the gold's first token, nats."""
        return self.logprobs[0] if self.logprobs else None

    @property
    def parting_logprob(self) -> float | None:
        """Log-probability of the gold's token where it parts from the greedy answer; None where it never does."""
        return None if self.leave is None or self.leave >= len(self.logprobs) else self.logprobs[self.leave]

    @property
    def answer_margin(self) -> float | None:
        """Log p(gold) - log p(greedy answer), both whole, nats."""
        known = self.gold_logprob is not None and self.greedy_logprob is not None
        return self.gold_logprob - self.greedy_logprob if known else None  # type: ignore[operator]


class SpanHalf(Common):
    """The gold among all spans of the passage with as many words."""

    spans: Annotated[StrictInt, Field(ge=1)] | None = None
    gold_rank: Rank | None = None
    """1 + spans with a higher summed log-probability."""
    gold_logprob: float | None = None
    best: str | None = None
    best_logprob: float | None = None

    @model_validator(mode="after")
    def _complete(self) -> SpanHalf:
        if self.valid and (self.spans is None or self.gold_rank is None or self.gold_rank > self.spans):
            raise ValueError(f"gold_rank {self.gold_rank} is no rank among {self.spans} spans")
        return self
