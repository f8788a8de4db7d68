"""gate.yaml: what may stand in it, and what is said when YAML reads something else than was meant."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.gate.rules import Rule, parse_rule

__all__ = ["DEFAULT_LEFT_OUT", "Rules", "read_rules"]

DEFAULT_LEFT_OUT = 0.05
"""Share of items that may be invalid or unmatched; a broken model must not be judged on what it survived."""

_PLAIN = re.compile(r"-?(0|[1-9]\d{0,8})(\.\d{1,9})?", re.ASCII)

Undecided = Literal["undecided", "pass", "fail"]


@dataclass(frozen=True)
class Rules:
    """What a gate judges by."""

    rules: tuple[Rule, ...]
    undecided: Undecided = "undecided"
    """What an interval that holds the limit counts as."""
    languages: tuple[str, ...] = ()
    """Languages that must be there."""
    max_left_out: float = DEFAULT_LEFT_OUT
    source: str | None = None
    """The rules file."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    rules: list[str] = Field(min_length=1)
    undecided: Undecided = "undecided"
    languages: list[str] = []
    max_left_out: float = Field(DEFAULT_LEFT_OUT, ge=0, lt=1, allow_inf_nan=False)


class _Loader(yaml.SafeLoader):
    """YAML without its traps: no key twice, no alias, no word or ratio that turns into something else."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [str(key.value) for key, _ in node.value]
    twice = [key for key, count in Counter(keys).items() if count > 1]
    if twice:
        raise _Trap(f"line {node.start_mark.line + 1}: {twice[0]} stands twice: expected each key once")
    return loader.construct_mapping(node, deep=True)


def _word(loader: _Loader, node: yaml.ScalarNode) -> Any:
    kind = "a truth value" if node.tag.endswith(":bool") else "a number or a date"
    raise _Trap(
        f"line {node.start_mark.line + 1}: YAML reads {node.value} as {kind}; expected text: write it in quotes, "
        f'"{node.value}"'
    )


def _number(loader: _Loader, node: yaml.ScalarNode) -> Any:
    if not _PLAIN.fullmatch(node.value):  # 2:4, 010, 1_000, .inf
        return _word(loader, node)
    return float(node.value) if "." in node.value else int(node.value)


class _Trap(Exception):
    """Something that YAML reads otherwise than it is written."""


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:bool", _word)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _word)
_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def read_rules(path: Path | None, more: list[str]) -> Rules:
    """Rules of a file and of the command line together.

    Args:
        path: gate.yaml; None where the command line gives all rules.
        more: Rules of `--fail-if`.

    Raises:
        IllusionError: No rule at all, an unreadable file, or anything in it that is not understood.
    """
    given = [rule for text in more for rule in parse_rule(text, "--fail-if")]
    if path is None:
        rules = Rules(tuple(given))
    else:
        file = _load(path)
        read = [
            rule for number, text in enumerate(file.rules, 1) for rule in parse_rule(text, f"{path}: rule {number}")
        ]
        rules = Rules((*read, *given), file.undecided, tuple(file.languages), float(file.max_left_out), str(path))
    if not rules.rules:
        raise IllusionError(
            'no rule given; expected --rules gate.yaml or --fail-if "generation drop > 0.10" (docs/gate.md has more)'
        )
    for name, values in (
        ("rule", [f"{rule.text}, {rule.where}" for rule in rules.rules]),
        ("language", list(rules.languages)),
    ):
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise IllusionError(f"{path or '--fail-if'}: the {name} {twice[0]!r} stands twice; expected it once")
    return rules


def _load(path: Path) -> _File:
    try:
        text = path.read_text(encoding="utf-8")
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise _Trap("an alias (*name): expected every rule written out")
        held = yaml.load(text, _Loader)  # a SafeLoader that refuses more
    except _Trap as trap:
        raise IllusionError(f"{path}: {trap}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise IllusionError(
            f"{path}: cannot be read ({error}); expected a YAML file such as docs/gate.md shows"
        ) from None
    if not isinstance(held, dict):
        raise IllusionError(f"{path}: holds a {type(held).__name__}; expected keys such as rules: (docs/gate.md)")
    try:
        return _File.model_validate(held)
    except ValidationError as error:
        raise IllusionError(f"{path}: {_said(error)}") from None


def _said(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {place}; expected some of {', '.join(_File.model_fields)}"
    if first["type"] == "missing":
        return f'{place} is missing; expected a list such as rules: ["generation drop <= 0.10"]'
    quote = "; a rule with a colon, or a bare 2:4, wants quotes" if place.startswith("rules") else ""
    return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}, found {first['input']!r}{quote}"
