"""The statements of the paper as tables: their answers in every run, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.report.conclusion_figures import Conclusion, Conclusions, Statement
from lm_eval_illusion.report.numbers import DASH
from lm_eval_illusion.report.render.grid import Table

__all__ = ["answers_table", "in_brief", "statements_table", "sweep_table"]


def answers_table(conclusions: Conclusions | None) -> Table | None:
    """Statements against runs, answers alone; None where no run was probed."""
    if conclusions is None or not conclusions.comparisons:
        return None
    statements = conclusions.comparisons[0].statements
    rows = [
        [statement.claim, *(c.statements[number].answer for c in conclusions.comparisons)]
        for number, statement in enumerate(statements)
    ]
    columns = ["statement", *(conclusion.pruned for conclusion in conclusions.comparisons)]
    note = "Undecided: too few items or passages, or an interval that covers zero and ends above the margin."
    return Table("The paper's statements, one by one", columns, rows, note)


def statements_table(conclusion: Conclusion) -> Table:
    """One run's answers with their numbers."""
    return _numbers("Statements and their numbers", conclusion.statements)


def sweep_table(conclusions: Conclusions | None) -> Table | None:
    """Statements across sparsities and methods; None without a sweep."""
    if conclusions is None or not conclusions.sweep:
        return None
    return _numbers("Across sparsities and methods", conclusions.sweep)


def in_brief(statements: Sequence[Statement]) -> str:
    """One line of answers."""
    answers = {name: [s.claim for s in statements if s.answer == name] for name in ("yes", "no")}
    told = [f"{name}: {'; '.join(claims)}" for name, claims in answers.items() if claims]
    open_ones = sum(statement.answer == "undecided" for statement in statements)
    return ". ".join([*told, f"undecided: {open_ones} of {len(statements)} statements (report.md)"])


def _numbers(title: str, statements: list[Statement]) -> Table:
    rows = [[s.claim, s.answer, s.numbers or DASH, s.reason or DASH] for s in statements]
    return Table(title, ["statement", "answer", "numbers", "why not yes"], rows, brief=False)
