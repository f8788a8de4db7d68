"""What a measurement was made by: versions of packages and a digest of the sources, on which machine and when."""

from __future__ import annotations

import hashlib
import subprocess
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pair import machine

PACKAGES = ("torch", "transformers", "lm-eval", "accelerate", "datasets", "tokenizers", "lm-eval-illusion")
RIVAL_PACKAGES = ("llmcompressor", "transformers", "torch")
"""Of llmcompressor's environment."""
KINDS = {".py", ".json", ".txt", ".yaml"}
"""Of source files: code, and the questions, texts and tasks that are measured on."""


def folders() -> list[Path]:
    """Return where the sources lie: both packages as they are imported, the tasks, these scripts."""
    root = Path(__file__).parents[1]
    packages = [find_spec(name) for name in ("prune_hooks", "lm_eval_illusion")]
    found = [Path(spec.origin).parent for spec in packages if spec is not None and spec.origin is not None]
    return [*found, root / "tasks", root / "benchmarks"]


def digest(places: list[Path]) -> str:
    """Return a SHA-256 over the sources in some folders, their names included; a file may stand for a folder."""
    whole = hashlib.sha256()
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in KINDS and path.is_file():
                name = f"{place.name}/{path.relative_to(place)}".encode()
                content = path.read_bytes()
                whole.update(b"%d %d " % (len(name), len(content)) + name + content)
    return whole.hexdigest()


def rival_versions(python: str) -> dict[str, str]:
    """Return the versions in llmcompressor's environment; none if it cannot be asked (pruning.py says why)."""
    code = f"from importlib.metadata import version\nfor name in {RIVAL_PACKAGES}: print(name, version(name))"
    seen = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return dict(row.split() for row in seen.stdout.splitlines()) if seen.returncode == 0 else {}


def made_by(rival: str | None, scripts: list[Path]) -> dict[str, Any]:
    """Return what decides whether a kept result is still this project's.

    Args:
        rival: The python of llmcompressor's environment, where it is used.
        scripts: Files from elsewhere that are run as well.
    """
    found: dict[str, Any] = {"packages": {name: version(name) for name in PACKAGES}}
    if rival is not None:
        found["rival_packages"] = rival_versions(rival)
    return found | {"sources": digest([*folders(), *scripts])}


def now_here() -> dict[str, Any]:
    """Return the date and the machine."""
    return {"date": time.strftime("%Y-%m-%d"), "machine": machine()}


def described(found: dict[str, Any]) -> str:
    """Return date, machine and versions of one kept measurement, in words."""
    here, made = found["machine"], found["made_by"]
    words = [found["date"], here.get("cpu") or "unknown processor", f"{here['cpus']} cores", here["platform"]]
    packages = ", ".join(f"{name} {number}" for name, number in made["packages"].items())
    text = f"{', '.join(words)}, Python {here['python']}; {packages}"
    if made.get("rival_packages"):
        text += "; beside llmcompressor: " + ", ".join(f"{name} {n}" for name, n in made["rival_packages"].items())
    return f"{text}; sources {made['sources'][:12]}."
