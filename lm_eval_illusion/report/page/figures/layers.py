"""What pruning reached, block by block and matrix by matrix."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.report.numbers import DASH, decimals
from lm_eval_illusion.report.page.figures.model import Figure, Key, Panel
from lm_eval_illusion.report.page.vega import colour, draw, values
from lm_eval_illusion.report.render.grid import Table
from lm_eval_illusion.report.schema import LayerSparsity, RunSummary

__all__ = ["layer_figure"]

_LEAST, _STEP, _MOST = 130, 13, 640


def layer_figure(runs: Sequence[RunSummary]) -> Figure | None:
    """A map of blocks and matrices for every pruned run whose receipt lists them."""
    told = [(run.label, run.pruning.layers) for run in runs if run.pruning is not None and run.pruning.layers]
    if not told:
        return None
    panels = [Panel(label, _draw(layers), _words(label, layers)) for label, layers in told]
    rows = [
        [label, DASH if layer.block is None else str(layer.block), layer.part, str(layer.weights), decimals(share, 4)]
        for label, layers in told
        for layer in layers
        for share in [layer.zeros / layer.weights]
    ]
    return Figure(
        "Sparsity, block by block",
        "Share of exact zeros in each pruned matrix, counted after pruning.",
        panels,
        [Key("none", "soft", "□"), Key("half", "heat-half", "■"), Key("all", "heat", "■")],
        Table("Sparsity by block and matrix", ["run", "block", "matrix", "weights", "zeros"], rows),
        wide=any(len({layer.block for layer in layers}) > 18 for _, layers in told),
    )


def _words(label: str, layers: Sequence[LayerSparsity]) -> str:
    shares = [layer.zeros / layer.weights for layer in layers]
    blocks = len({layer.block for layer in layers})
    return (
        f"{label}: share of zeros in {len(layers)} matrices of {blocks} blocks, from {min(shares):.3f} to "
        f"{max(shares):.3f}."
    )


def _draw(layers: Sequence[LayerSparsity]) -> str:
    parts = list(dict.fromkeys(layer.part for layer in layers))
    blocks = sorted({-1 if layer.block is None else layer.block for layer in layers})
    rows = [
        {
            "block": -1 if layer.block is None else layer.block,
            "part": layer.part,
            "share": layer.zeros / layer.weights,
        }
        for layer in layers
    ]
    spread = {"labelOverlap": "greedy", "labelSeparation": 5, "labelAngle": 0}
    shown = {"labelExpr": "datum.value < 0 ? '–' : datum.label", **spread}
    return draw(
        {
            "data": values(rows),
            "width": min(_MOST, max(_LEAST, _STEP * len(blocks))),
            "height": {"step": 18},
            "mark": {"type": "rect", "color": colour("heat"), "stroke": colour("grid"), "strokeWidth": 1},
            "encoding": {
                "x": {"field": "block", "type": "ordinal", "sort": blocks, "title": "block", "axis": shown},
                "y": {"field": "part", "type": "nominal", "sort": parts, "title": None},
                "fillOpacity": {
                    "field": "share",
                    "type": "quantitative",
                    "legend": None,
                    "scale": {"domain": [0, 1], "range": [0, 1]},
                },
            },
        }
    )
