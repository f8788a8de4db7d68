"""The command line: the only module that reads arguments, prints and exits.

Exit codes: 0 done, 1 the gate failed, 2 could not judge (bad input, missing data, unusable runs).
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from lm_eval_illusion import __version__, checkpoint_commands, gate_commands
from lm_eval_illusion.errors import IllusionError, one_line
from lm_eval_illusion.model_words import key_values as _key_values

COULD_NOT_JUDGE = 2
PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

app = typer.Typer(
    name="lm-eval-illusion",
    help="Does a pruned language model still answer, or only recognise the answer?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
PROBES_HELP = "Afterwards look for the answers that either model failed to give: every recovery probe, on both."
PROBE_ALL_HELP = "The same on all items."
FILE_WIDTH = 160
"""Columns of tables that go to a file or a pipe; a terminal tells its own."""
console = Console()


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


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_DENSE RUN_PRUNED [MORE ...]", help="Run folders; several of one model are joined with +."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for report.json, report.md and items.jsonl.")],
    html: Annotated[bool, typer.Option("--html", help="Write report.html too: one page that loads nothing.")] = False,
) -> None:
    """Join runs item by item against the first one and say what pruning did."""
    _report(runs, out, html=html)


@app.command()
def check(
    pretrained: Annotated[str, typer.Option("--pretrained", help="Model folder or hub name.")],
    method: Annotated[str, typer.Option("--method", help="Pruning method.")] = "wanda",
    sparsity: Annotated[str | None, typer.Option("--sparsity", help="Share of weights to remove (0.5).")] = None,
    pattern: Annotated[str | None, typer.Option("--pattern", help="unstructured, 2:4, 4:8, n:m.")] = None,
    calibration: Annotated[str | None, typer.Option("--calibration", help="builtin, c4, mc4 or a path.")] = None,
    calibration_languages: Annotated[
        str | None, typer.Option("--calibration_languages", help="Languages joined with +.")
    ] = None,
    calibration_samples: Annotated[int | None, typer.Option("--calibration_samples", help="Calibration rows.")] = None,
    calibration_length: Annotated[
        int | None, typer.Option("--calibration_length", help="Tokens a calibration row.")
    ] = None,
    tasks: Annotated[str, typer.Option("--tasks", help="Data sets or tasks, comma-separated.")] = "illusion_mini",
    items: Annotated[int | None, typer.Option("--items", min=1, help="Items a language; all if left out.")] = None,
    num_fewshot: Annotated[int | None, typer.Option("--num_fewshot", min=0, help="Demonstrations.")] = None,
    chat_template: Annotated[
        bool | None, typer.Option("--chat-template/--no-chat-template", help="Default: where the tokenizer has one.")
    ] = None,
    model_args: Annotated[str, typer.Option("--model_args", help="More arguments of the model, key=value,...")] = "",
    data: Annotated[str | None, typer.Option("--data", help="Folder with tydiqa/ and xquad/.")] = None,
    batch_size: Annotated[str, typer.Option("--batch_size", help="Batch size, or auto.")] = "8",
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:0, mps.")] = None,
    probes: Annotated[bool, typer.Option("--probes", help=PROBES_HELP)] = False,
    probe_all: Annotated[bool, typer.Option("--probe-all", help=PROBE_ALL_HELP)] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for all runs and the report.")] = Path("runs/check"),
) -> None:
    """Run one checkpoint dense and pruned, and report what changed."""
    from lm_eval_illusion.harness.check import CheckPlan
    from lm_eval_illusion.harness.planned import PlannedRun

    pruning: dict[str, Any] = {
        "method": method,
        "sparsity": sparsity,
        "pattern": pattern,
        "calibration": calibration,
        "calibration_languages": calibration_languages,
        "calibration_samples": calibration_samples,
        "calibration_length": calibration_length,
    }
    asked = PlannedRun(
        pretrained=pretrained,
        model_args=_key_values(model_args),
        tasks=tuple(name for name in tasks.split(",") if name),
        items=items,
        num_fewshot=num_fewshot,
        chat_template=chat_template,
        data=data,
        batch_size=batch_size,
        device=device,
    )
    given = {key: value for key, value in pruning.items() if value is not None}
    _check(CheckPlan(asked, given, _probes(probes, probe_all)), out)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.yaml", help="Models, methods, sparsities, ... to combine.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for all runs and the report; runs/NAME of the file if left out."),
    ] = None,
    data: Annotated[str | None, typer.Option("--data", help="Folder with tydiqa/ and xquad/, over the file's.")] = None,
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
    wrong = [f"{point.model} {point.name}: {point.error}" for point in state.failed]
    for runs, where in reportable(planned, state, folder):
        try:
            _report(runs, where)
        except IllusionError as error:
            wrong.append(f"{where}: {one_line(error)}")
    for text in wrong:
        print(f"failed: {text}", file=sys.stderr)
    if wrong:
        raise IllusionError(
            f"{len(state.failed)} of {len(state.points)} points failed, each named above and in "
            f"{folder / 'sweep.json'}; what is finished is kept: mend the cause and run the same command again"
        )


@app.command()
def demo(
    items: Annotated[int, typer.Option("--items", min=1, help="Questions a language.")] = 8,
    probes: Annotated[bool, typer.Option("--probes", help=PROBES_HELP)] = False,
    probe_all: Annotated[bool, typer.Option("--probe-all", help=PROBE_ALL_HELP)] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for all runs and the report.")] = Path("runs/demo"),
) -> None:
    """Prune Gemma 3 270M with Wanda at 50 % and see whether it still answers (8 languages, no network)."""
    from lm_eval_illusion.harness import check as checking
    from lm_eval_illusion.harness import demo_model
    from lm_eval_illusion.pairs.sources import describe_sources

    print(f"Model: Gemma 3 270M, under the {demo_model.LICENCE}.")
    for source in describe_sources():
        used = "asked here" if source.dataset == "illusion_mini" else "not asked here"
        print(f"Questions: {source.dataset} ({used}), licence {source.licence}.")
    print("The first run converts the model (about a minute).")
    _check(checking.demo_plan(items, _probes(probes, probe_all)), out)


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
        print(f"{'ok ' if finding.ok else 'BAD'} {finding.what:<{width}}  {finding.state}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(COULD_NOT_JUDGE)


def _probes(failures: bool, everything: bool) -> Any:
    from lm_eval_illusion.harness.probe_runs import Probes

    return Probes.ALL if everything else Probes.FAILURES if failures else None


def _check(plan: Any, out: Path) -> None:
    from lm_eval_illusion.harness.check import run_check

    dense, pruned = run_check(plan, out)
    _report([dense, pruned], out / "report")


def _report(runs: list[Path], out: Path, *, html: bool = False) -> None:
    from lm_eval_illusion.report.build import build_report
    from lm_eval_illusion.report.render.text import render_text
    from lm_eval_illusion.report.write import write_report

    built = build_report(runs)
    write_report(built, out, html=html)
    wide = "COLUMNS" not in os.environ and not console.is_terminal
    console.print(render_text(built), width=FILE_WIDTH if wide else None)
    page = [out / "report.html"] if html else []
    print(
        "report: "
        + ", ".join(str(path) for path in [*page, *(out / n for n in ("report.md", "report.json", "items.jsonl"))])
    )


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
