"""What this project adds to a start: of Python, of `import lm_eval`, and of `lm_eval` up to its first request.

    python benchmarks/startup.py [--short] [--model DIR] [--out FILE.json]

By `-X importtime`: the sum of the self times of this project's own modules in a bare start and in `import lm_eval`.
Then `lm_eval --model hf` against `--model pruned_hf` with method=none in alternation: processor seconds from the start
of Python to the first request, and peak memory until then. The limits are 2, 10 and 300 ms. The exit code says whether
medians keep the first two; of the third, which is a time of a busy machine, it is said whether it is met.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pair
import sides
from turn import Turn

OURS = re.compile(
    r"import time:\s+(\d+) \|\s+\d+ \|\s+(_lm_eval_illusion_autoload|lm_eval_illusion\S*|prune_hooks\S*)$"
)
CASES = {
    "python -c pass": ("pass", 2.0),
    "import lm_eval": ("import lm_eval, lm_eval.models, lm_eval.tasks", 10.0),
}
FIRST_REQUEST_LIMIT = 300.0
TASK = """
task: startup
dataset_path: json
dataset_kwargs: {data_files: {test: ROWS}}
test_split: test
output_type: loglikelihood
doc_to_text: "{{ctx}}"
doc_to_target: " {{end}}"
metric_list: [{metric: acc}]
"""
TO_THE_FIRST_REQUEST = """
import os, sys, time
from lm_eval.models.huggingface import HFLM

def first(self, requests, disable_tqdm=False):
    seconds = time.process_time()
    sys.path.append(BENCHMARKS)
    from turn import peak_mb
    sys.stdout.write(f"first request after {seconds} s and {peak_mb()} MiB of {type(self).__name__}\\n")
    sys.stdout.flush()
    os._exit(0)

HFLM.loglikelihood = first
if "pruned_hf" in sys.argv:
    from lm_eval_illusion.harness.scored_requests import PrefillScoring
    PrefillScoring.loglikelihood = first
from lm_eval.__main__ import cli_evaluate
cli_evaluate()
""".replace("BENCHMARKS", repr(str(Path(__file__).parent)))
KINDS = ("pruned_hf", "hf")
"""Our model of `lm_eval`, and the stock one."""


def milliseconds(code: str) -> float:
    """Return what this project's modules cost one start of Python, in ms."""
    words = [sys.executable, "-X", "importtime", "-c", code]
    seen = subprocess.run(words, capture_output=True, text=True, check=True, cwd=os.sep)
    return sum(int(match[1]) for line in seen.stderr.splitlines() if (match := OURS.match(line))) / 1000


def to_first_request(kind: str, model: str, folder: Path) -> Turn:
    """Return what one `lm_eval` takes from the start of Python to its first request."""
    model_args = f"pretrained={model}" + (",method=none" if kind == "pruned_hf" else "")
    words = ["run", "--model", kind, "--model_args", model_args, "--tasks", "startup", "--include_path", str(folder)]
    words += ["--device", "cpu"]
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", TO_THE_FIRST_REQUEST, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **pair.ONE_THREAD},
    )
    wall = time.perf_counter() - started
    found = re.search(r"first request after (\S+) s and (\S+) MiB of (\w+)", done.stdout)
    if found is None or found[3] != {"hf": "HFLM", "pruned_hf": "PrunedHFLM"}[kind]:
        raise SystemExit(f"lm_eval --model {kind} made no request: {done.stderr[-2000:]}")
    return Turn(wall, float(found[1]), float(found[2]), None)


def first_request(model: str, turns: int) -> dict[str, Any]:
    """Compare both models' way to the first request in alternation."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.jsonl").write_text('{"ctx": "one two", "end": "three"}\n')
        (folder / "startup.yaml").write_text(TASK.replace("ROWS", str(folder / "rows.jsonl")))
        to_first_request("hf", model, folder)  # files come from the disk's cache from here on
        taken: dict[str, list[Turn]] = {kind: [] for kind in KINDS}
        for number in range(turns):
            for kind in KINDS[:: 1 if number % 2 == 0 else -1]:
                taken[kind].append(to_first_request(kind, model, folder))
    return said(*(taken[kind] for kind in KINDS))


def said(ours: list[Turn], stock: list[Turn]) -> dict[str, Any]:
    """Print the difference of both models beside its limit; return it."""
    more = sorted((mine.cpu - theirs.cpu) * 1000 for mine, theirs in zip(ours, stock, strict=True))
    median = statistics.median(more)
    met = median < FIRST_REQUEST_LIMIT
    peaks = [max(turn.peak_mb for turn in turns) for turns in (ours, stock)]
    print(
        f"lm_eval to its first request: {median:.0f} ms more than stock hf, median of {len(more)} pairs ({more[0]:.0f} "
        f"to {more[-1]:.0f}), of {statistics.median(turn.cpu for turn in stock) * 1000:.0f} ms; limit "
        f"{FIRST_REQUEST_LIMIT:g} ms {'met' if met else 'not met'}; peak memory {peaks[0]:,.0f} against "
        f"{peaks[1]:,.0f} MiB"
    )
    return {
        "name": "lm_eval to its first request",
        "more_ms": median,
        "range_ms": [more[0], more[-1]],
        "turns": len(more),
        "limit_ms": FIRST_REQUEST_LIMIT,
        "met": met,
        "ours_peak_mb": peaks[0],
        "rival_peak_mb": peaks[1],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="starts of Python")
    parser.add_argument("--short", action="store_true", help="fewer starts")
    parser.add_argument("--model", help="checkpoint; default: the demo model")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runs = 5 if options.short else options.runs
    failed, results = False, []
    for name, (code, limit) in CASES.items():
        times = sorted(milliseconds(code) for _ in range(runs))
        median = statistics.median(times)
        met = 0 < median < limit  # 0: this project's modules were not seen at all
        failed |= not met
        print(
            f"{name}: median {median:.2f} ms of {runs} ({times[0]:.2f} to {times[-1]:.2f}), limit {limit:g} ms "
            f"{'met' if met else 'not met: FAIL'}"
        )
        results.append(
            {"name": name, "median_ms": median, "range_ms": [times[0], times[-1]], "turns": runs, "met": met}
        )
    options.model = sides.checkpoint_of(options.model)
    results.append(first_request(options.model, 2 if options.short else 7))
    pair.write_results(options.out, "startup", results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
