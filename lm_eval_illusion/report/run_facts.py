"""What a results file says about how its run was made, free of the harness's layout."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.runs import IDENTITY, TOLD_ONLY, RunFacts

__all__ = ["RUN_AGAIN", "facts_of", "generation_of", "section"]

_PACKING = ("quantization", "load_in_8bit", "load_in_4bit", "autogptq", "gptqmodel", "quantization_config", "gguf_file")
"""Model arguments that say how weights are packed: vLLM's first, then those of hf."""
_ADAPTERS = ("peft", "delta", "lora_local_path")

RUN_AGAIN = "run `lm_eval ... --log_samples --output_path NEW_FOLDER` again"


def section(table: Mapping[str, Any], key: str, where: Path) -> dict[str, Any]:
    """An object inside another; empty where it is missing.

    Raises:
        IllusionError: It is there, but no object.
    """
    value = table.get(key)
    if value is not None and not isinstance(value, dict):
        raise IllusionError(
            f"{where}: {key} is a {type(value).__name__}, expected an object: edited or damaged; {RUN_AGAIN}"
        )
    return value or {}


def facts_of(results: Mapping[str, Any], where: Path) -> RunFacts:
    """The facts of a run.

    Args:
        results: The parsed results file.
        where: That file, for messages.

    Raises:
        IllusionError: A part of it has another type than the harness writes.
    """
    config = section(results, "config", where)
    illusion = section(config, "illusion", where)
    args = config.get("model_args")
    if isinstance(args, dict):
        args = ",".join(f"{key}={value}" for key, value in args.items())
    gen_kwargs = config.get("gen_kwargs")
    template = results.get("chat_template_sha")
    system = results.get("system_instruction")
    date = results.get("date")
    return RunFacts(
        model=str(config.get("model")),
        model_args=str(args or ""),
        date=float(date) if isinstance(date, (int, float)) else None,
        harness_version=_text(results.get("lm_eval_version")),
        transformers_version=_text(results.get("transformers_version")),
        identity=_identity(results, config, illusion, where),
        system_instruction=_text(system) if system else None,
        chat_template=_text(template) if results.get("chat_template") else None,
        fewshot_as_multiturn=results.get("fewshot_as_multiturn"),
        gen_kwargs=_text(gen_kwargs) if gen_kwargs else None,
        limit=config.get("limit"),
        use_cache=_text(config.get("use_cache")),
        batch_size=_text(config.get("batch_size")),
        device=_text(config.get("device")),
        enable_thinking=illusion.get("enable_thinking"),
        receipt=section(illusion, "receipt", where) or None,
    )


def _identity(
    results: Mapping[str, Any], config: Mapping[str, Any], illusion: Mapping[str, Any], where: Path
) -> dict[str, str | None]:
    """Return what was loaded: as pruned_hf tells it, else what the harness knows, else what was asked for.

    `hf` tells parameters, dtype and revision; vLLM and other backends nothing beside their arguments, and a dtype of
    "auto" there says nothing. The harness's own `device` is what was asked for, cuda:0 by default whatever was used,
    and says nothing either.
    """
    told, versions = section(illusion, "model", where), section(illusion, "versions", where)
    args = config.get("model_args") or {}
    if isinstance(args, str):
        args = dict(part.strip().partition("=")[::2] for part in args.split(","))
    torch = re.search(r"^PyTorch version: (\S+)", str(results.get("pretty_env_info")), re.MULTILINE)
    known = {
        "pretrained": args.get("pretrained") or args.get("model"),
        "revision": config.get("model_revision") or args.get("revision"),
        "parameters": config.get("model_num_parameters"),
        "dtype": config.get("model_dtype") or (None if args.get("dtype") == "auto" else args.get("dtype")),
        "adapter": _named(args, _ADAPTERS),
        "quantization": _named(args, _PACKING),
        "max_length": results.get("max_length"),
        "torch": versions.get("torch") or (torch and torch[1]),
        **{name: value for name, value in told.items() if value is not None},
    }
    facts = {name: _text(known.get(name)) for name in IDENTITY if name not in TOLD_ONLY or known.get(name) is not None}
    dtype, device = facts["dtype"], facts["device"]
    return {
        **facts,
        "dtype": dtype.removeprefix("torch.") if dtype else None,
        "device": device.partition(":")[0] if device else None,
    }


def _named(args: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return those of some arguments that were given, as `name=value`; None where none was."""
    given = [f"{name}={args[name]}" for name in names if args.get(name) not in (None, False, "", "False", "None")]
    return ", ".join(given) or None


def generation_of(config: object) -> str | None:
    """Generation arguments of a task as JSON with sorted keys; None where it generates nothing."""
    asked = config.get("generation_kwargs") if isinstance(config, dict) else None
    return json.dumps(asked, sort_keys=True, ensure_ascii=False, default=str) if asked else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
