"""Choices and open answers: one half (one condition) of an item as one model answered it."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, model_validator

from lm_eval_illusion.pairs.answers import match
from lm_eval_illusion.pairs.conditions import CONDITIONS

__all__ = ["ChoiceHalf", "Common", "Fraction", "GenerationHalf", "Parting"]

Fraction = Annotated[StrictFloat | StrictInt, Field(ge=0, le=1, allow_inf_nan=False)]
"""A share from 0 to 1."""


class Common(BaseModel):
    """Fields of every half."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_: Annotated[Literal[1], Field(alias="schema")]
    condition: str
    """A name in `CONDITIONS`, whose kind chose the class."""
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


class ChoiceHalf(Common):
    """Multiple choice: the model scored every option."""

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
    right_far: dict[str, bool | None] | None = None
    """Of seven options: right over the gold and the three far ones (`right`: the gold and the three near ones)."""
    distances: list[str] | None = None
    """mc_graded: how far each choice comes from."""
    options: list[str] | None = None
    """mc_letters: the text behind each letter."""
    earlier: str | None = None
    """revise: the earlier answer that the model was shown."""
    flags: dict[str, bool | None] = {}

    @model_validator(mode="after")
    def _complete(self) -> ChoiceHalf:
        if self.valid and self.right.get("chars") is None:
            raise ValueError("a valid multiple-choice record needs right.chars")
        least = 1 if self.condition == "mc_graded" else 2  # a distance without an option is left out
        if self.valid and (len(self.choices) < least or not 0 <= self.gold < len(self.choices)):
            raise ValueError(
                f"gold {self.gold} does not index {len(self.choices)} choices (at least {least} are needed)"
            )
        if self.parting and (self.parting.rival == self.gold or self.parting.rival >= len(self.choices)):
            raise ValueError(
                f"parting.rival {self.parting.rival} must be another than the gold {self.gold} of {len(self.choices)} "
                "choices"
            )
        if self.valid and self.condition == "mc_graded" and len(self.distances or []) != len(self.choices):
            raise ValueError(f"{len(self.distances or [])} distances for {len(self.choices)} choices")
        return self


class GenerationHalf(Common):
    """Open generation: the model wrote an answer."""

    answers: list[str] = []
    gold_text: str = ""
    answer: str = ""
    right: dict[str, bool | None] = {}
    f1: float | None = None
    char_f1: float | None = None
    tied_steps: Annotated[StrictInt, Field(ge=0)] | None = None
    """Greedy steps of this answer whose two highest logits were equal in the model's dtype. None: an older run,
    another backend, or not greedy."""
    control_targets: list[str] = []
    """Wrong texts that the same matcher counted as targets."""
    control_hits: list[bool] = []
    control: Fraction | None = None
    """Share of these that the answer hit: what recovers by chance."""
    control_in_prompt: bool = True
    """Whether the targets stand in the prompt; if not, nobody can copy them, and chance is understated."""
    item_control: Fraction | None = None
    """Share that it hit of all of the item's own wrong texts, in the prompt or not. None: an older run whose rows hold
    no options; then `control` stands in."""
    earlier: str | None = None
    """revise: the earlier answer that the model was shown."""
    flags: dict[str, bool | None] = {}

    @property
    def chance(self) -> float | None:
        """The item's own control, by which a verdict goes."""
        return self.control if self.item_control is None else self.item_control

    @model_validator(mode="after")
    def _complete(self) -> GenerationHalf:
        if self.valid and self.right.get("standard") is None:
            raise ValueError("a valid generation record needs right.standard")
        for name, score in (("f1", self.f1), ("char_f1", self.char_f1)):
            if score is not None and not math.isnan(score) and not 0 <= score <= 1:
                raise ValueError(f"{name} {score:g} lies outside 0 to 1")
        if self.valid and CONDITIONS[self.condition].recovers and self.control is None:
            raise ValueError(f"a valid {self.condition} record needs control")
        if self.valid and self.right.get("anywhere") is None:  # an older run: its answer tells
            there = match(self.answer, self.answers, self.language).anywhere
            self.right["anywhere"] = there
            self.flags["gold_inside"] = there and not self.right["standard"]
        return self
