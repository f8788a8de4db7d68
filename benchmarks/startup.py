"""What this project adds to a start: of Python, of `import lm_eval`, and of `lm_eval` up to its first request.

python benchmarks/startup.py [--short] [--model DIR] [--out FILE.json]

By `-X importtime`: the sum of the self times of this project's own modules in a bare start and in `import lm_eval`.
Then `lm_eval --model hf` against `--model pruned_hf` with method=none in alternation: processor seconds from the start
of Python to the first request. The limits are 2, 10 and 300 ms; the exit code says whether medians keep the first two.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pair
import sides

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
    sys.stdout.write(f"first request after {time.process_time()} s of {type(self).__name__}\\n")
    sys.stdout.flush()
    os._exit(0)

HFLM.loglikelihood = first
if "pruned_hf" in sys.argv:
    from lm_eval_illusion.harness.scored_requests import PrefillScoring
    PrefillScoring.loglikelihood = first
from lm_eval.__main__ import cli_evaluate
cli_evaluate()
"""


def milliseconds(code: str) -> float:
    """Return what this project's modules cost one start of Python, in ms."""
    words = [sys.executable, "-X", "importtime", "-c", code]
    seen = subprocess.run(words, capture_output=True, text=True, check=True, cwd=os.sep)
    return sum(int(match[1]) for line in seen.stderr.splitlines() if (match := OURS.match(line))) / 1000


def to_first_request(kind: str, model: str, folder: Path) -> float:
    """Return processor milliseconds of one `lm_eval` from the start of Python to its first request."""
    model_args = f"pretrained={model}" + (",method=none" if kind == "pruned_hf" else "")
    words = ["run", "--model", kind, "--model_args", model_args, "--tasks", "startup", "--include_path", str(folder)]
    words += ["--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-c", TO_THE_FIRST_REQUEST, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **pair.ONE_THREAD},
    )
    found = re.search(r"first request after (\S+) s of (\w+)", done.stdout)
    if found is None or found[2] != {"hf": "HFLM", "pruned_hf": "PrunedHFLM"}[kind]:
        raise SystemExit(f"lm_eval --model {kind} made no request: {done.stderr[-2000:]}")
    return float(found[1]) * 1000


def first_request(model: str, turns: int) -> dict[str, Any]:
    """Compare both models' way to the first request in alternation."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.jsonl").write_text('{"ctx": "one two", "end": "three"}\n')
        (folder / "startup.yaml").write_text(TASK.replace("ROWS", str(folder / "rows.jsonl")))
        to_first_request("hf", model, folder)  # files come from the disk's cache from here on
        pairs = [
            (to_first_request("pruned_hf", model, folder), to_first_request("hf", model, folder)) for _ in range(turns)
        ]
    more = sorted(ours - stock for ours, stock in pairs)
    median = statistics.median(more)
    print(
        f"lm_eval to its first request: {median:.0f} ms more than stock hf, median of {turns} pairs ({more[0]:.0f} to "
        f"{more[-1]:.0f}), of {statistics.median(stock for _, stock in pairs):.0f} ms; limit {FIRST_REQUEST_LIMIT:g} ms"
    )
    return {"name": "lm_eval to its first request", "more_ms": median, "range_ms": [more[0], more[-1]], "turns": turns}


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
        failed |= not 0 < median < limit
        print(f"{name}: median {median:.2f} ms of {runs} ({times[0]:.2f} to {times[-1]:.2f}), limit {limit:g} ms")
        results.append({"name": name, "median_ms": median, "range_ms": [times[0], times[-1]], "turns": runs})
    options.model = sides.checkpoint_of(options.model)
    results.append(first_request(options.model, 2 if options.short else 7))
    pair.write_results(options.out, "startup", results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
