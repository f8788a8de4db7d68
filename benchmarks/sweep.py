"""A sweep against the same points as separate runs of lm_eval, in CPU seconds, and whether their files are equal.

    python benchmarks/sweep.py [--short] [--model DIR] [--turns N] [--out FILE.json]

Dense plus {magnitude, wanda, sparsegpt} x {0.4, 0.5, 0.6}; sweep and separate runs take turns. Each run says how much
of its time went into pruning, into evaluation and into loading, from which two bounds are made (`sweep_bounds.py`).
Exits with 1 if samples, metrics or weights differ; never because of time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pair import ONE_THREAD, Comparison, line, write_results
from sides import checkpoint_of
from sweep_bounds import BOUNDS, LIMIT, bound, rest, said_of, together
from turn import Turn, peak_mb_of

TURNS = 3
"""Of sweep and separate runs, in the full form; the short one has one."""
FULL: dict[str, Any] = {
    "methods": ["magnitude", "wanda", "sparsegpt"],
    "sparsities": [0.4, 0.5, 0.6],
    "tasks": ["illusion_mini"],
    "items": 2,
    "calibration_samples": 11,
    "calibration_length": 512,
}
SHORT: dict[str, Any] = {
    "methods": ["wanda"],
    "sparsities": [0.5, 0.6],
    "tasks": ["illusion_mini_en", "illusion_mini_sw"],
    "items": 2,
    "calibration_samples": 8,
    "calibration_length": 128,
}
COMMON: dict[str, Any] = {"num_fewshot": 1, "chat_template": False, "device": "cpu", "model_args": {"dtype": "float32"}}


# ------------------------------------------------------------------ in a process of its own
def child(file: Path, out: Path, point: str | None) -> None:
    """Run the whole sweep, or one of its points alone, and write what its phases took to `phases.json`."""
    spent = {"prune": 0.0, "evaluate": 0.0, "load": 0.0}
    import lm_eval.evaluator
    from lm_eval.models.huggingface import HFLM

    from lm_eval_illusion.harness import launch, model
    from lm_eval_illusion.harness.sweep.conduct import run_sweep
    from lm_eval_illusion.harness.sweep.plan import plan_sweep

    vars(model)["prune"] = timed(vars(model)["prune"], spent, "prune")
    lm_eval.evaluator.evaluate = timed(lm_eval.evaluator.evaluate, spent, "evaluate")
    HFLM._create_model = timed(HFLM._create_model, spent, "load")
    HFLM._create_tokenizer = timed(HFLM._create_tokenizer, spent, "load")
    sweep = plan_sweep(file)
    if point is None:
        failed = run_sweep(sweep, out, lambda text: print(text, file=sys.stderr)).failed
        if failed:
            raise SystemExit(f"{failed[0].name}: {failed[0].error}")
    else:
        launch.run(next(p for p in sweep.points if p.name == point).run.arguments(out))
    (out / "phases.json").write_text(json.dumps(spent))


def timed(function: Callable[..., Any], spent: dict[str, float], phase: str) -> Callable[..., Any]:
    """Return the function with its CPU seconds added to a phase."""

    def measured(*args: Any, **kwargs: Any) -> Any:
        started = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[phase] += time.process_time() - started

    return measured


# ------------------------------------------------------------------ the comparison
def run(words: list[str], out: Path) -> Turn:
    """Run this file as a child process and return what it took, its own children included."""
    started = time.perf_counter()
    command = [sys.executable, __file__, "--child", *words, str(out)]
    out.mkdir(parents=True)
    logged = out.parent / f"{out.name}.log"
    with logged.open("w") as log:
        process = os.posix_spawn(
            command[0],
            command,
            {**os.environ, **ONE_THREAD},
            file_actions=[(os.POSIX_SPAWN_DUP2, log.fileno(), 1), (os.POSIX_SPAWN_DUP2, log.fileno(), 2)],
        )
        _, status, used = os.wait4(process, 0)
    if status:
        print(logged.read_text(errors="replace")[-3000:], file=sys.stderr)
        raise SystemExit(
            f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}: its last words stand above"
        )
    return Turn(time.perf_counter() - started, used.ru_utime + used.ru_stime, peak_mb_of(used), phases(out))


def phases(out: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((out / "phases.json").read_text())
    return found


def written(folder: Path) -> dict[str, Any]:
    """Return what must be equal between two runs: samples, metrics, and the hash of the weights."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("samples_*.jsonl")):
        found[path.name.rpartition("_")[0]] = path.read_text(encoding="utf-8")
    (path,) = folder.rglob("results_*.json")
    held = json.loads(path.read_text(encoding="utf-8"))
    found["results"] = held["results"]
    found["weights"] = held["config"]["illusion"]["receipt"]["weights_sha256"]
    return found


def measure(settings: dict[str, Any], model: str, scratch: Path, turns: int) -> tuple[dict[str, Any], bool]:
    """Run the sweep and every point alone, in turns, and return the summary and whether all files are equal."""
    from lm_eval_illusion.harness.sweep.plan import plan_sweep

    file = scratch / "sweep.yaml"
    file.write_text(yaml.safe_dump({"models": [model], **COMMON, **settings}))
    points = plan_sweep(file).points
    swept: list[Turn] = []
    apart: list[dict[str, Turn]] = []
    differing: set[str] = set()
    for turn in range(turns):
        out = scratch / f"turn-{turn}"
        out.mkdir()
        for side in ("sweep", "points")[:: 1 if turn % 2 == 0 else -1]:
            if side == "sweep":
                swept.append(run(["sweep", str(file)], out / "swept"))
                print(f"the sweep: {describe(swept[-1])}", flush=True)
                continue
            apart.append({})
            for point in points:
                apart[-1][point.name] = run(["point", str(file), point.name], out / point.name)
                print(f"{point.name}: {describe(apart[-1][point.name])}", flush=True)
        differing |= {
            point.name for point in points if written(point.folder(out / "swept")) != written(out / point.name)
        }
    whole = tuple(together(alone.values()) for alone in apart)
    summary = Comparison(f"sweep of {len(points)} points", "separate runs", tuple(swept), whole).summary()
    print(line(summary))
    summary |= {"limit": LIMIT, "bounds": [], "equal": not differing}
    for name in BOUNDS:
        found = bound(name, swept, apart)
        print(said_of(found))
        summary["bounds"].append(found)
    summary["met"] = summary["bounds"][0]["met"]
    summary["sweep_seconds"] = [{**turn.result, "rest": rest(turn)} for turn in swept]
    places = f"differ in {', '.join(sorted(differing))}" if differing else "equal in every point"
    print(f"samples, metrics and weights: {places}")
    return summary, not differing


def describe(turn: Turn) -> str:
    spent = turn.result
    return (
        f"{turn.cpu:.1f} CPU s = pruning {spent['prune']:.1f} + evaluation {spent['evaluate']:.1f} + the rest "
        f"{rest(turn):.1f} (loading {spent['load']:.1f}); peak memory {turn.peak_mb:,.0f} MiB"
    )


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        _, _, kind, file, *words = sys.argv
        child(Path(file), Path(words[-1]), words[0] if kind == "point" else None)
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="3 points, 4 questions, under 4 minutes of CPU")
    parser.add_argument("--model", help="folder; the demo model if left out")
    parser.add_argument("--turns", type=int, help=f"of each side; default: {TURNS}, in the short form 1")
    parser.add_argument("--out", type=Path, help="file for the figures")
    args = parser.parse_args()
    model = str(Path(checkpoint_of(args.model)).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        summary, equal = measure(
            SHORT if args.short else FULL, model, Path(scratch), args.turns or (1 if args.short else TURNS)
        )
    write_results(args.out, "sweep.py", [summary])
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
