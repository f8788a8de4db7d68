"""How far the gold's first token slid from dense to pruned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval_illusion.report.page.figures.dots import FORMS
from lm_eval_illusion.report.page.figures.model import Figure, Key, Panel
from lm_eval_illusion.report.page.figures.probes import MODELS
from lm_eval_illusion.report.page.vega import colour, draw, values
from lm_eval_illusion.report.render.grid import DISTANCES, Table, contrast_at
from lm_eval_illusion.report.render.probe_ranks import GROUPS
from lm_eval_illusion.report.schema import Comparison

__all__ = ["rank_figure"]


@dataclass(frozen=True)
class _Spread:
    """Ranks of one group under one model."""

    group: str
    model: str
    items: int
    quantiles: Sequence[float]
    """0.1, 0.25, 0.5, 0.75, 0.9; the median alone where no more is known."""

    @property
    def median(self) -> float:
        return self.quantiles[len(self.quantiles) // 2]

    def words(self) -> str:
        return " / ".join(f"{value:g}" for value in self.quantiles)


def rank_figure(comparison: Comparison) -> Figure | None:
    """Ranks overall: quantiles where the rank probe ran, else the medians of recognition-only items."""
    spreads = _probed(comparison) or _medians(comparison)
    if not spreads:
        return None
    rows = [[s.group, s.model, str(s.items), s.words()] for s in spreads]
    said = "; ".join(f"{s.group}, {s.model}: {s.words()}" for s in spreads)
    whole = any(len(s.quantiles) > 1 for s in spreads)
    held = "quantiles 0.1 / 0.25 / 0.5 / 0.75 / 0.9" if whole else "median"
    return Figure(
        f"Rank of the right answer's first token: {comparison.pruned}",
        "Rank 1 is what the model would write. A few ranks: demoted; hundreds: gone. "
        + ("Mark: median; thick: middle half; thin: middle four fifths." if whole else "Medians."),
        [Panel("overall", _draw(spreads), f"Rank of the gold's first token, {held}. {said}.")],
        [Key(name, look.colour, FORMS[look.form]) for name, look in MODELS.items()],
        Table("Rank of the first token", ["items", "model", "n", f"rank: {held}"], rows),
    )


def _probed(comparison: Comparison) -> list[_Spread]:
    contrast = comparison.rows[0].probe_contrast
    return [
        _Spread(GROUPS[figures.group], model, figures.items, quantiles)
        for figures in (contrast.ranks if contrast else [])
        for model, quantiles in (("dense", figures.dense_first), ("pruned", figures.pruned_first))
        if quantiles
    ]


def _medians(comparison: Comparison) -> list[_Spread]:
    spreads = []
    for distance in DISTANCES:
        change = contrast_at(comparison.rows[0].contrast, distance)
        if change is None or change.rank is None:
            continue
        group = f"pruned rec.-only, {distance}"
        for model, median in (("dense", change.rank.dense_median), ("pruned", change.rank.pruned_median)):
            if median is not None:
                spreads.append(_Spread(group, model, change.rank.items, [median]))
    return spreads


def _draw(spreads: list[_Spread]) -> str:
    names = list(dict.fromkeys(s.group for s in spreads))
    rows: list[dict[str, Any]] = []
    for s in spreads:
        q = s.quantiles if len(s.quantiles) == 5 else [s.median] * 5
        edges = {"low": q[0], "lower": q[1], "median": q[2], "upper": q[3], "high": q[4]}
        rows.append({"group": s.group, "model": s.model, **edges})
    most = max(row["high"] for row in rows)
    x = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [1, max(10.0, most)], "nice": False},
        "axis": {"title": "rank, logarithmic", "format": ",d", "tickCount": 5},
    }
    models = list(MODELS)
    tint = {
        "field": "model",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": models, "range": [colour(MODELS[name].colour) for name in models]},
    }
    shape = {**tint, "scale": {"domain": models, "range": [MODELS[name].form for name in models]}}
    where = {
        "y": {"field": "group", "type": "nominal", "sort": names, "title": None},
        "yOffset": {"field": "model", "scale": {"domain": models}},
        "color": tint,
    }
    layers = [
        {
            "mark": {"type": "rule", "strokeWidth": width},
            "encoding": {**where, "x": {"field": low, **x}, "x2": {"field": high}},
        }
        for low, high, width in (("low", "high", 1), ("lower", "upper", 4))
    ]
    mark = {"type": "point", "filled": True, "size": 70, "opacity": 1, "stroke": colour("ground"), "strokeWidth": 1}
    layers.append({"mark": mark, "encoding": {**where, "x": {"field": "median", **x}, "shape": shape}})
    return draw({"data": values(rows), "width": 150, "height": {"step": 16}, "layer": layers})
