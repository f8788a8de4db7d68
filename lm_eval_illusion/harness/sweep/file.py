"""SWEEP.yaml: what may stand in it, and what is said when something else does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lm_eval_illusion.errors import IllusionError, did_you_mean
from prune_hooks import PruneSpec
from prune_hooks.spec import rests_on_mask
from prune_hooks.spec_values import UNSTRUCTURED, parse_pattern

Share = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]

OptionValue = int | float | str

QUOTE = {
    "patterns": 'write it in quotes, "2:4": bare, YAML reads 2:4 as the number 124',
    "calibration_languages": 'write it in quotes, "no": bare, YAML reads no as false',
}
"""Lists whose bare entries YAML may turn into something that is no text -> how to write them."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SweptModel(_Strict):
    """One model of a sweep; a bare name in the file stands for `pretrained` alone."""

    pretrained: str
    """Folder or hub name."""
    name: str = ""
    """What its folder is called; the last part of `pretrained` if left out."""
    model_args: dict[str, Any] = {}
    """Its own arguments of the model (dtype, revision, ...), over those of the sweep."""


class SweepFile(_Strict):
    """The file as written; every list is multiplied with every other."""

    models: list[SweptModel] = Field(min_length=1)
    """Names, or mappings with pretrained, name and model_args."""
    methods: list[str] = Field(min_length=1)
    """Pruning methods; the dense model is always a point, once a model."""
    sparsities: list[Share] = []
    """Shares of block weights to remove, for the pattern unstructured; 0.5 if left out."""
    patterns: list[str] = [UNSTRUCTURED]
    """unstructured, and n:m patterns in quotes, each of which fixes its own sparsity."""
    allocations: list[str] = ["uniform"]
    """Rules that spread the sparsity over the blocks."""
    method_options: dict[str, dict[str, OptionValue]] = {}
    """Method -> what it lets one set, name -> value."""
    allocation_options: dict[str, dict[str, OptionValue]] = {}
    """The same for allocations."""
    mask: str | None = None
    """File for the method mask, or for dsnot with start: mask."""
    seeds: list[Seed] = [0]
    """Seeds of pruning; a method that uses none is one point whatever they are."""
    tasks: list[str] = Field(["illusion_mini"], min_length=1)
    """Data sets, languages of them, or tasks."""
    items: Count | None = None
    """Items a language; all if left out."""
    num_fewshot: Seed | None = None
    """Demonstrations; one for base models and none under a chat template if left out."""
    chat_template: bool | None = None
    """Whether to apply the chat template; where the tokenizer has one if left out."""
    calibration: str | None = None
    """builtin, c4, mc4 or a path."""
    calibration_languages: list[str] = []
    """Languages of the calibration text, in equal shares."""
    calibration_samples: Count | None = None
    """Rows of calibration tokens."""
    calibration_length: Annotated[int, Field(ge=2)] | None = None
    """Tokens a row."""
    calibration_dtype: str | None = None
    """Dtype of the forward that calibration runs."""
    sequential: Literal["weight", "block"] | None = None
    """Order of pruning within a block."""
    batch_size: int | str = 8
    """Batch size, or auto."""
    device: str | None = None
    """cpu, cuda, cuda:0, mps; the harness chooses if left out."""
    data: str | None = None
    """Folder with tydiqa/ and xquad/."""
    model_args: dict[str, Any] = {}
    """Arguments of every model (dtype, attn_implementation, ...)."""
    restore: Literal["memory", "shards"] = "memory"
    """Whence dense weights come back between points: a copy in host memory, or the checkpoint's safetensors files."""

    @field_validator("models", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return [{"pretrained": m} if isinstance(m, str) else m for m in value] if isinstance(value, list) else value

    @field_validator("patterns", "calibration_languages", mode="before")
    @classmethod
    def _quoted(cls, value: Any, info: Any) -> Any:
        for entry in value if isinstance(value, list) else []:
            if not isinstance(entry, str):
                raise ValueError(f"{entry!r} is no text: {QUOTE[info.field_name]}")
        return value

    @model_validator(mode="after")
    def _together(self) -> SweepFile:
        for field in ("methods", "sparsities", "patterns", "allocations", "seeds", "tasks", "calibration_languages"):
            twice = [str(value) for value, count in Counter(getattr(self, field)).items() if count > 1]
            if twice:
                raise ValueError(f"{field}: {twice[0]} is named twice: expected each once")
        for field, names in (("method_options", self.methods), ("allocation_options", self.allocations)):
            strange = sorted(getattr(self, field).keys() - set(names))
            if strange:
                raise ValueError(f"{field}: {strange[0]} is not asked: expected some of {', '.join(names)}")
        used = any(rests_on_mask(name, self.method_options.get(name, {})) for name in self.methods)
        if (self.mask is not None) is not used:
            raise ValueError(
                "mask: a file and the method mask (or dsnot with start: mask) go together: give both, or neither"
            )
        if None not in [parse_pattern(pattern) for pattern in self.patterns] and "uniform" not in self.allocations:
            raise ValueError("allocations: n:m patterns go with uniform alone: add it, or the pattern unstructured")
        if "none" in self.methods:
            raise ValueError("methods: none is the dense model, which is always a point: leave it out")
        if not self.patterns or not self.allocations or not self.seeds:
            empty = next(name for name in ("patterns", "allocations", "seeds") if not getattr(self, name))
            raise ValueError(f"{empty}: empty: expected at least one, or leave the key out")
        shapes = [parse_pattern(pattern) for pattern in self.patterns]
        if self.sparsities and None not in shapes:
            raise ValueError(
                "sparsities: no pattern here uses them, since each n:m pattern fixes its own: add unstructured to "
                "patterns, or leave sparsities out"
            )
        for args in (self.model_args, *(model.model_args for model in self.models)):
            own = sorted(args.keys() & (PruneSpec.option_names() | {"pretrained"}))
            if own:
                raise ValueError(f"model_args: {own[0]} is an option of the sweep itself: give it at the top level")
        return self


def read_file(path: Path) -> SweepFile:
    """Read SWEEP.yaml.

    Raises:
        IllusionError: If it cannot be read, or holds anything but what `SweepFile` lists.
    """
    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise IllusionError(
            f"{path}: cannot be read ({error}); expected a YAML file such as the README shows"
        ) from error
    if not isinstance(held, dict):
        raise IllusionError(f"{path}: holds a {type(held).__name__}: expected keys such as models and methods")
    try:
        return SweepFile.model_validate(held)
    except ValidationError as error:
        raise IllusionError(f"{path}: {_said(error)}") from error


def _said(error: ValidationError) -> str:
    """Return the first thing wrong, in one line that lists what could stand there."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    known: type[BaseModel] = SweptModel if first["loc"][:1] == ("models",) and len(first["loc"]) > 1 else SweepFile
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(first["loc"][-1], known.model_fields)
        return f"unknown key {place}.{hint} Expected some of {', '.join(known.model_fields)}"
    if first["type"] == "missing":
        return f"{place} is missing; expected at least models and methods"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] != "value_error":
        message = f"{message[:1].lower()}{message[1:]}, found {first['input']!r}"
    return f"{place}: {message}" if place else message
