"""The commands that run one checkpoint dense and pruned, `check` and `demo`; `cli` adds them to the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from lm_eval_illusion.model_words import key_values
from lm_eval_illusion.report_commands import HTML_HELP, write_and_show

PROBES_HELP = "Afterwards look for the answers that either model failed to give: every recovery probe, on both."
PROBE_ALL_HELP = "The same on all items."


def check(
    pretrained: Annotated[str, typer.Option("--pretrained", help="Model folder or hub name.")],
    method: Annotated[str, typer.Option("--method", help="Pruning method; docs/methods.md lists them.")] = "wanda",
    method_options: Annotated[str | None, typer.Option("--method_options", help="Its options, name:value+...")] = None,
    sparsity: Annotated[str | None, typer.Option("--sparsity", help="Share of weights to remove (0.5).")] = None,
    pattern: Annotated[str | None, typer.Option("--pattern", help="unstructured, 2:4, 4:8, n:m.")] = None,
    allocation: Annotated[
        str | None, typer.Option("--allocation", help="uniform, owl, correlation, file:PATH.")
    ] = None,
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
    model_args: Annotated[str, typer.Option("--model_args", help="More options of pruned_hf, key=value,...")] = "",
    data: Annotated[str | None, typer.Option("--data", help="Folder with tydiqa/ and xquad/.")] = None,
    batch_size: Annotated[str, typer.Option("--batch_size", help="Batch size, or auto.")] = "8",
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:0, mps.")] = None,
    probes: Annotated[bool, typer.Option("--probes", help=PROBES_HELP)] = False,
    probe_all: Annotated[bool, typer.Option("--probe-all", help=PROBE_ALL_HELP)] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for all runs and the report.")] = Path("runs/check"),
    html: Annotated[bool, typer.Option("--html", help=HTML_HELP)] = False,
) -> None:
    """Run one checkpoint dense and pruned, and report what changed."""
    from lm_eval_illusion.harness.check import CheckPlan
    from lm_eval_illusion.harness.planned import PlannedRun

    pruning: dict[str, Any] = {
        "method": method,
        "method_options": method_options,
        "allocation": allocation,
        "sparsity": sparsity,
        "pattern": pattern,
        "calibration": calibration,
        "calibration_languages": calibration_languages,
        "calibration_samples": calibration_samples,
        "calibration_length": calibration_length,
    }
    asked = PlannedRun(
        pretrained=pretrained,
        model_args=key_values(model_args),
        tasks=tuple(name for name in tasks.split(",") if name),
        items=items,
        num_fewshot=num_fewshot,
        chat_template=chat_template,
        data=data,
        batch_size=batch_size,
        device=device,
    )
    given = {key: value for key, value in pruning.items() if value is not None}
    _check(CheckPlan(asked, given, _probes(probes, probe_all)), out, html=html)


def demo(
    items: Annotated[int, typer.Option("--items", min=1, help="Questions a language.")] = 8,
    probes: Annotated[bool, typer.Option("--probes", help=PROBES_HELP)] = False,
    probe_all: Annotated[bool, typer.Option("--probe-all", help=PROBE_ALL_HELP)] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for all runs and the report.")] = Path("runs/demo"),
    html: Annotated[bool, typer.Option("--html", help=HTML_HELP)] = False,
) -> None:
    """Prune Gemma 3 270M with Wanda at 50 % and see whether it still answers (8 languages, no network)."""
    from lm_eval_illusion.harness import check as checking
    from lm_eval_illusion.harness import demo_model
    from lm_eval_illusion.pairs.sources import describe_sources

    print(f"Model: Gemma 3 270M, under the {demo_model.LICENCE}.")
    for source in describe_sources():
        used = "asked here" if source.dataset == "illusion_mini" else "not asked here"
        print(f"Questions: {source.dataset} ({used}), licence {source.licence}.")
    if conversion := demo_model.conversion():
        print(conversion)
    _check(checking.demo_plan(items, _probes(probes, probe_all)), out, html=html)


def _probes(failures: bool, everything: bool) -> Any:
    from lm_eval_illusion.harness.probe_runs import Probes

    return Probes.ALL if everything else Probes.FAILURES if failures else None


def _check(plan: Any, out: Path, *, html: bool) -> None:
    from lm_eval_illusion.harness.check import run_check

    notes = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    dense, pruned = run_check(plan, out, notes.print)
    write_and_show([dense, pruned], out / "report", html=html)


def add_to(app: typer.Typer) -> None:
    """Add both commands to an app."""
    app.command()(check)
    app.command()(demo)
