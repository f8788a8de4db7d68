"""Everything the probes show on one row: of each model, and of one against the other."""

from __future__ import annotations

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.discordance import discordances
from lm_eval_illusion.report.halves import SeveralHalf
from lm_eval_illusion.report.ladder import further_accuracies, graded_points, ladder
from lm_eval_illusion.report.option_shift import option_shifts
from lm_eval_illusion.report.probe_measures import ProbeContrast, ProbeFigures
from lm_eval_illusion.report.ranks import forced_figures, rank_figures, span_figures
from lm_eval_illusion.report.recovery import recovery_figures
from lm_eval_illusion.report.revisions import revision_figures
from lm_eval_illusion.report.verdicts import count_moves, count_verdicts, recoveries

__all__ = ["probe_contrast", "probe_figures"]


def probe_figures(asked: Asked) -> ProbeFigures | None:
    """All probes of one model on these items; None where it has none."""
    there = asked.probes()
    if not there:
        return None
    produced = asked.produced()
    failed = [i for i, right in enumerate(produced or []) if not right]
    accuracies, chances = further_accuracies(asked)
    return ProbeFigures(
        failures=None if produced is None else len(failed),
        probed=sum(bool(recoveries(asked.halves[i].probes)) for i in failed),
        partly=[name for name in CONDITIONS if name in there and not asked.asked_of_all(name)],
        sampling=_sampling(asked),
        verdicts=count_verdicts(asked),
        recovery=recovery_figures(asked),
        ladder=ladder(asked),
        forced=forced_figures(asked),
        span_rank=span_figures(asked),
        graded=graded_points(asked),
        revisions=revision_figures(asked),
        accuracies=accuracies,
        chances=chances,
    )


def _sampling(asked: Asked) -> str | None:
    """How samples were drawn; several ways where data sets or languages differ in it."""
    ways = {
        f"{half.draws} draws at temperature {half.temperature:g}, top-p {half.top_p:g}, seed {half.seed}"
        for half in asked.having("sample", SeveralHalf).values()
        if half.temperature is not None and half.top_p is not None
    }
    return "; ".join(sorted(ways)) or None


def probe_contrast(dense: Asked, pruned: Asked) -> ProbeContrast:
    """Pruned against dense on these items; the shift of options needs no probe."""
    return ProbeContrast(
        verdicts=count_moves(dense, pruned),
        ranks=rank_figures(dense, pruned),
        discordance=discordances(dense, pruned),
        options=option_shifts(dense, pruned),
    )
