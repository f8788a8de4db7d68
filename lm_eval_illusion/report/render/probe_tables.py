"""Tables of the recovery probes, the most important first; overall rows come before those of languages."""

from __future__ import annotations

from collections.abc import Iterator

from lm_eval_illusion.report.conclusion import FORM
from lm_eval_illusion.report.numbers import DASH, decimals, interval, probability
from lm_eval_illusion.report.probe_measures import VERDICTS, ProbeFigures, RecoveryFigures
from lm_eval_illusion.report.render.grid import Gloss, Table, by_scope
from lm_eval_illusion.report.render.probe_choices import MOVED, choice_tables, marked, side_by_side
from lm_eval_illusion.report.render.probe_ranks import rank_tables
from lm_eval_illusion.report.schema import Comparison, Row, Settings
from lm_eval_illusion.report.statements import TOO_FEW, corrected_over, corrected_share

__all__ = ["probe_tables"]

RUNGS = {
    "gen": "open answer",
    "shown": "candidates shown",
    "shown_nogold": "shown without the gold",
    "mc": "likelihood, near",
    "mc_far": "likelihood, far",
    "mc_letters": "letters",
}
"""Steps of the ladder in words."""
_NAMES = [name.replace("_", " ") for name in VERDICTS]


def probe_tables(comparison: Comparison, settings: Settings) -> list[Table]:
    """All tables of one comparison that have rows; none where nothing was probed.

    Args:
        comparison: Two models.
        settings: Least sizes, below which a recovery has no interval.
    """
    tables = [
        _verdicts(comparison),
        _recovery(comparison, settings),
        _recovery_in_brief(comparison, settings),
        _ladder(comparison),
        _forms(comparison),
        _moves(comparison),
        *rank_tables(comparison),
        *choice_tables(comparison),
    ]
    return [table for table in tables if table.rows]


def _probed(comparison: Comparison) -> Iterator[tuple[Row, str, ProbeFigures]]:
    """Every row with each of its models that has probes."""
    for row in comparison.rows:
        for label, probes in ((comparison.dense, row.dense_probes), (comparison.pruned, row.pruned_probes)):
            if probes is not None:
                yield row, label, probes


def _verdicts(comparison: Comparison) -> Table:
    rows = []
    for row, label, probes in _probed(comparison):
        table = probes.verdicts
        if table is None:
            continue
        by = ", ".join(f"{probe} {count}" for probe, count in table.demoted_by.items() if count) or DASH
        counts = [str(table.counts[name]) for name in VERDICTS]
        rows.append((row, [label, str(table.items), *counts, str(table.demoted_by_shown_alone), by]))
    note = "Demoted: some probe recovers the item, at the item's own control below one half."
    shown = "Only shown: nothing but the display of the candidates recovers it, as it does for a guesser."
    glosses = (Gloss("Demoted by: one item may count for several probes.", (9,)), Gloss(shown, (8,)))
    columns = ["model", "items", *_NAMES, "only shown", "demoted by"]
    return by_scope("What became of the items", columns, rows, note, spare=((9,), (8,), (2,)), glosses=glosses)


def _recovery(comparison: Comparison, settings: Settings) -> Table:
    rows = []
    for row, label, probes in _probed(comparison):
        for figures in probes.recovery:
            cells = [label, marked(figures.probe, figures.probe.split()[:1], probes)]
            cells += [f"{figures.items}{'' if figures.decided else ' *'}", _count(figures.hits)]
            cells += [interval(figures.recovered), corrected_over(figures) or "all", decimals(figures.control)]
            cells += [corrected_share(figures, settings)]
            cells += [interval(figures.first), _count(figures.gained), _count(figures.lost), probability(figures.p)]
            rows.append((row, cells))
    note = (
        "Over the items whose open answer was wrong. Control and corrected: over those of them whose prompt holds a "
        "wrong option, since nobody copies what is not there (hits of so many items in the column before). Control: "
        "these options counted as targets. Corrected: (recovered there − control)/(1 − control). p: exact McNemar on "
        "gained and lost."
    )
    drawn = dict.fromkeys(probes.sampling for _, _, probes in _probed(comparison) if probes.sampling)
    note += f" Samples: {'; '.join(drawn)}." if drawn else ""
    columns = ["model", "probe", "failures", "hits", "recovered", "with options in prompt", "control", "corrected"]
    columns += ["first output", "gained", "lost", "p"]
    few = (_few(settings, (8,)),)
    return by_scope("Recovery of wrong open answers", columns, rows, note, brief=False, glosses=few)


def _few(settings: Settings, columns: tuple[int, ...]) -> Gloss:
    least = f"{settings.min_items} failures or {settings.min_clusters} passages"
    return Gloss(f"[{TOO_FEW}]: below {least} no verdict is given, and no interval.", columns, TOO_FEW)


def _recovery_in_brief(comparison: Comparison, settings: Settings) -> Table:
    """Corrected shares alone, overall, for the terminal; of pass@k the greatest k."""
    sides = [
        {figures.probe: figures for figures in probes.recovery} if probes else {}
        for probes in (comparison.rows[0].pruned_probes, comparison.rows[0].dense_probes)
    ]
    rows = []
    named = dict.fromkeys([*sides[0], *sides[1]])
    last = {probe.partition("@")[0]: probe for probe in named}
    for probe in last.values():
        found = [side.get(probe) for side in sides]
        cells = [(_over(f), corrected_share(f, settings)) if f else (DASH, DASH) for f in found]
        rows.append([probe, *cells[0], *cells[1]])
    columns = ["probe", "hits of failures", "pruned", "of dense", "dense"]
    title = "Wrong open answers brought back, corrected for guessing"
    return Table(title, columns, rows, spare=((3,),), pages=False, glosses=(_few(settings, (2, 4)),))


def _over(figures: RecoveryFigures) -> str:
    """Hits and items of the corrected share, which may be over fewer than all failures."""
    return corrected_over(figures) or f"{_count(figures.hits)} of {figures.items}"


def _ladder(comparison: Comparison) -> Table:
    rows = side_by_side(
        comparison,
        RUNGS,
        lambda probes: {step.name: step.share for step in probes.ladder},
        lambda _: tuple(RUNGS),
        "ladder",
    )
    note = "Right answers over the items that have every rung of the model's ladder. Lost, won: over those of both."
    columns = ["rung", "n dense", "n pruned", "dense", "pruned", *MOVED]
    title = "From open answer to displayed candidates to likelihood"
    return by_scope(title, columns, rows, note, brief=False)


def _forms(comparison: Comparison) -> Table:
    rows = []
    for row, label, probes in _probed(comparison):
        table = probes.verdicts
        for verdict in VERDICTS[1:] if table else ():
            flags = table.failures.get(verdict, {}) if table else {}
            if table and table.counts[verdict]:
                counts = [str(table.counts[verdict]), *(_count(flags.get(flag)) for flag in FORM)]
                rows.append((row, [label, verdict.replace("_", " "), *counts]))
    note = "Items whose open answer is wrong, by the form of that answer: a loss of form is not lost knowledge."
    columns = ["model", "verdict", "items", *(flag.replace("_", " ") for flag in FORM)]
    return by_scope("Form of the wrong answers", columns, rows, note, brief=False)


def _moves(comparison: Comparison) -> Table:
    rows = []
    for row in comparison.rows:
        table = row.probe_contrast.verdicts if row.probe_contrast else None
        for before in VERDICTS if table else ():
            counts = table.get(before, {}) if table else {}
            rows.append((row, [before.replace("_", " "), *(str(counts.get(name, 0)) for name in VERDICTS)]))
    title = "Verdicts, dense to pruned (rows: dense, columns: pruned)"
    return by_scope(title, ["dense", *_NAMES], rows, brief=False)


def _count(value: float | None) -> str:
    """A count, or an expected one with a decimal."""
    return DASH if value is None else f"{value:g}" if value == int(value) else decimals(value, 1)
