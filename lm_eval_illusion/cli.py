"""The command line: the only module that reads arguments, prints and exits.

Exit codes: 0 done, 1 the gate failed, 2 could not judge (bad input, missing data, unusable runs).
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lm_eval_illusion import __version__, check_commands, checkpoint_commands, gate_commands, report_commands
from lm_eval_illusion.errors import IllusionError, one_line
from lm_eval_illusion.report_commands import HTML_HELP, write_and_show

COULD_NOT_JUDGE = 2
PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

app = typer.Typer(
    name="lm-eval-illusion",
    help="Does a pruned language model still answer, or only recognise the answer?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the names of options are told whole in any width
)


@app.callback(invoke_without_command=True)
def top(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    """Does a pruned language model still answer, or only recognise the answer?"""
    if version:
        print(__version__)
        raise typer.Exit


@app.command(context_settings=PASS_THROUGH)
def run(
    context: typer.Context,
    answers: Annotated[
        str | None,
        typer.Option("--answers", metavar="RUN", help="Show the model its answers of this finished run."),
    ] = None,
    probe_failures: Annotated[
        list[str] | None,
        typer.Option(
            "--probe-failures", metavar="RUN", help="Ask only what this finished run failed; again for more runs."
        ),
    ] = None,
) -> None:
    """Run lm_eval with its own arguments, checking data first and the written files afterwards.

    Everything else after `run` goes to `lm_eval run`; `--log_samples` and `--output_path` are added where missing.
    Works where the autoload hook is switched off.
    """
    from lm_eval_illusion.harness import launch
    from lm_eval_illusion.harness.feed import Feeding

    fed = answers is not None or bool(probe_failures)
    if not (context.args or fed) or (context.args and context.args[0] in ("-h", "--help")):
        print(context.get_help())
        print("\nThe arguments of lm_eval itself: lm_eval run --help")
        return
    out = launch.run(context.args, Feeding(answers, tuple(probe_failures or ())) if fed else None)
    print(f"run: {out}")


report_commands.add_to(app)
check_commands.add_to(app)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.yaml", help="Models, methods, sparsities, ... to combine.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for all runs and the report; runs/NAME of the file if left out."),
    ] = None,
    data: Annotated[str | None, typer.Option("--data", help="Folder with tydiqa/ and xquad/, over the file's.")] = None,
    html: Annotated[bool, typer.Option("--html", help=HTML_HELP)] = False,
) -> None:
    """Run a model dense and pruned in many ways, loading it once, and report all points.

    A finished point is never run again, and one that fails does not stop the others: run the same command again.
    """
    from lm_eval_illusion.harness.sweep.conduct import reportable, run_sweep
    from lm_eval_illusion.harness.sweep.plan import plan_sweep

    planned = plan_sweep(file, data)
    folder = out if out is not None else Path("runs") / file.stem
    notes = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    state = run_sweep(planned, folder, notes.print)
    points = [f"{point.model} {point.name}: {point.error}" for point in state.failed]
    reports = reportable(planned, state, folder)
    unreported = []
    for runs, where in reports:
        try:
            write_and_show(runs, where, html=html)
        except IllusionError as error:
            unreported.append(f"report {where}: {one_line(error)}")
    for text in points + unreported:
        print(f"failed: {text}", file=sys.stderr)
    told = []
    if points:
        told.append(
            f"{len(points)} of {len(state.points)} points failed, each named above and in {folder / 'sweep.json'}"
        )
    if unreported:
        told.append(f"{len(unreported)} of {len(reports)} reports could not be made, each named above")
    if told:
        raise IllusionError(
            f"{' and '.join(told)}; what is finished is kept: mend the cause and run the same command again"
        )


@app.command()
def pair(
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS.jsonl", help="SQuAD-format JSON, or JSONL.")],
    name: Annotated[str, typer.Option("--name", help="How the names of the tasks are to begin.")],
    language: Annotated[str | None, typer.Option("--language", help="Language of rows that name none (en).")] = None,
    out: Annotated[Path, typer.Option("--out", help="Where the folder NAME is to lie.")] = Path(),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the options and their order.")] = 0,
) -> None:
    """Make a task folder of your own questions, with all conditions, for lm_eval --include_path."""
    from lm_eval_illusion.harness.pair import write_pair
    from lm_eval_illusion.harness.pair_text import bad_rows, summary
    from lm_eval_illusion.pairs.own import BadRowsError

    try:
        written = write_pair(questions, name, language=language, out=out, seed=seed)
    except BadRowsError as error:
        for line in bad_rows(error):
            print(line, file=sys.stderr)
        raise
    for line in summary(written):
        print(line)


checkpoint_commands.add_to(app)
gate_commands.add_to(app)


@app.command()
def doctor(data: Annotated[str | None, typer.Option("--data", help="Folder with tydiqa/ and xquad/.")] = None) -> None:
    """Say what is installed, whether the hook is active, and which data, model and device would be used."""
    from lm_eval_illusion.harness.doctor import diagnose

    findings = diagnose(data)
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(
            f"{'-- ' if finding.missing else 'ok ' if finding.ok else 'BAD'} {finding.what:<{width}}  {finding.state}"
        )
    if not all(finding.ok for finding in findings):
        raise typer.Exit(COULD_NOT_JUDGE)


def main() -> None:
    """Run the command line; an error is one line on standard error and exit code 2 (LM_EVAL_ILLUSION_DEBUG=1: all)."""
    try:
        app()
    except SystemExit:
        raise
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if os.environ.get("LM_EVAL_ILLUSION_DEBUG") == "1":
            traceback.print_exc()
        print(f"error: {one_line(error)}", file=sys.stderr)
        sys.exit(COULD_NOT_JUDGE)


if __name__ == "__main__":
    main()
