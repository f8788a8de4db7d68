"""Runs every benchmark and gathers what they measured.

    python benchmarks/all.py --short                     a check in minutes: prints, and fails where results disagree
    python benchmarks/all.py --write docs/benchmarks.md  hours: also writes the page with machine, versions and date

What a script wrote is kept in --results, so that a long series that was stopped goes on where it was: if the command,
the versions of all packages and the sources are still the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pair
from made_by import described, made_by, now_here


@dataclass(frozen=True)
class Script:
    """One benchmark."""

    takes: tuple[str, ...] = ()
    """Which of the options of this script it is given, besides --model and --out."""
    sound: str = "results agree"
    """What its exit code 0 says."""


SCRIPTS = {
    "startup": Script(sound="the imports keep their limits; there are no results to compare"),
    "scoring": Script(("data",)),
    "generation": Script(("data",)),
    "probes": Script(("data",)),
    "pruning": Script(("heldout", "llmcompressor")),
    "sweep": Script(),
}


def command(name: str, options: argparse.Namespace, out: Path) -> list[str]:
    """Return the command line of one script."""
    words = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), "--out", str(out)]
    for option in ("model", *SCRIPTS[name].takes):
        if getattr(options, option) is not None:
            words += [f"--{option}", str(getattr(options, option))]
    return words + (["--short"] if options.short else [])


def run(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run one script, unless this very command has succeeded here with the same packages and sources.

    Returns:
        Its results, text and exit code, the date, the machine, and what made them.
    """
    kept = folder / f"{name}.run.json"
    out = folder / f"{name}.json"
    words = command(name, options, out)
    shown = " ".join(["python", *[str(Path(word).name) if word.endswith(".py") else word for word in words[1:]]])
    takes = SCRIPTS[name].takes
    heldout = [options.heldout] if "heldout" in takes and options.heldout else []
    made = made_by(options.llmcompressor if "llmcompressor" in takes else None, [Path(path) for path in heldout])
    if kept.is_file():
        held: dict[str, Any] = json.loads(kept.read_text())
        if held["command"] == shown and held["code"] == 0 and held.get("made_by") == made:
            print(f"{name}: kept from {kept}, of {held['date']}")
            return held
        kept.unlink()  # made with other options, versions or sources, or results disagreed
    out.unlink(missing_ok=True)
    print(f"== {shown}", flush=True)
    start, lines = time.monotonic(), []
    environment = {**os.environ, **pair.ONE_THREAD, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    code = process.wait()
    print(f"-- {name}: exit code {code} after {time.monotonic() - start:.0f} s", flush=True)
    found = {"command": shown, "text": "".join(lines), "code": code, "made_by": made, **now_here()}
    if out.is_file():
        found |= json.loads(out.read_text())
        scratch = kept.with_suffix(".tmp")
        scratch.write_text(json.dumps(found, indent=1))
        os.replace(scratch, kept)
    return found


def page(runs: dict[str, dict[str, Any]], model: str | None, *, short: bool) -> str:
    """Return docs/benchmarks.md."""
    parts = [
        "# Benchmarks\n",
        f"Written by `benchmarks/all.py` ({'the short form' if short else 'the full form'}), never by hand. Ours and "
        "the rival take turns, each in a process of its own, on one thread; figures are ratios of processor seconds "
        "(on CUDA of seconds by the clock), median over the turns with the range. Model: "
        f"{model or 'that of `make demo`, Gemma 3 270M'}.\n",
    ]
    for name, found in runs.items():
        verdict = SCRIPTS[name].sound if found["code"] == 0 else f"exit code {found['code']}"
        parts.append(
            f"## {name}\n\n{described(found)}\n\n`{found['command']}`: {verdict}\n\n"
            f"```\n{found['text'].rstrip()}\n```\n"
        )
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="the short form of each")
    parser.add_argument("--only", help=f"some of {', '.join(SCRIPTS)}, comma-separated")
    parser.add_argument("--model", help="checkpoint; default: the demo model")
    parser.add_argument("--data", help="folder with tydiqa/ and xquad/; default: the shipped questions")
    parser.add_argument("--heldout", help="a script like ../shared/tools/heldout.py, for rows and perplexity")
    parser.add_argument("--llmcompressor", help="python of an environment with llmcompressor (make .bench-venv)")
    parser.add_argument("--results", type=Path, default=None, help="folder for what is measured")
    parser.add_argument("--write", type=Path, help="page to write")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(SCRIPTS)
    unknown = sorted(set(names) - set(SCRIPTS))
    if unknown:
        parser.error(f"--only {', '.join(unknown)}: expected some of {', '.join(SCRIPTS)}")
    folder = options.results or Path("runs") / f"bench-{time.strftime('%Y-%m-%dT%H-%M-%S')}"
    folder.mkdir(parents=True, exist_ok=True)
    runs = {name: run(name, options, folder) for name in names}
    if options.write:
        scratch = options.write.with_suffix(".tmp")
        scratch.write_text(page(runs, options.model, short=options.short), encoding="utf-8")
        os.replace(scratch, options.write)
        print(f"written: {options.write}")
    failed = [name for name, found in runs.items() if found["code"]]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
