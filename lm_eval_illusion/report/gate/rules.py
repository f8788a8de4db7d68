"""One rule: its grammar, its limits, and what a rule may not say.

A rule names a limit and, after commas, how sure, where, and the least number of items::

    RULE    = METRIC OP NUMBER { "," WORD }
    METRIC  = ( "gap" | "excess gap" | "recognition-only" | "induced illusion" | "MC drop" ) [ "near" | "far" ]
            | "flips" [ "near" | "far" | "generation" ] | "generation drop" | "empty share" | "repeated share"
            | "sparsity reached" | "coverage"
    OP      = "<=" | "<" | ">=" | ">"
    NUMBER  = [ "-" ] DIGITS [ "." DIGITS ]
    WORD    = "certain" | "possible" | "equivalent"
            | "overall" | "each language" | "dataset" NAME
            | "n >=" DIGITS

Capitals do not count, and a blank in a metric's name may be ``_`` or ``-``. A metric without its distance stands for
all of its distances. Every metric has one bad side, so ``gap <= 0.1`` (what must hold) and ``gap > 0.1`` (what fails)
are the same rule. Everything else is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast, get_args

from lm_eval_illusion.errors import IllusionError, did_you_mean
from lm_eval_illusion.report.gate.metrics import METRICS, Metric

__all__ = ["LEAST_ITEMS", "Rule", "Sure", "parse_rule"]

Sure = Literal["certain", "possible", "equivalent"]
ScopeKind = Literal["overall", "each language", "dataset"]

LEAST_ITEMS = 30
"""Fewest items that any rule judges; a rule may ask for more. `build.DEFAULTS` has the same."""

_OPPOSITE = {"<=": ">", "<": ">=", ">=": "<", ">": "<="}
_RULE = re.compile(r"\s*(?P<metric>[A-Za-z][A-Za-z _-]*?)\s*(?P<op><=|>=|<|>)\s*(?P<rest>.*)", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,9})?", re.ASCII)
_LEAST = re.compile(r"n\s*>=\s*(\d{1,9})", re.ASCII)
_DATASET = re.compile(r"dataset\s+(\w[\w.-]*)", re.IGNORECASE)
_SHAPE = 'expected METRIC OP NUMBER and words after commas, such as "generation drop <= 0.10, certain, each language"'


@dataclass(frozen=True)
class Rule:
    """What must hold of one metric."""

    metric: str
    """A key of `METRICS`."""
    strict: bool
    """Whether the limit itself is on the bad side already."""
    limit: float
    sure: Sure = "certain"
    scope: ScopeKind = "overall"
    dataset: str | None = None
    """The data set of the scope `dataset`."""
    least: int = LEAST_ITEMS
    """Items below which nothing is judged."""

    @property
    def of(self) -> Metric:
        """The metric itself."""
        return METRICS[self.metric]

    @property
    def where(self) -> str:
        """The scope in words."""
        return f"dataset {self.dataset}" if self.scope == "dataset" else self.scope

    @property
    def text(self) -> str:
        """The rule in the one form that every line shows, its scope left out: what must hold."""
        sign = "<" if self.of.bad_side > 0 else ">"
        words = [f"{self.metric} {sign}{'' if self.strict else '='} {self.limit:g}"]
        if not self.of.counted:
            words.append(self.sure)
            words += [f"n >= {self.least}"] if self.least != LEAST_ITEMS else []
        return ", ".join(words)


def parse_rule(text: str, where: str) -> list[Rule]:
    """Read one rule.

    Args:
        text: The rule as written.
        where: File and place, or the option, for messages.

    Returns:
        One rule a distance: a metric that names none stands for all it has.

    Raises:
        IllusionError: Anything that the grammar does not hold, or a rule that could never fail or never pass.
    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise IllusionError(f"{where}: {text!r} is no rule; {_SHAPE}")
    metrics = _metrics(found["metric"], where)
    number, *words = (part.strip() for part in found["rest"].split(","))
    if not _NUMBER.fullmatch(number):
        raise IllusionError(
            f"{where}: {number!r} is no limit of {found['metric']}; expected a plain number such as 0.10 (10 % is 0.10)"
        )
    said = _words(words, text, where)
    rules = []
    for metric in metrics:
        operator = found["op"]
        wanted = "<" if metric.bad_side > 0 else ">"
        if operator[0] != wanted:  # what fails was written, not what must hold
            operator = _OPPOSITE[operator]
        rule = Rule(metric.name, not operator.endswith("="), float(number), **said)  # type: ignore[arg-type]
        _check(rule, where)
        rules.append(rule)
    return rules


def _metrics(name: str, where: str) -> list[Metric]:
    def folded(word: str) -> str:
        return re.sub(r"[ _-]+", " ", word.strip().casefold())

    asked = folded(name)
    found = [metric for key, metric in METRICS.items() if folded(key) == asked]
    if not found:
        parts = ("near", "far", "generation")
        found = [
            metric
            for key, metric in METRICS.items()
            if key.rpartition(" ")[2] in parts and folded(key.rpartition(" ")[0]) == asked
        ]
    if not found:
        hint = did_you_mean(name.strip(), METRICS)
        raise IllusionError(f"{where}: unknown metric {name.strip()!r}.{hint} Known: {', '.join(METRICS)}")
    return found


def _words(words: list[str], text: str, where: str) -> dict[str, object]:
    said: dict[str, object] = {}

    def once(key: str, value: object) -> None:
        if key in said:
            kind = {"sure": "how sure", "scope": "a scope", "least": "a least n"}[key]
            raise IllusionError(f"{where}: {text!r} gives {kind} twice; expected it once, or two rules")
        said[key] = value

    for word in words:
        plain = " ".join(word.casefold().split())
        least, dataset = _LEAST.fullmatch(plain), _DATASET.fullmatch(word)
        if plain in get_args(Sure):
            once("sure", cast(Sure, plain))
        elif plain in ("overall", "each language"):
            once("scope", plain)
        elif dataset:
            once("scope", "dataset")
            said["dataset"] = dataset[1]
        elif least:
            once("least", int(least[1]))
        else:
            raise IllusionError(
                f"{where}: {word!r} in {text!r} is no word of a rule; known: certain, possible, equivalent, overall, "
                "each language, dataset NAME, n >= NUMBER"
            )
    return said


def _check(rule: Rule, where: str) -> None:
    metric, low, high = rule.of, *rule.of.bounds
    if not low <= rule.limit <= high:
        raise IllusionError(
            f"{where}: limit {rule.limit:g} of {rule.metric} lies outside {low:g} to {high:g}; expected a share "
            "(10 % is 0.10)"
        )
    best, worst = (low, high) if metric.bad_side > 0 else (high, low)
    if rule.limit == (best if rule.strict else worst):
        never = "pass" if rule.strict else "fail"
        raise IllusionError(
            f"{where}: {rule.text!r} can never {never}, since {rule.metric} lies between {low:g} and {high:g}; "
            "expected a limit between these"
        )
    if rule.least < LEAST_ITEMS:
        raise IllusionError(
            f"{where}: n >= {rule.least} is below {LEAST_ITEMS}, the fewest items that anything is judged on; expected "
            f"n >= {LEAST_ITEMS} or more"
        )
    if rule.sure == "equivalent" and (not metric.has_equivalence or rule.limit <= 0):
        able = ", ".join(name for name, one in METRICS.items() if one.has_equivalence)
        raise IllusionError(
            f"{where}: {rule.metric} with limit {rule.limit:g} cannot be judged equivalent; expected a change ({able}) "
            "and a margin above 0"
        )
    if metric.counted and (rule.scope != "overall" or rule.sure == "equivalent" or rule.least != LEAST_ITEMS):
        raise IllusionError(
            f"{where}: {rule.metric} is counted over the whole model, not sampled over items; expected the limit "
            f"alone, such as {rule.metric} >= {rule.limit:g}"
        )
