"""A gate's verdicts as plain lines for a terminal or a log."""

from __future__ import annotations

from lm_eval_illusion.report.gate.conduct import Judgement
from lm_eval_illusion.report.gate.judge import Line
from lm_eval_illusion.report.numbers import DASH
from lm_eval_illusion.report.render.safe import inert

__all__ = ["WORDS", "figures", "render_lines", "verdict_of"]

WORDS = {"pass": "PASS", "fail": "FAIL", "undecided": "UNDECIDED"}
_CODES = {0: "pass", 1: "fail", 2: "undecided"}


def number(value: float | None) -> str:
    """Three decimals, or a dash where nothing was measured."""
    return DASH if value is None else f"{value:.3f}"


def figures(line: Line) -> str:
    """Observed, interval, limit and n of one line."""
    ends = f"[{number(line.low)}, {number(line.high)}]"
    limit = DASH if line.limit is None else f"{line.limit:g}"
    return f"observed {number(line.observed)} {ends}, limit {limit}, n {line.items}"


def verdict_of(judgement: Judgement) -> str:
    """The whole in one sentence."""
    if judgement.error is not None:
        return f"could not judge: {judgement.error}"
    counts = ", ".join(
        f"{judgement.count(verdict)} {words}"
        for verdict, words in (("pass", "passed"), ("fail", "failed"), ("undecided", "undecided"))
    )
    return f"{_CODES[judgement.code]}: {counts}"


def render_lines(judgement: Judgement) -> str:
    """One line a rule and scope, then the whole. Foreign text is inert, and no line starts with it."""
    lines = [
        f"{WORDS[line.verdict]:<9} {inert(line.pruned)}: {inert(line.rule)} [{inert(line.scope)}]: {figures(line)}: "
        f"{inert(line.why, 400)}"
        for line in judgement.lines
    ]
    return "\n".join([*lines, f"gate: {inert(verdict_of(judgement), 600)}"])
