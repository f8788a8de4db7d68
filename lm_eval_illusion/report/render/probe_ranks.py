"""Tables of ranks: the gold's first token, the token where it parts from the answer, and the gold among spans."""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval_illusion.report.numbers import DASH, decimals, interval, percent
from lm_eval_illusion.report.probe_measures import RankFigures
from lm_eval_illusion.report.render.grid import Table, by_scope
from lm_eval_illusion.report.render.probe_choices import marked
from lm_eval_illusion.report.schema import Comparison, Row

__all__ = ["rank_tables"]

GROUPS = {
    "all": "all probed",
    "turned_near": "turned rec.-only, near",
    "turned_far": "turned rec.-only, far",
    "failures": "failures of the pruned model",
}
WITHIN = ("1", "4", "10", "100")
_QUANTILES = "Quantiles 0.1 / 0.25 / 0.5 / 0.75 / 0.9."


def rank_tables(comparison: Comparison) -> list[Table]:
    """First-token ranks, the same in brief, parting ranks, teacher forcing, spans."""
    return [_brief(comparison), _first(comparison), _parting(comparison), _forced(comparison), _spans(comparison)]


def _brief(comparison: Comparison) -> Table:
    """The items that turned recognition-only alone, for the terminal."""
    rows = []
    for row in comparison.rows[:1]:
        for figures in row.probe_contrast.ranks if row.probe_contrast else []:
            if figures.group.startswith("turned") and figures.items:
                cells = [GROUPS[figures.group], str(figures.items), _median(figures.dense_first)]
                cells += [_median(figures.pruned_first), *(_share(figures.pruned_within, rank) for rank in ("4", "10"))]
                rows.append([*cells, _count(figures.slid), _count(figures.rose)])
    columns = ["group", "n", "dense median", "pruned median", "within 4", "within 10", "slid", "rose"]
    title = "First-token rank of the gold in items that turned recognition-only"
    return Table(title, columns, rows, spare=((4,), (7,), (5,)), pages=False)


def _first(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        for figures in row.probe_contrast.ranks if row.probe_contrast else []:
            if not figures.items:
                continue
            quantiles = [_quantiles(figures.dense_first), _quantiles(figures.pruned_first)]
            logs = [decimals(figures.dense_first_logprob), decimals(figures.pruned_first_logprob)]
            within = [_all_within(figures.dense_within), _all_within(figures.pruned_within)]
            counts = [_count(figures.slid), _count(figures.rose)]
            rows.append((row, [GROUPS[figures.group], _n(row, figures.items), *quantiles, *within, *logs, *counts]))
    note = (
        f"{_QUANTILES} Within: share of items with the first token at rank 1 / 4 / 10 / 100 at most. Slid, rose: items "
        "whose rank became worse, better. Rank 1 is what the model would write. log p: median, nats."
    )
    columns = ["group", "n", "dense", "pruned", "dense within", "pruned within"]
    columns += ["dense log p", "pruned log p", "slid", "rose"]
    title = "Rank of the gold's first token, dense against pruned"
    return by_scope(title, columns, rows, note, brief=False)


def _parting(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        for figures in row.probe_contrast.ranks if row.probe_contrast else []:
            if figures.dense_parted is None and figures.pruned_parted is None:
                continue
            cells = [*_parted(figures, "dense"), *_parted(figures, "pruned")]
            rows.append((row, [GROUPS[figures.group], *cells]))
    columns = ["group", "n dense", "dense", "dense log p", "n pruned", "pruned", "pruned log p"]
    note = f"{_QUANTILES} n: items whose gold parts from the greedy answer at all. log p: median there, nats."
    title = "Rank of the gold's token where it parts from the greedy answer"
    return by_scope(title, columns, rows, note, brief=False)


def _parted(figures: RankFigures, side: str) -> list[str]:
    logprob = decimals(getattr(figures, f"{side}_parting_logprob"))
    return [_count(getattr(figures, f"{side}_parted")), _quantiles(getattr(figures, f"{side}_parting")), logprob]


def _n(row: Row, items: int) -> str:
    """The number of items with ranks, marked where either model was asked on chosen ones."""
    count = marked(str(items), ["rank"], row.dense_probes)
    return count if count != str(items) else marked(count, ["rank"], row.pruned_probes)


def _forced(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        for label, probes in ((comparison.dense, row.dense_probes), (comparison.pruned, row.pruned_probes)):
            if probes is None or probes.forced is None:
                continue
            forced = probes.forced
            counts = [str(count) for count in (forced.never, forced.at_first, forced.later)]
            cells = [label, marked(str(forced.items), ["rank"], probes), *counts, interval(forced.agreement)]
            margins = [decimals(value, sign=True) for value in (forced.margin_median, forced.answer_margin_median)]
            rows.append((row, [*cells, *margins]))
    note = (
        "Fed the gold token by token: where its own choice first differs; the mean share of gold tokens it would "
        "write. Margins: median of log p(gold) − log p(its own choice) in nats, of the token where they part and of "
        "the whole answers."
    )
    columns = ["model", "items", "never", "at the first token", "later", "agreement", "token margin", "answer margin"]
    return by_scope("Where the model leaves the gold", columns, rows, note, brief=False)


def _spans(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        for label, probes in ((comparison.dense, row.dense_probes), (comparison.pruned, row.pruned_probes)):
            if probes is None or probes.span_rank is None:
                continue
            spans = probes.span_rank
            cells = [decimals(spans.median_rank, 1), interval(spans.first), percent(spans.median_above)]
            rows.append((row, [label, marked(str(spans.items), ["rank_spans"], probes), *cells]))
    columns = ["model", "items", "median rank", "likeliest of all", "median share above"]
    title = "The gold among all spans of its passage with as many words"
    return by_scope(title, columns, rows, brief=False)


def _quantiles(values: Sequence[float] | None) -> str:
    return DASH if values is None else " / ".join(f"{value:g}" for value in values)


def _median(values: Sequence[float] | None) -> str:
    return decimals(values[2] if values else None, 1)


def _share(within: dict[str, float] | None, rank: str) -> str:
    return decimals(within[rank] if within else None)


def _all_within(within: dict[str, float] | None) -> str:
    return DASH if within is None else " / ".join(decimals(within[rank]) for rank in WITHIN)


def _count(value: int | None) -> str:
    return DASH if value is None else str(value)
