"""The ladder from open answer to likelihood, and what the probes brought back, dense beside pruned."""

from __future__ import annotations

from typing import Any

from lm_eval_illusion.report.numbers import decimals
from lm_eval_illusion.report.page.figures.dots import FORMS, Dot, Series, dot_panel, dot_words
from lm_eval_illusion.report.page.figures.model import Figure, Key, Panel
from lm_eval_illusion.report.page.vega import colour, draw, values
from lm_eval_illusion.report.probe_measures import ProbeFigures, RecoveryFigures
from lm_eval_illusion.report.render.grid import scope_name
from lm_eval_illusion.report.render.probe_tables import RUNGS, probe_tables
from lm_eval_illusion.report.schema import Comparison, Settings
from lm_eval_illusion.report.statements import corrected_share, few_failures

__all__ = ["ladder_figure", "recovery_figure"]

_RECOVERY = "Recovery of wrong open answers"
_FEW = " A mark without one: too few failures or passages for an interval."
_LADDER = "From open answer to displayed candidates to likelihood"
MODELS = {"dense": Series("ink", "circle"), "pruned": Series("c1", "triangle-up")}


def ladder_figure(comparison: Comparison, settings: Settings) -> Figure | None:
    """Right answers on each rung, a panel a scope; None where no candidates were displayed."""
    panels = []
    for row in comparison.rows:
        if row.scope == "dataset" or (row.scope == "language" and len(comparison.rows) < 4):
            continue
        dots = []
        for name, words in RUNGS.items():
            for model, probes in (("dense", row.dense_probes), ("pruned", row.pruned_probes)):
                step = next((s for s in probes.ladder if s.name == name), None) if probes else None
                if step is not None:
                    dots.append(Dot(words, model, step.share))
        if dots:
            name = scope_name(row)
            svg = dot_panel(dots, MODELS, (0.0, 1.0), "share right")
            panels.append(Panel(name, svg, f"Right answers by rung, {name}. {dot_words(dots)}."))
    if not panels:
        return None
    return Figure(
        f"{_LADDER}: {comparison.pruned}",
        "Right answers over the items that have every rung, with 95 % intervals: how much help the answer needs.",
        panels,
        [Key(name, look.colour, FORMS[look.form]) for name, look in MODELS.items()],
        next((table for table in probe_tables(comparison, settings) if table.title == _LADDER), None),
    )


def recovery_figure(comparison: Comparison, settings: Settings) -> Figure | None:
    """Bars of what each probe brought back of the wrong open answers, overall; None where nothing was probed."""
    row = comparison.rows[0]
    panels = []
    few = False
    for label, probes in ((comparison.dense, row.dense_probes), (comparison.pruned, row.pruned_probes)):
        shown = _shown(probes)
        if shown:
            drawn, words = _bars(shown, settings), _words(label, shown, settings)
            panels.append(Panel(f"{label}: wrong answers brought back", drawn, words))
            few = few or any(few_failures(figures, settings) for figures in shown)
    if not panels:
        return None
    return Figure(
        f"Wrong open answers brought back: {comparison.pruned}",
        "Bar: share of wrong answers that the probe turned right. Stroke: what comes back by chance, the item's own "
        "wrong options counted as right. Mark with interval: corrected for that, (recovered - chance)/(1 - chance)."
        f"{_FEW if few else ''}",
        panels,
        [Key("recovered", "c0", "▬"), Key("by chance", "ink", "|"), Key("corrected", "c1", "●")],
        next((table for table in probe_tables(comparison, settings) if table.title == _RECOVERY), None),
    )


def _shown(probes: ProbeFigures | None) -> list[RecoveryFigures]:
    """Of samples at several k only the most."""
    if probes is None:
        return []
    return list({figures.probe.partition("@")[0]: figures for figures in probes.recovery}.values())


def _words(label: str, shown: list[RecoveryFigures], settings: Settings) -> str:
    said = (
        f"{f.probe}: {decimals(f.recovered.value)} recovered, {decimals(f.control)} by chance, corrected "
        f"{corrected_share(f, settings)}, of {f.items}"
        for f in shown
    )
    return f"Wrong open answers of {label} brought back. {'; '.join(said)}."


def _bars(shown: list[RecoveryFigures], settings: Settings) -> str:
    rows = [
        {
            "probe": f.probe if f.decided else f"{f.probe} *",
            "recovered": f.recovered.value,
            "control": f.control,
            "corrected": f.corrected.value if f.corrected else None,
            "low": ends.low if ends else None,
            "high": ends.high if ends else None,
        }
        for f in shown
        for ends in [None if few_failures(f, settings) else f.corrected]
    ]
    least = min([0.0, *(float(r["low"]) for r in rows if isinstance(r["low"], float))])
    x = {"type": "quantitative", "scale": {"domain": [max(-1.0, least), 1]}, "axis": {"title": "share", "tickCount": 5}}
    names = [row["probe"] for row in rows]
    y: dict[str, Any] = {"field": "probe", "type": "nominal", "sort": names, "title": None}
    known = {"filter": "isValid(datum.low) && isValid(datum.high)"}
    return draw(
        {
            "data": values(rows),
            "width": 190,
            "height": {"step": 22},
            "layer": [
                {
                    "mark": {"type": "bar", "height": 12, "color": colour("c0"), "opacity": 0.45},
                    "encoding": {"y": y, "x": {"field": "recovered", **x}},
                },
                {
                    "mark": {"type": "tick", "thickness": 2, "size": 16, "color": colour("ink")},
                    "encoding": {"y": y, "x": {"field": "control", **x}},
                },
                {
                    "transform": [known],
                    "mark": {"type": "rule", "strokeWidth": 2, "color": colour("c1")},
                    "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1, "color": colour("c1")},
                    "encoding": {"y": y, "x": {"field": "corrected", **x}},
                },
            ],
        }
    )
