"""What the page draws, each figure from the report's structure alone."""

from lm_eval_illusion.report.page.figures.curves import curve_figure
from lm_eval_illusion.report.page.figures.flow import QUADRANT_WORDS, flow_figure
from lm_eval_illusion.report.page.figures.gap import gap_figure
from lm_eval_illusion.report.page.figures.layers import layer_figure
from lm_eval_illusion.report.page.figures.model import Figure, Key, Panel
from lm_eval_illusion.report.page.figures.probes import ladder_figure, recovery_figure
from lm_eval_illusion.report.page.figures.ranks import rank_figure

__all__ = [
    "QUADRANT_WORDS",
    "Figure",
    "Key",
    "Panel",
    "curve_figure",
    "flow_figure",
    "gap_figure",
    "ladder_figure",
    "layer_figure",
    "rank_figure",
    "recovery_figure",
]
