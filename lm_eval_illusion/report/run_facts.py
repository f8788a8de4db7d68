"""What a results file says about how its run was made, free of the harness's layout."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.runs import IDENTITY, RunFacts

__all__ = ["RUN_AGAIN", "facts_of", "generation_of", "section"]

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
    """Return what was loaded: as pruned_hf tells it, else what the harness knows.

    The harness's own `device` is what was asked for, cuda:0 by default whatever was used, and says nothing.
    """
    told, versions = section(illusion, "model", where), section(illusion, "versions", where)
    args = config.get("model_args") or {}
    if isinstance(args, str):
        args = dict(part.strip().partition("=")[::2] for part in args.split(","))
    torch = re.search(r"^PyTorch version: (\S+)", str(results.get("pretty_env_info")), re.MULTILINE)
    known = {
        "pretrained": args.get("pretrained"),
        "revision": config.get("model_revision"),
        "parameters": config.get("model_num_parameters"),
        "dtype": config.get("model_dtype"),
        "max_length": results.get("max_length"),
        "torch": versions.get("torch") or (torch and torch[1]),
        **told,
    }
    facts = {name: _text(known.get(name)) for name in IDENTITY}
    dtype, device = facts["dtype"], facts["device"]
    return {
        **facts,
        "dtype": dtype.removeprefix("torch.") if dtype else None,
        "device": device.partition(":")[0] if device else None,
    }


def generation_of(config: object) -> str | None:
    """Generation arguments of a task as JSON with sorted keys; None where it generates nothing."""
    asked = config.get("generation_kwargs") if isinstance(config, dict) else None
    return json.dumps(asked, sort_keys=True, ensure_ascii=False, default=str) if asked else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
