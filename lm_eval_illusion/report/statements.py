"""The paper's statements about one pruned model, each answered yes, no or undecided by a rule fixed in advance.

Yes: the interval lies above zero. No: it ends below the margin, so that at most a negligible effect is left. Undecided:
anything else, and whatever rests on fewer items or passages than a verdict takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.report.conclusion_figures import Answer, Statement
from lm_eval_illusion.report.measures import DistanceFigures, Estimate
from lm_eval_illusion.report.numbers import decimals, interval, probability
from lm_eval_illusion.report.probe_measures import ProbeFigures, RankFigures, RecoveryFigures
from lm_eval_illusion.report.schema import Row, Settings
from lm_eval_illusion.report.stats import mcnemar

__all__ = [
    "FEW_RANKS",
    "SIGNIFICANT",
    "TOO_FEW",
    "brought_back",
    "corrected_over",
    "corrected_share",
    "few_failures",
    "find_recovery",
    "judge",
    "statements",
    "too_few",
]

FEW_RANKS = "10"
"""A slide of "a few ranks" leaves most gold tokens within so many; a key of `RankFigures.pruned_within`."""
SIGNIFICANT = 0.05
TOO_FEW = "too few"
"""In the place of an interval that a sample below the least size would stretch over all there is."""
MEDIAN = 2
"""Its place among the five quantiles."""

_PROBES = {
    "beam": ("beam search brings answers back", ("beam8", "beam4")),
    "sample": ("sampling brings answers back", ("sample pass@",)),
    "oneshot": ("one more example brings answers back", ("oneshot",)),
}
"""Statement -> its words, and the probes that judge it, the first found; `pass@`: the most draws."""


def judge(estimate: Estimate | None, settings: Settings) -> tuple[Answer, str]:
    """Answer whether a mean is above zero, and say why where the answer is not yes."""
    if estimate is None or estimate.value is None:
        return "undecided", "not measured"
    lacking = too_few(estimate.items, settings, estimate.clusters)
    if lacking:
        return "undecided", lacking
    if estimate.low is None or estimate.high is None:
        return "undecided", "no interval can be given"
    if estimate.low > 0:
        return "yes", ""
    if estimate.high < settings.margin:
        return "no", f"the interval ends at {decimals(estimate.high, sign=True)}, below {settings.margin:.2f}"
    return "undecided", "the interval covers zero"


def too_few(items: int, settings: Settings, clusters: int | None = None) -> str:
    """Words where a sample is below the least size, else nothing."""
    if items < settings.min_items:
        return f"{items} item{'' if items == 1 else 's'}, a verdict takes {settings.min_items}"
    if clusters is not None and clusters < settings.min_clusters:
        return f"{clusters} passage{'' if clusters == 1 else 's'}, a verdict takes {settings.min_clusters}"
    return ""


def statements(row: Row, settings: Settings) -> list[Statement]:
    """Judge all statements about one comparison.

    Args:
        row: The overall row.
        settings: Least sizes and the margin.
    """
    near, far = (row.pruned.near, row.pruned.far) if row.pruned else (None, None)
    before = (row.dense.near, row.dense.far) if row.dense else (None, None)
    ranks = row.probe_contrast.ranks if row.probe_contrast else []
    return [
        _recognition("near", near, before[0], settings),
        _recognition("far", far, before[1], settings),
        _slide("near", ranks, settings),
        _slide("far", ranks, settings),
        *(_brings_back(key, row.pruned_probes, settings) for key in _PROBES),
    ]


def _recognition(
    distance: str, figures: DistanceFigures | None, dense: DistanceFigures | None, settings: Settings
) -> Statement:
    claim = f"recognition without an answer exists against {distance} options"
    key = f"recognition_{distance}"
    if figures is None or figures.counts is None:
        return _unmeasured(key, claim, "not measured")
    only, neither = figures.counts["recognition_only"], figures.counts["neither"]
    answer, reason = judge(figures.recognised_failures_corrected, settings)
    before = "" if dense is None or dense.counts is None else f"; {dense.counts['recognition_only']} in the dense model"
    numbers = (
        f"{only} of {only + neither} failures recognised, {interval(figures.recognised_failures_corrected, sign=True)} "
        f"after correction for guessing{before}"
    )
    return Statement(key=key, claim=claim, answer=answer, numbers=numbers, reason=reason)


def _slide(distance: str, ranks: Sequence[RankFigures], settings: Settings) -> Statement:
    """A sign test says whether it slides, a second one whether most tokens stay within a few ranks."""
    key = f"slide_{distance}"
    claim = f"the gold's first token slides a few ranks in items that turned recognition-only, {distance} options"
    found = next((figures for figures in ranks if figures.group == f"turned_{distance}"), None)
    if found is None or found.slid is None or found.rose is None or found.pruned_within is None:
        return _unmeasured(key, claim, "no ranks in both runs")
    inside = round(found.pruned_within[FEW_RANKS] * found.items)
    p = mcnemar(found.rose, found.slid)
    numbers = (
        f"{found.slid} of {found.items} slid and {found.rose} rose (sign test p {probability(p)}); median rank "
        f"{_median(found.dense_first)} → {_median(found.pruned_first)}, {inside} within {FEW_RANKS}"
    )
    answer, reason = _judge_slide(found, p, inside, settings)
    return Statement(key=key, claim=claim, answer=answer, numbers=numbers, reason=reason)


def _judge_slide(figures: RankFigures, p: float, inside: int, settings: Settings) -> tuple[Answer, str]:
    slid, rose, items = figures.slid or 0, figures.rose or 0, figures.items
    lacking = too_few(items, settings, figures.clusters)
    if lacking:
        return "undecided", lacking
    if p >= SIGNIFICANT:
        return "undecided", "slides and rises are not told apart"
    if rose > slid:
        return "no", "it rises"
    if mcnemar(items - inside, inside) >= SIGNIFICANT:
        return "undecided", f"it slides, but whether most stay within rank {FEW_RANKS} is not told"
    if 2 * inside < items:
        return "no", f"it slides further: most are beyond rank {FEW_RANKS}"
    return "yes", ""


def _median(quantiles: list[float] | None) -> str:
    return decimals(quantiles[MEDIAN] if quantiles else None, 1)


def _brings_back(key: str, probes: ProbeFigures | None, settings: Settings) -> Statement:
    claim, names = _PROBES[key]
    found = find_recovery(probes, *names)
    if found is None:
        return _unmeasured(key, claim, "the probe was not run")
    answer, reason = judge(found.corrected, settings)
    return Statement(key=key, claim=claim, answer=answer, numbers=brought_back(found, settings), reason=reason)


def find_recovery(probes: ProbeFigures | None, *names: str) -> RecoveryFigures | None:
    """The first of these probes that was run; a name that ends in `@` finds the one with the most draws."""
    table = {figures.probe: figures for figures in probes.recovery} if probes else {}
    for name in names:
        found = [probe for probe in table if probe == name or (name.endswith("@") and probe.startswith(name))]
        if found:
            return table[max(found, key=lambda probe: int(probe.partition("@")[2] or 0))]
    return None


def brought_back(figures: RecoveryFigures, settings: Settings) -> str:
    """`beam8 11 of 42 failures, corrected +0.21 [+0.09, +0.33] (9 of 30 with a wrong option in the prompt)`."""
    corrected, over = corrected_share(figures, settings), corrected_over(figures)
    told = f" ({over} with a wrong option in the prompt)" if over else ""
    return f"{figures.probe} {figures.hits:g} of {figures.items} failures, corrected {corrected}{told}"


def corrected_over(figures: RecoveryFigures) -> str:
    """`9 of 30`: hits and failures that the corrected share is over; nothing where it is over all of them."""
    found, hits = figures.corrected, figures.corrected_hits
    if found is None or hits is None or found.items == figures.items:
        return ""
    return f"{hits:g} of {found.items}" if hits == int(hits) else f"{hits:.1f} of {found.items}"


def corrected_share(figures: RecoveryFigures, settings: Settings) -> str:
    """`+0.21 [+0.09, +0.33]`; `−0.20 [too few]` where no verdict may rest on the sample."""
    found = figures.corrected
    if found is None or found.value is None or not few_failures(figures, settings):
        return interval(found, sign=True)
    return f"{decimals(found.value, sign=True)} [{TOO_FEW}]"


def few_failures(figures: RecoveryFigures, settings: Settings) -> bool:
    """Whether the failures, or those of them that the correction is over, are below the least size of a verdict."""
    found = figures.corrected
    return not figures.decided or (found is not None and bool(too_few(found.items, settings, found.clusters)))


def _unmeasured(key: str, claim: str, reason: str) -> Statement:
    return Statement(key=key, claim=claim, answer="undecided", numbers="", reason=reason)
