"""GitHub: a step summary in Markdown, and annotations as workflow commands."""

from __future__ import annotations

from lm_eval_illusion.report.gate.conduct import Judgement
from lm_eval_illusion.report.gate.judge import Line
from lm_eval_illusion.report.gate.text import WORDS, figures, number, verdict_of
from lm_eval_illusion.report.numbers import DASH
from lm_eval_illusion.report.render.safe import inert, inert_markdown

__all__ = ["render_annotations", "render_summary"]

MOST_ROWS = 300
"""Rows of the summary, those that did not pass first: a step's summary holds a mebibyte."""
MOST_ANNOTATIONS = 10
"""GitHub shows ten of a kind a step."""
_MARKS = {"pass": "✅ pass", "fail": "❌ fail", "undecided": "❔ undecided"}
_ORDER = ("fail", "undecided", "pass")


def render_summary(judgement: Judgement) -> str:
    """A heading, the whole in a sentence, and a table."""
    parts = [f"### lm-eval-illusion gate\n\n{inert_markdown(verdict_of(judgement), 600)}\n"]
    ranked = sorted(judgement.lines, key=lambda line: _ORDER.index(line.verdict))
    if ranked:
        parts.append("| verdict | run | rule | scope | observed | 95 % interval | limit | n | why |")
        parts.append("|---|---|---|---|---|---|---|---|---|")
        parts += [_row(line) for line in ranked[:MOST_ROWS]]
    if len(ranked) > MOST_ROWS:
        parts.append(f"\n{len(ranked) - MOST_ROWS} more lines are in the log and the JUnit file.")
    return "\n".join(parts) + "\n"


def _row(line: Line) -> str:
    cells = [
        _MARKS[line.verdict],
        inert_markdown(line.pruned),
        inert_markdown(line.rule),
        inert_markdown(line.scope),
        number(line.observed),
        DASH if line.low is None else f"{number(line.low)} to {number(line.high)}",
        DASH if line.limit is None else f"{line.limit:g}",
        str(line.items),
        inert_markdown(line.why, 300),
    ]
    return f"| {' | '.join(cells)} |"


def render_annotations(judgement: Judgement) -> list[str]:
    """One command a line that did not pass, errors for failures and warnings for what could not be judged."""
    if judgement.error is not None:
        return [f"::error title=lm-eval-illusion gate::{_data(verdict_of(judgement))}"]
    shown: list[str] = []
    for verdict, kind in (("fail", "error"), ("undecided", "warning")):
        lines = [line for line in judgement.lines if line.verdict == verdict]
        for line in lines[:MOST_ANNOTATIONS]:
            title = f"{WORDS[verdict]} {line.pruned}: {line.rule}"
            shown.append(f"::{kind} title={_property(title)}::{_data(f'[{line.scope}] {figures(line)}: {line.why}')}")
    return shown


def _data(text: str) -> str:
    """As GitHub's own toolkit escapes it; `inert` has taken line ends already."""
    return inert(text, 600).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
