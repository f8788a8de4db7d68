"""The commands that judge, `gate` and `noise`; `cli` adds them to the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from lm_eval_illusion.errors import IllusionError, one_line
from lm_eval_illusion.folders import make_folder


def gate(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_OR_REPORT...",
            help="A report.json; or a dense run (or a report.json as baseline) and the runs to judge.",
        ),
    ],
    rules: Annotated[Path | None, typer.Option("--rules", metavar="gate.yaml", help="What must hold.")] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option("--fail-if", metavar="RULE", help='A rule, such as "generation drop > 0.10"; again for more.'),
    ] = None,
    noise: Annotated[
        Path | None, typer.Option("--noise", metavar="noise.json", help="What the command noise wrote.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")] = None,
    gitlab: Annotated[
        Path | None, typer.Option("--gitlab", metavar="FILE", help="Write a GitLab code quality report.")
    ] = None,
) -> None:
    """Pass or fail a compressed model by rules: exit code 0 passed, 1 failed, 2 could not be judged.

    Under GitHub Actions the step's summary and annotations are written too.
    """
    from lm_eval_illusion.report.gate.conduct import Judgement, run_gate
    from lm_eval_illusion.report.gate.rule_file import read_rules
    from lm_eval_illusion.report.gate.text import render_lines

    try:
        judgement = run_gate(runs, read_rules(rules, fail_if or []), noise)
    except Exception as error:
        source = None if rules is None else str(rules)
        _publish(Judgement((), source, one_line(error)), junit, gitlab)
        raise
    print(render_lines(judgement))
    _publish(judgement, junit, gitlab)
    raise typer.Exit(judgement.code)


def noise(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN", help="Two runs of one model.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Noise file for gate --noise.")] = Path(
        "noise.json"
    ),
) -> None:
    """Measure what two runs of one model differ by, and write it for the gate."""
    from lm_eval_illusion.report.gate.noise import measure_noise

    measured = measure_noise(runs)
    _write(out, measured.model_dump_json(indent=1) + "\n")
    for place in measured.places:
        name = "overall" if place.scope == "overall" else "/".join(filter(None, (place.dataset, place.language)))
        flips = ", ".join(f"{count} {condition}" for condition, count in place.changed.items())
        print(f"{name}: answers that flipped on {place.items} items: {flips}")
    print(f"noise: {out}")


def _publish(judgement: Any, junit: Path | None, gitlab: Path | None) -> None:
    """Write what CI shows, whether or not the gate could judge."""
    from lm_eval_illusion.report.gate.github import render_annotations, render_summary
    from lm_eval_illusion.report.gate.gitlab import render_code_quality
    from lm_eval_illusion.report.gate.junit import render_junit

    if junit is not None:
        _write(junit, render_junit(judgement))
    if gitlab is not None:
        _write(gitlab, render_code_quality(judgement))
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with open(summary, "a", encoding="utf-8", newline="\n") as file:
                file.write(render_summary(judgement))
        except OSError as error:
            raise IllusionError(
                f"cannot write the step summary {summary} ({error}); expected a file: unset GITHUB_STEP_SUMMARY"
            ) from None
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for command in render_annotations(judgement):
            print(command)


def _write(path: Path, text: str) -> None:
    from lm_eval_illusion.report.write import replace_file

    try:
        make_folder(path.parent, "give a file in a writable folder")
        replace_file(path, text)
    except OSError as error:
        raise IllusionError(f"cannot write {path} ({error}); give a file in a writable folder") from None


def add_to(app: typer.Typer) -> None:
    """Add both commands to the command line."""
    app.command()(gate)
    app.command()(noise)
