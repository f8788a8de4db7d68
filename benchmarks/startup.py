"""What the autoload hook costs: a bare start of Python, and `import lm_eval` with its models and task index.

python benchmarks/startup.py [--runs 20]

By `-X importtime`: the sum of the self times of this project's own modules, median and range over the runs. Both must
stay under their limits (2 ms and 10 ms); the exit code says so.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys

OURS = re.compile(
    r"import time:\s+(\d+) \|\s+\d+ \|\s+(_lm_eval_illusion_autoload|lm_eval_illusion\S*|prune_hooks\S*)$"
)
CASES = {
    "python -c pass": ("pass", 2.0),
    "import lm_eval": ("import lm_eval, lm_eval.models, lm_eval.tasks", 10.0),
}


def milliseconds(code: str) -> float:
    """Return what this project's modules cost one start of Python, in ms."""
    words = [sys.executable, "-X", "importtime", "-c", code]
    seen = subprocess.run(words, capture_output=True, text=True, check=True, cwd=os.sep)
    return sum(int(match[1]) for line in seen.stderr.splitlines() if (match := OURS.match(line))) / 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    failed = False
    for name, (code, limit) in CASES.items():
        times = sorted(milliseconds(code) for _ in range(runs))
        median = statistics.median(times)
        failed |= not 0 < median < limit
        print(f"{name}: median {median:.2f} ms of {runs} ({times[0]:.2f} to {times[-1]:.2f}), limit {limit:g} ms")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
