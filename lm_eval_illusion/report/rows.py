"""The rows of a comparison: overall, every dataset, every language; Holm over the languages."""

from __future__ import annotations

from collections import Counter

import numpy as np

from lm_eval_illusion.report.asked import asked_of
from lm_eval_illusion.report.columns import Columns, Floats, Side, columns_of
from lm_eval_illusion.report.contrast import contrast
from lm_eval_illusion.report.figures import estimate, model_figures
from lm_eval_illusion.report.halves import HALVES
from lm_eval_illusion.report.join import Joined
from lm_eval_illusion.report.measures import Estimate, Flips
from lm_eval_illusion.report.probes import probe_contrast, probe_figures
from lm_eval_illusion.report.schema import OfficialMean, OfficialRow, Row, Settings
from lm_eval_illusion.report.stats import Clusters, Scale, holm, mean_interval

__all__ = ["OFFICIAL", "build_rows", "official_means"]

OFFICIAL = {"tydiqa": "en"}
"""Datasets whose official aggregate is the mean over languages, and the language it leaves out."""


def build_rows(joined: Joined, settings: Settings) -> list[Row]:
    """Overall first, then each dataset (where there are several), then each language."""
    places = sorted(joined.conditions)
    datasets = sorted({dataset for dataset, _ in places})
    rows = [_row(joined, settings, "overall", None, None)]
    if len(datasets) > 1:
        rows += [_row(joined, settings, "dataset", dataset, None) for dataset in datasets]
    languages = [_row(joined, settings, "language", dataset, language) for dataset, language in places]
    return rows + _with_holm(languages)


def _row(joined: Joined, settings: Settings, scope: str, dataset: str | None, language: str | None) -> Row:
    def inside(place_dataset: str, place_language: str) -> bool:
        return dataset in (None, place_dataset) and language in (None, place_language)

    items = [item for item in joined.items if inside(item.dataset, item.language)]
    reasons = Counter(o.reason for o in joined.outside if inside(o.dataset, o.language))
    unmatched = {reason: count for reason, count in sorted(reasons.items()) if reason.startswith("unmatched")}
    excluded = {reason: count for reason, count in sorted(reasons.items()) if not reason.startswith("unmatched")}
    run = [conditions for place, conditions in joined.conditions.items() if inside(*place)]
    columns = columns_of(items) if items else None
    clusters = columns.clusters.count if columns else 0
    asked = asked_of(columns, (settings.min_items, settings.min_clusters)) if columns else None
    decided = len(items) >= settings.min_items and clusters >= settings.min_clusters
    return Row.model_validate(
        {
            "scope": scope,
            "dataset": dataset,
            "language": language,
            "joined": len(items),
            "excluded": sum(excluded.values()),
            "excluded_reasons": excluded,
            "unmatched": sum(unmatched.values()),
            "unmatched_reasons": unmatched,
            "clusters": clusters,
            "decided": decided,
            "missing": [name for name in HALVES if not all(name in conditions for conditions in run)],
            "dense": model_figures(columns.dense, columns.clusters) if columns else None,
            "pruned": model_figures(columns.pruned, columns.clusters) if columns else None,
            "contrast": contrast(columns, margin=settings.margin, enough=decided) if columns else None,
            "dense_probes": probe_figures(asked[0]) if asked else None,
            "pruned_probes": probe_figures(asked[1]) if asked else None,
            "probe_contrast": probe_contrast(*asked) if asked else None,
        }
    )


def _with_holm(rows: list[Row]) -> list[Row]:
    """One family: languages x {R near, G} of one pruned run. The clustered p enters where items cluster."""
    near = [row.contrast.near.accuracy if row.contrast and row.contrast.near else None for row in rows]
    written = [row.contrast.generation if row.contrast else None for row in rows]
    corrected = holm([_primary(flips) for flips in near + written])
    result = []
    for index, row in enumerate(rows):
        if row.contrast is None:
            result.append(row)
            continue
        update: dict[str, object] = {}
        near_p, written_p = corrected[index], corrected[index + len(rows)]
        if row.contrast.near is not None:
            accuracy = row.contrast.near.accuracy.model_copy(update={"p_holm": near_p})
            update["near"] = row.contrast.near.model_copy(update={"accuracy": accuracy})
        if row.contrast.generation is not None:
            update["generation"] = row.contrast.generation.model_copy(update={"p_holm": written_p})
        result.append(row.model_copy(update={"contrast": row.contrast.model_copy(update=update)}))
    return result


def _primary(flips: Flips | None) -> float | None:
    if flips is None:
        return None
    return flips.p if flips.p_cluster is None else flips.p_cluster


def official_means(joined: Joined) -> list[OfficialMean]:
    """TyDi QA's aggregate: every non-English language weighs the same."""
    result = []
    for dataset, left_out in sorted(OFFICIAL.items()):
        items = [item for item in joined.items if item.dataset == dataset and item.language != left_out]
        if not items:
            continue
        columns = columns_of(items)
        languages = sorted({item.language for item in items})
        strata = np.array([languages.index(item.language) for item in items], dtype=np.int64)
        clusters = Clusters(columns.clusters.cluster, strata)
        result.append(
            OfficialMean(
                dataset=dataset,
                languages=languages,
                dense=_official(columns, columns.dense, clusters),
                pruned=_official(columns, columns.pruned, clusters),
            )
        )
    return result


def _official(columns: Columns, side: Side, clusters: Clusters) -> OfficialRow:
    near, far, written = side.recognised("near"), side.recognised("far"), side.answered

    def mean(values: Floats, gap: bool) -> Estimate:
        scale: Scale = "difference" if gap else "share"
        bounds = (-1.0 if gap else 0.0, 1.0)
        return estimate(mean_interval(values, clusters, scale=scale, bounds=bounds, equal_strata=True))

    return OfficialRow(
        near=None if near is None else mean(near, False),
        far=None if far is None else mean(far, False),
        generation=None if written is None else mean(written, False),
        gap_near=None if near is None or written is None else mean(near - written, True),
        gap_far=None if far is None or written is None else mean(far - written, True),
        exact=mean(side.generated["exact"], False).value if side.generated else None,
        f1=mean(side.f1, True).value if side.f1 is not None else None,
    )
