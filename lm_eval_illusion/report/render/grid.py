"""A table of plain cells, and how its rows find their figures."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lm_eval_illusion.report.columns import Distance
from lm_eval_illusion.report.measures import Contrast, DistanceContrast, DistanceFigures, ModelFigures
from lm_eval_illusion.report.numbers import DASH
from lm_eval_illusion.report.schema import Comparison, Row
from lm_eval_illusion.report.stats.intervals import MIN_CLUSTERS

__all__ = [
    "CHOSEN_MARK",
    "DISTANCES",
    "Gloss",
    "Table",
    "by_scope",
    "contrast_at",
    "far_or_near",
    "models_of",
    "scope_name",
]

DISTANCES: tuple[Distance, ...] = ("near", "far")


@dataclass(frozen=True)
class Gloss:
    """A sentence below a table, said only where what it explains is shown."""

    text: str
    columns: tuple[int, ...]
    """It explains these."""
    cells: str = ""
    """What one of their cells must hold; empty: the heading is enough."""
    once: bool = False
    """A terminal says it at the first table alone."""


@dataclass(frozen=True)
class Table:
    """A titled table of plain text cells (not yet escaped)."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    """A sentence below it that holds of the whole."""
    brief: bool = True
    """Whether the terminal shows it too."""
    pages: bool = True
    """Whether report.md shows it."""
    overall: int | None = None
    """The terminal shows only so many first rows; None: all."""
    spare: tuple[tuple[int, ...], ...] = ()
    """Columns that a narrow terminal leaves out, those of the first group first; near and far go together."""
    glosses: tuple[Gloss, ...] = ()
    """Sentences about some of its columns."""

    def said(
        self, rows: Sequence[Sequence[str]] | None = None, kept: Iterable[int] | None = None, told: Container[str] = ()
    ) -> str:
        """All that stands below the table, as far as it is shown.

        Args:
            rows: Rows that are shown; None: all.
            kept: Columns that are shown; None: all.
            told: Glosses that were said before, which need no second time.
        """
        rows = self.rows if rows is None else rows
        columns = set(range(len(self.columns)) if kept is None else kept)
        everywhere = tuple(range(len(self.columns)))
        parts = [self.note] if self.note else []
        always = (Gloss(CHOSEN, everywhere, CHOSEN_MARK), Gloss(NO_INTERVAL, everywhere, f"[{DASH}]"))
        for gloss in (*self.glosses, *always):
            here = [column for column in gloss.columns if column in columns]
            found = any(gloss.cells in row[column] for row in rows for column in here) if gloss.cells else bool(here)
            if found and not (gloss.once and gloss.text in told):
                parts.append(gloss.text)
        return " ".join(parts)


CHOSEN_MARK = "‡"
CHOSEN = f"{CHOSEN_MARK}: asked on chosen items only, such as one model's failures; numbers are of these."
NO_INTERVAL = (
    f"[{DASH}]: no interval, because the items behind the cell lie in fewer than {MIN_CLUSTERS} passages (in a "
    "mean over languages, those of some language)."
)
"""Why `numbers.interval` gives none."""


def by_scope(
    title: str,
    columns: Sequence[str],
    rows: Sequence[tuple[Row, list[str]]],
    note: str = "",
    *,
    brief: bool = True,
    spare: tuple[tuple[int, ...], ...] = (),
    glosses: tuple[Gloss, ...] = (),
) -> Table:
    """A table with the scope in its first column. Overall rows come first; the terminal shows those alone."""
    cells = [[scope_name(row), *rest] for row, rest in rows]
    overall = sum(row.scope == "overall" for row, _ in rows)
    return Table(title, ["scope", *columns], cells, note, brief, overall=overall, spare=spare, glosses=glosses)


def scope_name(row: Row) -> str:
    """`overall`, `tydiqa`, `tydiqa sw`; an asterisk where the sample is too small for a verdict."""
    name = " ".join(part for part in (row.dataset, row.language) if part) or "overall"
    return name if row.decided else f"{name} *"


def far_or_near(source: ModelFigures | None, distance: Distance) -> DistanceFigures | None:
    """One model's figures at one distance."""
    return None if source is None else source.near if distance == "near" else source.far


def contrast_at(source: Contrast | None, distance: Distance) -> DistanceContrast | None:
    """The contrast at one distance."""
    return None if source is None else source.near if distance == "near" else source.far


def models_of(comparison: Comparison) -> Iterator[tuple[Row, str, ModelFigures]]:
    """Every row with each of its two models."""
    for row in comparison.rows:
        for label, model in ((comparison.dense, row.dense), (comparison.pruned, row.pruned)):
            if model is not None:
                yield row, label, model
