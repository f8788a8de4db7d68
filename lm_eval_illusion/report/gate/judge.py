"""Judge the comparisons of a report by rules. Whatever the figures cannot carry is undecided, and says why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lm_eval_illusion.report.gate.metrics import Reading
from lm_eval_illusion.report.gate.noise import NoiseFloor
from lm_eval_illusion.report.gate.rule_file import Rules
from lm_eval_illusion.report.gate.rules import Rule
from lm_eval_illusion.report.gate.verdict import Verdict, decide
from lm_eval_illusion.report.headline import to_guessing
from lm_eval_illusion.report.render.grid import far_or_near
from lm_eval_illusion.report.schema import Comparison, ReportFile, Row, RunSummary

__all__ = ["Line", "exit_code", "judge"]

_NOTHING = Reading(None, None, None)


@dataclass(frozen=True)
class Line:
    """One rule on one scope of one comparison."""

    pruned: str
    dense: str
    rule: str
    scope: str
    verdict: Verdict
    """What counts, after the file's word on undecided."""
    why: str
    observed: float | None
    low: float | None
    high: float | None
    limit: float | None
    items: int


def judge(file: ReportFile, rules: Rules, noise: NoiseFloor | None = None) -> list[Line]:
    """Judge every comparison by every rule.

    Undecided because the interval holds the limit, or noise does, counts as the file says. Undecided because the
    figures cannot be used - no items, a language missing, R at chance, too few items - never passes.

    Args:
        file: A report, built or stored.
        rules: At least one.
        noise: What two runs of one model differ by.
    """
    runs = {run.label: run for run in file.runs}
    lines: list[Line] = []
    for comparison in file.comparisons:
        case = _Case(file, comparison, runs[comparison.dense], runs[comparison.pruned], rules, noise)
        lines += case.lines()
    return lines


def exit_code(lines: Sequence[Line]) -> int:
    """0: all passed, 1: something failed, 2: nothing failed, yet something could not be judged (or nothing was)."""
    verdicts = {line.verdict for line in lines}
    return 1 if "fail" in verdicts else 0 if verdicts == {"pass"} else 2


def _barred(comparison: Comparison, dense: RunSummary, pruned: RunSummary) -> str | None:
    """Why no figure of this comparison may be used, if so: the report's alarms."""
    for run in (dense, pruned):
        if run.overlap.status == "overlap":
            return f"{run.label} was calibrated on texts that are evaluated: {run.overlap.why}"
    for name in ("class", "parameters"):
        before, after = dense.identity.get(name), pruned.identity.get(name)
        if None not in (before, after) and before != after:
            return f"{pruned.label} is another model than {dense.label}: {name} {after} against {before}"
    alarms = [note.text for note in comparison.notes if note.level == "alarm"]
    moved = dense.identity.get("pretrained") != pruned.identity.get("pretrained")
    changed = moved or (pruned.pruning is not None and pruned.pruning.pruned)
    if alarms and changed:  # two runs of one dense model are alike by right
        return alarms[0]
    return None


@dataclass(frozen=True)
class _Case:
    """One comparison before the judge."""

    file: ReportFile
    comparison: Comparison
    dense: RunSummary
    pruned: RunSummary
    rules: Rules
    noise: NoiseFloor | None

    def lines(self) -> list[Line]:
        """Missing languages first, then every rule on every row it is about."""
        barred = _barred(self.comparison, self.dense, self.pruned)
        judged = [
            self._line(rule, row, scope, missing or barred)
            for rule in self.rules.rules
            for row, scope, missing in _rows(self.comparison, rule)
        ]
        return [*self._languages(), *judged]

    def _languages(self) -> list[Line]:
        there = {row.language for row in self.comparison.rows if row.scope == "language" and row.joined}
        known = ", ".join(sorted(filter(None, there))) or "none"
        return [
            self._said("languages", language, "undecided", f"no items in {language}; there are {known}", _NOTHING, None)
            for language in self.rules.languages
            if language not in there
        ]

    def _line(self, rule: Rule, row: Row | None, scope: str, barred: str | None) -> Line:
        if row is None:
            return self._said(rule.text, scope, "undecided", barred or "no such row", _NOTHING, rule.limit)
        reading = rule.of.read(row, self.pruned)
        why = barred or self._unfit(rule, row, reading)
        floor = 0.0
        if why is None and self.noise is not None and not rule.of.counted:
            known = self.noise.floor(row, rule.metric)
            floor = known or 0.0
            why = None if known is not None else f"the noise file has no {rule.metric} of {scope}"
        if why is not None:
            return self._said(rule.text, scope, "undecided", why, reading, rule.limit)
        outcome = decide(rule, reading, floor)
        verdict, said = outcome.verdict, outcome.why
        if verdict == "undecided" and self.rules.undecided != "undecided":
            verdict, said = self.rules.undecided, f"{said}; undecided counts as {self.rules.undecided} here"
        return self._said(rule.text, scope, verdict, said, reading, rule.limit)

    def _said(self, rule: str, scope: str, verdict: Verdict, why: str, reading: Reading, limit: float | None) -> Line:
        return Line(
            pruned=self.comparison.pruned,
            dense=self.comparison.dense,
            rule=rule,
            scope=scope,
            verdict=verdict,
            why=why,
            observed=reading.value,
            low=reading.low,
            high=reading.high,
            limit=limit,
            items=reading.items,
        )

    def _unfit(self, rule: Rule, row: Row, reading: Reading) -> str | None:
        """Why a row cannot carry this rule; None: it can."""
        if not row.joined:
            return "no items"
        if rule.of.counted:
            return None if reading.value is not None else "the run carries no pruning receipt"
        lacking = [condition for condition in rule.of.conditions if condition in row.missing]
        if lacking:
            return f"not measured in every language: {', '.join(lacking)}"
        out = row.excluded + row.unmatched
        if out / (row.joined + out) > self.rules.max_left_out:
            reasons = {**row.excluded_reasons, **row.unmatched_reasons}
            told = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            most = f"max_left_out {self.rules.max_left_out:g}"
            return f"{out} of {row.joined + out} items are left out ({told}), more than {most}"
        numbers = (reading.value, reading.low, reading.high)
        if any(number is None or not math.isfinite(number) for number in numbers):
            return "not measured, or without an interval"
        least = max(rule.least, self.file.settings.min_items)
        passages = self.file.settings.min_clusters
        if not row.decided or reading.items < least or reading.clusters < passages:
            return f"too few: {reading.items} items in {reading.clusters} passages, expected {least} in {passages}"
        return _at_chance(rule, row)


def _rows(comparison: Comparison, rule: Rule) -> Iterator[tuple[Row | None, str, str | None]]:
    """Every row that a rule is about, its name, and why it cannot be judged, if so."""
    languages = [row for row in comparison.rows if row.scope == "language"]
    if rule.scope == "each language":
        if not languages:
            yield None, "each language", "the report has no row of a language"
        for row in languages:
            yield row, _named(row), None
        return
    name = rule.dataset
    inside = [row for row in languages if name in (None, row.dataset)]
    scope = rule.where
    wanted = [row for row in comparison.rows if row.scope == "overall"]
    if name is not None and {row.dataset for row in languages} != {name}:
        wanted = [row for row in comparison.rows if row.scope == "dataset" and row.dataset == name]
    if len(wanted) != 1 or not inside:
        known = ", ".join(sorted({row.dataset or "" for row in languages})) or "none"
        yield None, scope, f"the report has {len(wanted)} such rows; data sets with items: {known}"
        return
    empty = [_named(row) for row in inside if not row.joined]
    yield wanted[0], scope, f"no items in {', '.join(empty)}" if empty else None


def _named(row: Row) -> str:
    return f"{row.dataset}/{row.language}"


def _at_chance(rule: Rule, row: Row) -> str | None:
    """A gap says nothing where multiple choice does no better than guessing."""
    if rule.of.distance is None:
        return None
    models = [("pruned", row.pruned), *([("dense", row.dense)] if rule.of.against_dense else [])]
    for name, model in models:
        figures = far_or_near(model, rule.of.distance)
        if figures is None:
            return "not measured"
        if not figures.interpretable:
            accuracy = figures.accuracy
            ends = f"{accuracy.value or 0.0:.2f} [{accuracy.low or 0.0:.2f}, {accuracy.high or 0.0:.2f}]"
            told = to_guessing(figures, f"chance {figures.chance:.2f}")
            return f"the {name} model's MC {rule.of.distance} {ends} {told}"
    return None
