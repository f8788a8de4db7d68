"""What two runs of one model differ by: measured once, kept as a file, and left open by every verdict after that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from lm_eval_illusion import __version__
from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.build import DEFAULTS, build_from
from lm_eval_illusion.report.gate.metrics import METRICS
from lm_eval_illusion.report.measures import DistanceContrast, Plain
from lm_eval_illusion.report.merge import read_merged
from lm_eval_illusion.report.runs import Run
from lm_eval_illusion.report.schema import ReportFile, Row, TaskAsked

__all__ = ["NoiseFloor", "NoisePlace", "check_noise", "measure_noise", "read_noise"]

_MAY_DIFFER = ("device", "torch", "attn_implementation")
"""What a rerun may change, and what noise is measured to know."""


class NoisePlace(Plain):
    """One scope of the two runs."""

    scope: Literal["overall", "dataset", "language"]
    dataset: str | None
    language: str | None
    items: int
    clusters: int
    changed: dict[str, int]
    """near, far, generation -> items whose answer flipped."""
    floors: dict[str, float]
    """metric -> what it may differ by without any change of the model."""


class NoiseFloor(Plain):
    """The noise file."""

    schema_name: Literal["lm-eval-illusion/noise"]
    schema_version: Literal[1]
    tool_version: str
    runs: list[str]
    identity: dict[str, str | None]
    """The model, as the first run tells it."""
    asked: dict[str, TaskAsked]
    places: list[NoisePlace]

    def floor(self, row: Row, metric: str) -> float | None:
        """The floor of a metric on a row; None where it was not measured."""
        for place in self.places:
            if (place.scope, place.dataset, place.language) == (row.scope, row.dataset, row.language):
                return place.floors.get(metric)
        return None


def measure_noise(paths: Sequence[Path]) -> NoiseFloor:
    """Compare two runs of one model.

    Raises:
        IllusionError: Not two runs, one run twice, runs of different models, or too few items.
    """
    if len(paths) != 2:
        raise IllusionError(
            f"{len(paths)} run(s) given, expected two of one model: `lm-eval-illusion noise RUN RUN --out noise.json`"
        )
    first, other = (read_merged(path) for path in paths)
    _check_same_model(first, other)
    file = build_from([first, other]).file
    rows = file.comparisons[0].rows
    if not rows[0].decided:
        raise IllusionError(
            f"{rows[0].joined} items in {rows[0].clusters} passages are shared by {paths[0]} and {paths[1]}, expected "
            f"at least {DEFAULTS.min_items} in {DEFAULTS.min_clusters}: run both on more items"
        )
    if rows[0].unmatched:
        raise IllusionError(
            f"{rows[0].unmatched} items are in one of {paths[0]} and {paths[1]} only; expected the same items in both: "
            "run both with the same --limit"
        )
    return NoiseFloor(
        schema_name="lm-eval-illusion/noise",
        schema_version=1,
        tool_version=__version__,
        runs=[str(path) for path in paths],
        identity=file.runs[0].identity,
        asked=file.runs[0].asked,
        places=[_place(row) for row in rows if row.joined],
    )


def read_noise(path: Path) -> NoiseFloor:
    """Read a noise file.

    Raises:
        IllusionError: It cannot be read, or is none.
    """
    try:
        found = NoiseFloor.model_validate_json(path.read_bytes(), strict=True)
        if any(not 0 <= floor <= 4 for place in found.places for floor in place.floors.values()):
            raise ValueError("a floor below 0 or above 4")
        return found
    except (OSError, ValidationError, ValueError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise IllusionError(
            f"{path}: no noise file ({said}); expected what `lm-eval-illusion noise RUN RUN --out {path}` writes"
        ) from None


def check_noise(noise: NoiseFloor, file: ReportFile, path: Path) -> None:
    """The noise is that of the questions and the dense model that are judged.

    Raises:
        IllusionError: Other tasks, versions, settings or another model.
    """
    dense = file.runs[0]
    shared = noise.asked.keys() & dense.asked.keys()
    different = sorted(name for name in shared if noise.asked[name] != dense.asked[name])
    model = [
        name
        for name in ("pretrained", "revision", "model_type", "dtype")
        if None not in (noise.identity.get(name), dense.identity.get(name))
        and noise.identity.get(name) != dense.identity.get(name)
    ]
    if not shared or different or model:
        what = ", ".join([*(f"the model's {name}" for name in model), *different[:3]]) or "all tasks"
        raise IllusionError(
            f"{path}: measured on other runs than {dense.label} ({what} differ); expected the noise of the same model "
            "and tasks: measure it again with `lm-eval-illusion noise RUN RUN`"
        )


def _check_same_model(first: Run, other: Run) -> None:
    where = f"{first.path} and {other.path}"
    dates = first.facts.date, other.facts.date
    if first.results_file.resolve() == other.results_file.resolve() or (None not in dates and dates[0] == dates[1]):
        raise IllusionError(
            f"{where} are one run (the same file, or a copy), which says nothing of noise; run it again"
        )
    receipts = [(run.facts.receipt or {}) for run in (first, other)]
    rows: list[tuple[str, object, object]] = [
        (f"the model's {name}", first.facts.identity.get(name), other.facts.identity.get(name))
        for name in first.facts.identity
        if name not in _MAY_DIFFER
    ]
    rows += [("the model", first.facts.model, other.facts.model)]
    rows += [(name, receipts[0].get(name), receipts[1].get(name)) for name in ("spec_digest", "weights_sha256")]
    for what, before, after in rows:
        if before != after:
            raise IllusionError(
                f"{what} differs between {where} ({before} and {after}); expected two runs of one model: run it again "
                "with the same --model_args"
            )


def _place(row: Row) -> NoisePlace:
    contrast = row.contrast
    assert contrast is not None
    changed = {
        name: flips.lost + flips.won
        for name, flips in (
            ("near", contrast.near and contrast.near.accuracy),
            ("far", contrast.far and contrast.far.accuracy),
            ("generation", contrast.generation),
        )
        if flips
    }
    return NoisePlace(
        scope=row.scope,
        dataset=row.dataset,
        language=row.language,
        items=row.joined,
        clusters=row.clusters,
        changed=changed,
        floors=_floors(row, {name: count / row.joined for name, count in changed.items()}),
    )


def _floors(row: Row, flips: dict[str, float]) -> dict[str, float]:
    """What each metric moved by at most: as if every flip that was seen had gone one way."""
    floors = {f"flips {part}": value for part, value in flips.items()}
    for part, value in flips.items():
        floors["generation drop" if part == "generation" else f"MC drop {part}"] = value
    assert row.contrast is not None
    for distance, change in (("near", row.contrast.near), ("far", row.contrast.far)):
        if change is None or "generation" not in flips:
            continue
        floors[f"gap {distance}"] = floors[f"excess gap {distance}"] = flips[distance] + flips["generation"]
        floors |= _moves(change, distance, row.joined)
    before, after = row.dense and row.dense.failures, row.pruned and row.pruned.failures
    for flag in ("empty", "repeated"):
        one, two = (getattr(model, flag) if model else None for model in (before, after))
        if one is not None and two is not None:
            floors[f"{flag} share"] = abs(one - two)
    return {name: floors[name] for name in METRICS if name in floors}


def _moves(change: DistanceContrast, distance: str, items: int) -> dict[str, float]:
    moves = change.transitions or {}
    across = sum(
        count
        for before, ends in moves.items()
        for after, count in ends.items()
        if before != after and "recognition_only" in (before, after)
    )
    fallen = moves["both"]["recognition_only"] + moves["recognition_only"]["both"] if moves else 0
    both = sum(moves["both"].values()) if moves else 0
    found = {f"recognition-only {distance}": across / items}
    return {**found, f"induced illusion {distance}": fallen / both} if both else found
