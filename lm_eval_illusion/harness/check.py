"""One command for one checkpoint: dense, pruned, report.

Each of the two runs is an ordinary `lm_eval` run in its own folder; a finished one is not run again.
"""

from __future__ import annotations

import gc
import json
import logging
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lm_eval_illusion import __version__
from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import demo_model, launch, names

log = logging.getLogger("lm_eval.illusion")

MARKER = "illusion_check.json"


@dataclass(frozen=True)
class CheckPlan:
    """What `check` compares."""

    pretrained: str
    """Folder or hub name of the model."""
    model_args: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the model for both runs (dtype, revision, ...)."""
    pruning: dict[str, Any] = field(default_factory=dict)
    """Options of the pruned run (method, sparsity, ...)."""
    tasks: tuple[str, ...] = ("illusion_mini",)
    """Data sets, languages of them, or tasks."""
    items: int | None = None
    """Items a language; None asks all."""
    num_fewshot: int | None = None
    """Demonstrations; None means one for base models and none where a chat template is applied."""
    chat_template: bool | None = None
    """Whether to apply the chat template; None applies it where the tokenizer has one."""
    data: str | None = None
    """Folder with tydiqa/ and xquad/."""
    batch_size: str = "8"
    """Batch size of both runs."""
    device: str | None = None
    """Device of both runs; None leaves the choice to the harness."""


def run_check(plan: CheckPlan, out: Path) -> tuple[Path, Path]:
    """Run dense and pruned in turn.

    Args:
        plan: What to run.
        out: Folder for the two run folders, `dense` and `pruned`.

    Returns:
        The two run folders, dense first.

    Raises:
        IllusionError: If a folder holds another run, data is missing or a run left no files.
    """
    dense = {**plan.model_args, "pretrained": plan.pretrained, "method": "none"}
    pruned = {**plan.model_args, "pretrained": plan.pretrained, **plan.pruning}
    _validate(plan, pruned)
    plan = _with_prompting(plan)
    for folder, model_args in ((out / "dense", dense), (out / "pruned", pruned)):
        _standing(folder, _wanted(plan, model_args))
    # The pruned run goes first: whatever cannot be pruned or calibrated should show before the dense run is paid for.
    pruned_folder = _one(plan, pruned, out / "pruned")
    return _one(plan, dense, out / "dense"), pruned_folder


def arguments(plan: CheckPlan, model_args: dict[str, Any], folder: Path) -> list[str]:
    """Return the `lm_eval run` arguments of one run."""
    words = ["--model", "pruned_hf", "--model_args", json.dumps(model_args)]
    words += ["--tasks", ",".join(names.with_all_halves(plan.tasks)), "--batch_size", plan.batch_size]
    metadata: dict[str, Any] = {}
    if plan.items is not None:
        metadata["illusion_items_per_language"] = plan.items
    if plan.data is not None:
        metadata["illusion_data"] = plan.data
    if metadata:
        words += ["--metadata", json.dumps(metadata)]
    if plan.num_fewshot is not None:
        words += ["--num_fewshot", str(plan.num_fewshot)]
    if plan.chat_template:
        words += ["--apply_chat_template"]
    if plan.device:
        words += ["--device", plan.device]
    return [*words, "--log_samples", "--output_path", str(folder)]


def _validate(plan: CheckPlan, pruned: dict[str, Any]) -> None:
    """Find what is wrong with the words of the command before anything is loaded."""
    from lm_eval_illusion.harness.options import check_known
    from prune_hooks import PruneSpec
    from prune_hooks.registry import get_allocation, get_method

    halves = names.with_all_halves(plan.tasks)
    spec, rest = PruneSpec.from_model_args(dict(pruned))
    get_method(spec.method)
    get_allocation(spec.allocation)
    rest.pop("pretrained")
    check_known(rest, PruneSpec.option_names())
    launch.check_data_of(halves, plan.data)


def _with_prompting(plan: CheckPlan) -> CheckPlan:
    """Decide the prompt: a base model wants a demonstration, an instruct model its chat template."""
    chat = plan.chat_template
    if chat is None:
        chat = bool(_tokenizer(plan).chat_template)
        if chat and plan.num_fewshot is None:
            log.warning(
                "the tokenizer has a chat template, so it is applied, without demonstrations; "
                "a base model that carries one wants --no-chat-template"
            )
    shots = plan.num_fewshot if plan.num_fewshot is not None else (0 if chat else 1)
    return replace(plan, chat_template=chat, num_fewshot=shots)


def _tokenizer(plan: CheckPlan) -> Any:
    from transformers import AutoTokenizer

    keep = ("revision", "trust_remote_code", "gguf_file", "subfolder")
    chosen = {key: value for key, value in plan.model_args.items() if key in keep}
    source = plan.model_args.get("tokenizer", plan.pretrained)
    try:
        return AutoTokenizer.from_pretrained(source, **chosen)
    except (OSError, ValueError) as error:
        raise IllusionError(
            f"--pretrained {plan.pretrained}: no tokenizer could be loaded ({str(error).splitlines()[0]}); expected a "
            "folder written by save_pretrained or a model name on the hub"
        ) from error


def _wanted(plan: CheckPlan, model_args: dict[str, Any]) -> dict[str, Any]:
    """Return everything a finished run was made from: the words, the code's version and the files they name."""
    named = (plan.pretrained, plan.pruning.get("calibration"), plan.data)
    files = {str(path): _fingerprints(Path(str(path))) for path in named if path is not None}
    words = {**asdict(plan), "model_args": model_args, "version": __version__, "files": files}
    made: dict[str, Any] = json.loads(json.dumps(words))
    return made


def _fingerprints(path: Path) -> dict[str, list[int]]:
    """Return name -> [size, time of change in ns] of a file, or of the files in a folder; {} for a name on the hub."""
    found = [path] if path.is_file() else sorted(p for p in path.glob("**/*") if p.is_file()) if path.is_dir() else []
    return {str(p.relative_to(path.parent)): [p.stat().st_size, p.stat().st_mtime_ns] for p in found}


def _standing(folder: Path, wanted: dict[str, Any]) -> bool:
    """Say whether a folder already holds the wanted run, finished.

    Raises:
        IllusionError: If it holds a finished run made from something else, or files that `check` did not write.
    """
    marker = folder / MARKER
    if marker.is_file():
        held = json.loads(marker.read_text(encoding="utf-8"))
        if not held["finished"] or held["made_from"] == wanted:
            return bool(held["finished"])
        differs = sorted(key for key in wanted if held["made_from"].get(key) != wanted[key])
        raise IllusionError(
            f"{folder}: holds a run with other {', '.join(differs)}; choose another --out or remove the folder"
        )
    if folder.exists() and any(folder.iterdir()):
        raise IllusionError(f"{folder}: not empty and not written by check; choose another --out")
    return False


def _mark(folder: Path, wanted: dict[str, Any], *, finished: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f"{MARKER}.tmp"
    scratch.write_text(json.dumps({"finished": finished, "made_from": wanted}, indent=1), encoding="utf-8")
    os.replace(scratch, folder / MARKER)


def _one(plan: CheckPlan, model_args: dict[str, Any], folder: Path) -> Path:
    wanted = _wanted(plan, model_args)
    if _standing(folder, wanted):
        log.info("%s: already run with these options, kept", folder)
        return folder
    for path in folder.rglob("*") if (folder / MARKER).is_file() else ():
        if path.is_file() and path.name.startswith(("results_", "samples_")):
            path.unlink()  # of our own interrupted run: the marker says so
    _mark(folder, wanted, finished=False)
    launch.run(arguments(plan, model_args, folder))
    _mark(folder, wanted, finished=True)
    gc.collect()
    return folder


def demo_plan(items: int) -> CheckPlan:
    """Return the demo: Gemma 3 270M, Wanda at 0.5, the shipped questions in all languages."""
    return CheckPlan(pretrained=str(demo_model.checkpoint()), pruning={"method": "wanda", "sparsity": 0.5}, items=items)
