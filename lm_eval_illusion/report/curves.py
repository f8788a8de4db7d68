"""Gather the points of curves against sparsity from judged comparisons. Pure: structure in, structure out."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.report.curve_figures import (
    MEASURES,
    CurveLine,
    CurveMean,
    CurvePanel,
    CurvePoint,
    Curves,
    LeftOut,
    LineDefinition,
)
from lm_eval_illusion.report.measures import ModelFigures
from lm_eval_illusion.report.naming import distinguish, numbered, pattern_family, structured
from lm_eval_illusion.report.schema import Comparison, PruningSummary, Row, RunSummary

__all__ = ["MOST_PLACES", "gather_curves"]

MOST_PLACES = 6
"""Decimals to which two sparsities are the same."""

_Key = tuple[str, str, tuple[tuple[str, str], ...]]
"""Method, pattern family, settings."""


def gather_curves(runs: Sequence[RunSummary], comparisons: Sequence[Comparison], *, least: int = 2) -> Curves | None:
    """Points of multiple choice and generation against sparsity, with the intervals that the tables give.

    A line is a method with one pattern family and one set of settings; seeds are points of one line. n:m points stand
    at 1 - n/m.

    Args:
        runs: Summaries, the dense run first.
        comparisons: One for each further run, in the same order.
        least: Sparsities that some method must have been run at; of one there are points and no curve.

    Returns:
        The curves, or None where no method was run at so many sparsities.
    """
    placed: list[tuple[int, _Key, float]] = []
    left_out = []
    for index, run in enumerate(runs):
        sparsity = _sparsity(run.pruning)
        if run.pruning is None:
            why = "no pruning receipt: another backend"
        elif not run.pruning.pruned:
            why = "not pruned"
        elif sparsity is None:
            why = "its receipt tells no sparsity"
        else:
            placed.append((index, _key(run.pruning), sparsity))
            continue
        if index:
            left_out.append(LeftOut(run=run.label, why=why))
    sparsities = {(key[0], sparsity) for _, key, sparsity in placed}
    methods = [method for method, _ in sparsities]
    if max(map(methods.count, methods), default=0) < least:
        return None
    keys = list(dict.fromkeys(key for _, key, _ in placed))
    tables = [{(row.scope, row.dataset, row.language): row for row in comparison.rows} for comparison in comparisons]
    scopes = list(dict.fromkeys(scope for table in tables for scope in table))
    return Curves(
        lines=_definitions(keys, [(key, runs[index].pruning) for index, key, _ in placed]),
        panels=[_panel([table.get(scope) for table in tables], runs, placed, keys) for scope in scopes],
        left_out=left_out,
    )


def _sparsity(pruning: PruningSummary | None) -> float | None:
    if pruning is None:
        return None
    pair = structured(pruning.pattern)
    if pair is not None:
        return round(1 - pair[0] / pair[1], MOST_PLACES)
    asked = pruning.sparsity_asked if pruning.sparsity_asked is not None else pruning.sparsity_reached
    return None if asked is None else round(asked, MOST_PLACES)


def _key(pruning: PruningSummary) -> _Key:
    return pruning.method or "", pattern_family(pruning.pattern), tuple(pruning.settings.items())


def _definitions(keys: Sequence[_Key], points: Sequence[tuple[_Key, PruningSummary | None]]) -> list[LineDefinition]:
    bases = []
    for key in keys:
        patterns = {pruning.pattern for other, pruning in points if other == key and pruning}
        told = next(iter(patterns)) if len(patterns) == 1 else key[1]
        bases.append(key[0] if key[1] == "unstructured" else f"{key[0]} {told}")
    extras = distinguish([key[0] for key in keys], [dict(key[2]) for key in keys])
    names = numbered([f"{base} {extra}".rstrip() for base, extra in zip(bases, extras, strict=True)])
    return [
        LineDefinition(name=name, method=key[0], pattern=key[1], settings=dict(key[2]))
        for key, name in zip(keys, names, strict=True)
    ]


def _panel(
    rows: Sequence[Row | None],
    runs: Sequence[RunSummary],
    placed: Sequence[tuple[int, _Key, float]],
    keys: Sequence[_Key],
) -> CurvePanel:
    """One scope from its row in every comparison; the first run's figures are those over the most items."""
    known = [row for row in rows if row is not None]
    fullest = max(known, key=lambda row: row.joined)
    start = fullest.dense
    points: dict[_Key, list[CurvePoint]] = {key: [] for key in keys}
    for index, key, sparsity in placed:
        row = rows[index - 1] if index else fullest
        if row is not None:
            run, model = runs[index], row.pruned if index else row.dense
            points[key].append(_point(run.label, run.pruning, sparsity, row, model))
    first_is_pruned = bool(placed) and placed[0][0] == 0
    chance = {}
    if start is not None and start.near is not None and start.far is not None:
        chance = {"near": start.near.chance, "far": start.far.chance}
    return CurvePanel(
        scope=fullest.scope,
        dataset=fullest.dataset,
        language=fullest.language,
        decided=all(row.decided for row in known),
        missing=fullest.missing,
        chance=chance,
        dense=None if first_is_pruned or start is None else _point(runs[0].label, None, 0.0, fullest, start),
        lines=[CurveLine(line=line, points=points[key], means=_means(points[key])) for line, key in enumerate(keys)],
    )


def _point(
    label: str, pruning: PruningSummary | None, sparsity: float, row: Row, model: ModelFigures | None
) -> CurvePoint:
    """A point; multiple choice near is never given without far, nor far without near."""
    near, far = (model.near, model.far) if model is not None else (None, None)
    both = near is not None and far is not None
    return CurvePoint(
        run=label,
        sparsity=sparsity,
        pattern=pruning.pattern if pruning else None,
        seed=pruning.seed if pruning else None,
        joined=row.joined,
        near=near.accuracy if near and both else None,
        far=far.accuracy if far and both else None,
        generation=model.generation if model else None,
    )


def _means(points: Sequence[CurvePoint]) -> list[CurveMean]:
    means = []
    for sparsity in sorted({point.sparsity for point in points}):
        here = [point for point in points if point.sparsity == sparsity]
        values = {name: _mean([getattr(point, name) for point in here]) for name in MEASURES}
        means.append(CurveMean.model_validate({"sparsity": sparsity, "runs": len(here), **values}))
    return means


def _mean(estimates: Sequence[object]) -> float | None:
    """Mean of the values, or None where one is unknown."""
    values = [getattr(estimate, "value", None) for estimate in estimates]
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
