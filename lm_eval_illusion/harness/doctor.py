"""What `lm-eval-illusion doctor` tells: what is installed, whether the hook works, which data and device serve."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import demo_model, names, plugin
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.sources import check_data, describe_sources

PACKAGES = ("lm-eval-illusion", "lm_eval", "torch", "transformers", "accelerate", "datasets", "gguf")


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis."""

    what: str
    """The subject."""
    state: str
    """What was found, with the command that mends it where it is not well."""
    ok: bool
    """Whether it is as it should be."""
    missing: bool = False
    """Not there, and not needed."""


def diagnose(data: str | None = None) -> list[Finding]:
    """Look at everything and change nothing.

    Args:
        data: Folder with tydiqa/ and xquad/, as `--metadata illusion_data` would name it.
    """
    return [*_packages(), *_hook(), *_tasks(), *_data(data), _demo(), _device()]


def _packages() -> list[Finding]:
    findings = []
    for name in PACKAGES:
        try:
            findings.append(Finding(name, version(name), True))
        except PackageNotFoundError:
            optional = name == "gguf"
            hint = f"not installed (only the demo needs it: {demo_model.INSTALL})" if optional else "not installed"
            findings.append(Finding(name, hint, optional, missing=optional))
    return findings


def _hook() -> list[Finding]:
    disclosed = "lm_eval_illusion_autoload.pth in site-packages, run at each start of Python; uninstalling removes it"
    if os.environ.get("LM_EVAL_ILLUSION_AUTOLOAD", "1").strip().lower() in ("0", "false", "no", "off"):
        state = "off (LM_EVAL_ILLUSION_AUTOLOAD); lm-eval-illusion run ... does the same without it"
        return [Finding("autoload hook", state, True)]
    probe = (
        "import lm_eval.models, lm_eval.tasks, sys\n"
        "from lm_eval.api.registry import model_registry\n"
        "hook = sys.modules.get('_lm_eval_illusion_autoload')\n"
        "print('yes' if 'pruned_hf' in model_registry else 'no')\n"
        "print('; '.join(hook.errors) if hook else 'the .pth file did not run')"
    )
    # A fresh interpreter without this checkout on its path sees what `lm_eval` itself would see.
    seen = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd=os.sep, check=False)
    known, _, errors = seen.stdout.strip().partition("\n")
    if known == "yes":
        return [Finding("autoload hook", f"active: {disclosed}", True)]
    why = errors or (seen.stderr.strip().splitlines() or ["no answer"])[-1]
    mend = "pip install --force-reinstall --no-deps lm-eval-illusion"
    return [Finding("autoload hook", f"NOT active ({why}); mend: {mend}, or use lm-eval-illusion run ...", False)]


def _tasks() -> list[Finding]:
    try:
        folder = plugin.tasks_folder()
    except FileNotFoundError as error:
        return [Finding("tasks", str(error), False)]
    here = {path.stem for path in folder.glob("*/*.yaml")}
    missing = sorted(set(names.all_tasks()) - here)
    state = f"{len(names.all_tasks())} tasks in {folder}"
    return [Finding("tasks", f"{state}; MISSING: {', '.join(missing)}" if missing else state, not missing)]


def _data(folder: str | None) -> list[Finding]:
    findings = []
    for source in describe_sources(folder):
        state, ok = f"{source.kind}: {source.where} (by {source.chosen_by}; licence {source.licence})", True
        if source.kind == "folder":
            try:
                for language in DATASETS[source.dataset].languages:
                    check_data(source.dataset, language, folder)
            except IllusionError as error:
                state, ok = str(error), False
        elif source.kind == "hub":
            state += "; whether the hub can be reached was not tried"
        findings.append(Finding(f"data: {source.dataset}", state, ok))
    return findings


def _demo() -> Finding:
    if not demo_model.installed():
        return Finding("demo model", f"not installed ({demo_model.INSTALL})", True, missing=True)
    kept = demo_model.converted_folder()
    state = f"converted, in {kept}" if kept.is_dir() else f"installed, to be converted on first use to {kept}"
    return Finding("demo model", f"Gemma 3 270M, {state}; licence: {demo_model.LICENCE}", True)


def _device() -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding("device", f"cuda: {torch.cuda.get_device_name(0)}", True)
    if torch.backends.mps.is_available():
        return Finding("device", "mps available; name it with --device mps (cpu otherwise)", True)
    return Finding("device", f"cpu, {torch.get_num_threads()} threads", True)
