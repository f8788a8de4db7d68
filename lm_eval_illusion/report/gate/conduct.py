"""The gate from paths to verdicts: a stored report, or runs joined by the report's own code, then the judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.build import build_from
from lm_eval_illusion.report.gate.baseline import check_matches
from lm_eval_illusion.report.gate.judge import Line, exit_code, judge
from lm_eval_illusion.report.gate.noise import check_noise, read_noise
from lm_eval_illusion.report.gate.rule_file import Rules
from lm_eval_illusion.report.gate.stored import is_report, read_report, restore_run
from lm_eval_illusion.report.merge import read_merged
from lm_eval_illusion.report.schema import ReportFile

__all__ = ["Judgement", "gather_report", "run_gate"]

RUN_OF = "#"
"""Between a stored report and the label of one of its runs."""


@dataclass(frozen=True)
class Judgement:
    """What a gate says; the pages for CI show this and nothing else."""

    lines: tuple[Line, ...]
    source: str | None = None
    """The rules file."""
    error: str | None = None
    """Why nothing could be judged."""

    @property
    def code(self) -> int:
        """Exit code: 0 passed, 1 failed, 2 could not be judged."""
        return 2 if self.error is not None else exit_code(self.lines)

    def count(self, verdict: str) -> int:
        """Lines with this verdict."""
        return sum(line.verdict == verdict for line in self.lines)


def run_gate(paths: Sequence[Path], rules: Rules, noise: Path | None = None) -> Judgement:
    """Judge a stored report, or runs against the first of them.

    Args:
        paths: One report.json (or its folder); or a dense run and more runs, where the first may be a stored report
            with `#LABEL` for another of its runs than the dense one.
        rules: At least one.
        noise: File of `lm-eval-illusion noise`.

    Raises:
        IllusionError: Anything that cannot be read, compared or joined.
    """
    file = gather_report(paths)
    floor = None if noise is None else read_noise(noise)
    if floor is not None and noise is not None:
        check_noise(floor, file, noise)
    return Judgement(tuple(judge(file, rules, floor)), rules.source)


def gather_report(paths: Sequence[Path]) -> ReportFile:
    """The report to judge: stored, or built of runs.

    Raises:
        IllusionError: Anything that cannot be read, compared or joined.
    """
    if len(paths) == 1 and _report_of(paths[0]) is not None:
        path, label = _report_of(paths[0]) or (paths[0], None)
        if label is not None:
            raise IllusionError(
                f"{paths[0]}: one run of a report alone; expected the report, or a run to compare with it"
            )
        return read_report(path)
    if len(paths) < 2:
        raise IllusionError(
            f"{', '.join(map(str, paths)) or 'no run'}: expected a report.json, or a dense run and at least one "
            "pruned: `lm-eval-illusion gate RUN_DENSE RUN_PRUNED --rules gate.yaml`"
        )
    late = [path for path in paths[1:] if _report_of(path) is not None]
    if late:
        raise IllusionError(
            f"{late[0]} is a stored report; expected it alone, or first as the baseline of the runs after it"
        )
    stored = _report_of(paths[0])
    first = read_merged(paths[0]) if stored is None else restore_run(*stored)
    others = [read_merged(path) for path in paths[1:]]
    if stored is not None:
        for other in others:
            check_matches(first, other)
    return build_from([first, *others]).file


def _report_of(path: Path) -> tuple[Path, str | None] | None:
    """A stored report and the label after it, if the path names one."""
    if path.exists() or RUN_OF not in str(path):
        return (path, None) if is_report(path) else None
    file, _, label = str(path).partition(RUN_OF)
    return (Path(file), label) if is_report(Path(file)) else None
