"""Statistics of paired, clustered yes-or-no answers. Nothing here is random: every number follows from the items."""

from lm_eval_illusion.report.stats.equivalence import Equivalence, judge_equivalence
from lm_eval_illusion.report.stats.intervals import Clusters, Interval, Scale, mean_interval
from lm_eval_illusion.report.stats.paired import detectable_difference, holm, mcnemar, sign_flip

__all__ = [
    "Clusters",
    "Equivalence",
    "Interval",
    "Scale",
    "detectable_difference",
    "holm",
    "judge_equivalence",
    "mcnemar",
    "mean_interval",
    "sign_flip",
]
