"""Options of a method or allocation rule: how they are written down, declared and checked. Imports no torch.

method_options="cycles:20+start:magnitude"  # or {"cycles": 20, "start": "magnitude"}
@register_method("dsnot", options={"cycles": Option(50, least=1, about="swaps a row at most")})
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prune_hooks.errors import PruneError

Value = int | float | str


@dataclass(frozen=True)
class Option:
    """One declared option; the kind of its default is the kind of its values."""

    default: Value
    """A whole number, a number (float) or text."""
    least: float | None = None
    """Smallest number allowed."""
    most: float | None = None
    """Largest number allowed."""
    choices: tuple[str, ...] = ()
    """Texts allowed; empty: any."""
    about: str = ""
    """What it does, in a few words."""

    @property
    def expected(self) -> str:
        """What a value has to be, for messages."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if isinstance(self.default, str):
            return "text"
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        lower = f" of at least {self.least:g}" if self.least is not None else ""
        upper = f" of at most {self.most:g}" if self.most is not None else ""
        return f"{kind}{lower}{' and' if lower and upper else ''}{upper}"

    def read(self, value: Value) -> Value | None:
        """Returns the value as the option holds it, or None if it is none of those allowed."""
        if isinstance(self.default, str):
            text = str(value)
            return text if not self.choices or text in self.choices else None
        if isinstance(value, str) or (isinstance(self.default, int) and not float(value).is_integer()):
            return None
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            return None
        return int(value) if isinstance(self.default, int) else float(value)


def parse_options(field: str, given: object) -> dict[str, Value]:
    """Reads "name:value+name:value" or a mapping; numbers become numbers, so that both spellings are equal.

    Args:
        field: name of the spec's field, for messages.
        given: the text or the mapping; "" and an empty mapping mean no options.

    Raises:
        PruneError: for anything else, a name given twice, and a value that is neither a finite number nor text.
    """
    expected = 'expected "name:value+name:value" (quoted in YAML) or a mapping of names to numbers or text'
    pairs: list[tuple[Any, Any]]
    if isinstance(given, str):
        parts = [part.partition(":") for part in given.split("+")] if given else []
        if not all(colon for _, colon, _ in parts):
            raise PruneError(f"{field} is {given!r}: {expected}")
        pairs = [(name, value) for name, _, value in parts]
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        raise PruneError(f"{field} is {given!r} ({type(given).__name__}): {expected}")
    read: dict[str, Value] = {}
    for name, value in pairs:
        plain = _plain(value)
        if not (isinstance(name, str) and name) or plain is None:
            raise PruneError(f"{field} holds {name!r}: {value!r}: {expected}")
        if name in read:
            raise PruneError(f"{field} gives {name!r} twice: {expected}")
        read[name] = plain
    return read


def resolve_options(
    owner: str, field: str, declared: Mapping[str, Option], given: Mapping[str, Value]
) -> dict[str, Any]:
    """Returns every declared option with the value given or its default.

    Args:
        owner: what declares them, such as "method 'dsnot'".
        field: name of the spec's field, for messages.
        declared: the options there are.
        given: the values asked for.

    Raises:
        PruneError: for a name that is not declared, or a value that is not allowed.
    """
    known = ", ".join(f"{name} ({option.default})" for name, option in sorted(declared.items()))
    values: dict[str, Any] = {name: option.default for name, option in declared.items()}
    for name, value in given.items():
        if name not in declared:
            raise PruneError(
                f"{owner} has no option {name!r}: expected "
                + (f"one of its options (defaults), {known}, in {field}" if known else f"no {field}, as it takes none")
            )
        read = declared[name].read(value)
        if read is None:
            raise PruneError(
                f"option {name!r} of {owner} is {value!r}: expected {declared[name].expected}; change {field}"
            )
        values[name] = read
    return values


def _plain(value: object) -> Value | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or value == "":
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return value
    if not math.isfinite(number):
        return value if isinstance(value, str) else None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
