"""The `illusion` metric of one sample record, typed: one half (one condition) of an item as one model answered it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, TypeAdapter, model_validator

__all__ = [
    "CONDITIONS",
    "MATCHERS",
    "NORMALISERS",
    "RECORD_SCHEMA",
    "ChoiceHalf",
    "GenerationHalf",
    "Half",
    "Parting",
    "parse_half",
]

RECORD_SCHEMA = 1
"""Version of the sample record's `illusion` metric that this package reads."""

CONDITIONS: dict[str, str] = {
    "mc": "multiple choice, near options",
    "mc_far": "multiple choice, far options",
    "gen": "open generation",
}
"""Conditions the report knows, with their names in words."""

NORMALISERS = ("chars", "sum", "bytes", "pmi")
"""Ways to normalise a choice's log-probability; the first one defines R."""

MATCHERS = ("standard", "exact", "f1", "contained")
"""Ways to match an answer with the golds; the first one defines G."""


class _Common(BaseModel):
    """Fields of every half."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_: Annotated[Literal[1], Field(alias="schema")]
    item_id: Annotated[str, Field(min_length=1)]
    dataset: str
    language: str
    cluster: str
    passage_sha256: str | None = None
    valid: bool
    invalid_reason: str | None = None
    fits: bool | None = None


class Parting(BaseModel):
    """The token at which the gold parts from its strongest rival (the best other option per character)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    rival: Annotated[StrictInt, Field(ge=0)]
    """Index of the rival among the choices."""
    token: Annotated[StrictInt, Field(ge=0)]
    """0-based position of the first token that differs; those before are shared."""
    gold_rank: Annotated[StrictInt, Field(ge=1)] | None = None
    """1 + tokens of the vocabulary with a higher logit than the gold's token there."""
    margin: Annotated[StrictFloat | StrictInt, Field(allow_inf_nan=False)] | None = None
    """log p(gold's token) - log p(rival's token) there, nats."""


class ChoiceHalf(_Common):
    """Multiple choice: the model scored every option."""

    condition: Literal["mc", "mc_far"]
    choices: list[str] = []
    gold: int = 0
    sources: list[str] = []
    logprobs: list[float | None] = []
    logprobs_unconditional: list[float | None] | None = None
    right: dict[str, bool | None] = {}
    picked: int | None = None
    first_token_rank: int | None = None
    parting: Parting | None = None
    """None: an older run, another backend, a score that is not finite, or one option starts the other."""
    flags: dict[str, bool | None] = {}

    @model_validator(mode="after")
    def _complete(self) -> ChoiceHalf:
        if self.valid and self.right.get("chars") is None:
            raise ValueError("a valid multiple-choice record needs right.chars")
        if self.valid and (len(self.choices) < 2 or not 0 <= self.gold < len(self.choices)):
            raise ValueError(f"gold {self.gold} does not index {len(self.choices)} choices (at least 2 are needed)")
        if self.parting and (self.parting.rival == self.gold or self.parting.rival >= len(self.choices)):
            raise ValueError(
                f"parting.rival {self.parting.rival} must be another than the gold {self.gold} of {len(self.choices)} "
                "choices"
            )
        return self


class GenerationHalf(_Common):
    """Open generation: the model wrote an answer."""

    condition: Literal["gen"]
    answers: list[str] = []
    gold_text: str = ""
    answer: str = ""
    right: dict[str, bool | None] = {}
    f1: float | None = None
    char_f1: float | None = None
    tied_steps: Annotated[StrictInt, Field(ge=0)] | None = None
    """Greedy steps of this answer whose two highest logits were equal in the model's dtype. None: an older run,
    another backend, or not greedy."""
    flags: dict[str, bool | None] = {}

    @model_validator(mode="after")
    def _complete(self) -> GenerationHalf:
        if self.valid and self.right.get("standard") is None:
            raise ValueError("a valid generation record needs right.standard")
        return self


Half = ChoiceHalf | GenerationHalf
_ADAPTER: TypeAdapter[ChoiceHalf | GenerationHalf] = TypeAdapter(
    Annotated[ChoiceHalf | GenerationHalf, Field(discriminator="condition")]
)


def parse_half(metric: object) -> Half:
    """Check and type one `illusion` metric.

    Args:
        metric: What the sample file held under `illusion`.

    Raises:
        pydantic.ValidationError: Missing or mistyped fields; the caller names file and line.
    """
    return _ADAPTER.validate_python(metric)
