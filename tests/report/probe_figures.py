"""Hand-made figures of probes, and a report that holds them."""

from synthetic import pattern, receipt, write_run

from lm_eval_illusion.report.build import DEFAULTS, Report, build_report
from lm_eval_illusion.report.conclusion import conclude_all
from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.probe_measures import (
    VERDICTS,
    Discordance,
    ForcedFigures,
    GradedPoint,
    LadderStep,
    ProbeContrast,
    ProbeFigures,
    RankFigures,
    RecoveryFigures,
    RevisionFigures,
    SpanFigures,
    VerdictCounts,
)


def mean(value, low=None, high=None, items=40, clusters=40):
    return Estimate(value=value, low=low, high=high, items=items, clusters=clusters)


def recovery(probe, corrected, hits=10, items=40, **fields):
    recovered = mean(hits / items, 0.1, 0.4, items)
    return RecoveryFigures(
        **{
            "probe": probe,
            "items": items,
            "decided": items >= 30,
            "hits": hits,
            "control": 0.05,
            "recovered": recovered,
            "corrected": corrected,
            "corrected_hits": None if corrected is None else hits,
            "first": None,
            "gained": hits,
            "lost": 1,
            "p": 0.012,
            **fields,
        }
    )


def ranks(group="turned_near", items=40, slid=30, rose=2, within=0.9, **fields):
    return RankFigures(
        **{
            "group": group,
            "items": items,
            "dense_first": [1, 1, 1, 1.5, 2],
            "pruned_first": [1, 2, 3.5, 6, 12],
            "dense_parting": [2, 2, 3, 4, 5],
            "pruned_parting": None,
            "dense_parted": 7,
            "pruned_parted": 0,
            "dense_within": {"1": 0.7, "4": 1, "10": 1, "100": 1},
            "pruned_within": {"1": 0.1, "4": 0.6, "10": within, "100": 1},
            "slid": slid,
            "rose": rose,
            "clusters": items,
            "dense_first_logprob": -0.4,
            "pruned_first_logprob": -2.75,
            "dense_parting_logprob": -1.5,
            "pruned_parting_logprob": None,
            **fields,
        }
    )


def verdicts(**counts):
    table = {**dict.fromkeys(VERDICTS, 0), "produced": 18, "demoted": 11, "recognised_only": 9, "lost": 20, **counts}
    return VerdictCounts(
        items=sum(table.values()),
        counts=table,
        demoted_by={"beam8": 5, "sample": 7, "shown": 4, "oneshot": 0},
        demoted_by_shown_alone=2,
        failures={
            "demoted": {"repeated": 1, "empty": 0, "cut": 0, "unclosed_thought": 0, "gold_inside": 4},
            "recognised_only": {"repeated": 3, "empty": 0, "cut": 1, "unclosed_thought": 0, "gold_inside": 2},
            "lost": {"repeated": 5, "empty": 2, "cut": 0, "unclosed_thought": 0, "gold_inside": 0},
        },
    )


def graded(*shares):
    names = ("paragraph", "article", "language", "random")
    return [
        GradedPoint(distance=name, items=40, preferred=mean(share, share - 0.1, min(1.0, share + 0.1)))
        for name, share in zip(names, shares, strict=False)
    ]


def probes(**fields):
    return ProbeFigures(
        **{
            "failures": 42,
            "probed": 42,
            "partly": [],
            "sampling": "8 draws at temperature 0.8, top-p 0.95, seed 0",
            "verdicts": verdicts(unprobed=2),
            "recovery": [
                recovery("beam4", mean(0.15, 0.02, 0.28), 8),
                recovery("beam8", mean(0.21, 0.09, 0.33), 11, first=mean(0.1, 0.03, 0.2)),
                recovery("sample pass@2", mean(0.1, -0.02, 0.2), 6.5, gained=None, lost=None, p=None),
                recovery("sample pass@8", mean(0.25, 0.12, 0.38), 12),
                recovery("oneshot", mean(0.3, 0.15, 0.45), 14),
                recovery("shown", mean(0.4, 0.2, 0.6), 20),
                recovery("shown_nogold", mean(0.01, -0.05, 0.07), 1),
            ],
            "ladder": [
                LadderStep(name="gen", share=mean(0.3, 0.2, 0.4)),
                LadderStep(name="shown", share=mean(0.6, 0.4, 0.7)),
                LadderStep(name="mc", share=mean(0.7, 0.5, 0.8)),
            ],
            "forced": ForcedFigures(
                items=40,
                never=6,
                at_first=25,
                later=9,
                agreement=mean(0.5, 0.4, 0.6),
                margin_median=-2.5,
                answer_margin_median=-4.25,
            ),
            "span_rank": SpanFigures(items=40, median_rank=3.5, first=mean(0.25, 0.15, 0.4), median_above=0.07),
            "graded": graded(0.6, 0.7, 0.8, 0.99),
            "revisions": [
                RevisionFigures(round=1, format="gen", items=40, right_before=12, mended=3, spoilt=1, kept=30, p=0.625),
                RevisionFigures(round=2, format="mc", items=40, right_before=0, mended=4, spoilt=0, kept=36, p=None),
            ],
            "accuracies": {"mc_letters": mean(0.4, 0.3, 0.5), "choices_only_far": mean(0.27, 0.2, 0.4)},
            "chances": {"mc_letters": 0.25, "choices_only_far": 0.25},
            **fields,
        }
    )


def moves(**produced):
    table = {name: dict.fromkeys(VERDICTS, 0) for name in VERDICTS}
    table["produced"].update({"produced": 10, "demoted": 7, "recognised_only": 3, "lost": 2, **produced})
    return table


def contrast(**fields):
    counted = Discordance(items=40, lost=9, won=2, p=0.065)
    discordance = {"ladder": {"shown": counted}, "graded": {"article": counted}, "accuracies": {"mc_letters": counted}}
    told = {"verdicts": moves(), "ranks": [ranks()], "discordance": discordance, "options": []}
    return ProbeContrast(**{**told, **fields})


def report_with(folder, labels=(0.5,), method="wanda", **fields):
    """Dense and pruned runs of two languages, 30 items each, every row of them with the same hand-made probes."""
    letters = "bbbbbbbbbbbbbbbbbbbrrrrrrnnnnn"
    dense = [q for language in ("en", "sw") for q in pattern(letters, language=language)]
    runs = [write_run(folder / "dense", dense, pruning=receipt("none", 0.0))]
    for number, sparsity in enumerate(labels):
        worse = letters[10 + number :] + "r" * (10 + number)
        made = [q for language in ("en", "sw") for q in pattern(worse, language=language)]
        runs.append(write_run(folder / f"p{number}", made, pruning=receipt(method, sparsity)))
    report = build_report(runs)
    rows = {
        "dense_probes": probes(graded=graded(0.8, 0.9, 0.95, 1.0)),
        "pruned_probes": probes(),
        "probe_contrast": contrast(),
        **fields,
    }
    comparisons = [
        c.model_copy(update={"rows": [row.model_copy(update=rows) for row in c.rows]}) for c in report.file.comparisons
    ]
    conclusions = conclude_all(comparisons, report.file.curves, report.items, DEFAULTS)
    file = report.file.model_copy(update={"comparisons": comparisons, "conclusions": conclusions})
    return Report(file, report.items)
