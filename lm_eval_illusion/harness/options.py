"""Which options `pruned_hf` takes, so that a misspelt one is an error before anything is loaded.

`HFLM` hands unknown keyword arguments on to `from_pretrained`, where a typo may vanish or end in a long traceback.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from lm_eval.models.huggingface import HFLM

from lm_eval_illusion.errors import IllusionError, did_you_mean

FROM_PRETRAINED = frozenset(
    {
        "attn_implementation",
        "cache_dir",
        "code_revision",
        "config",
        "device_map",
        "experts_implementation",
        "force_download",
        "generation_config",
        "ignore_mismatched_sizes",
        "key_mapping",
        "load_in_4bit",
        "load_in_8bit",
        "local_files_only",
        "low_cpu_mem_usage",
        "max_memory",
        "offload_buffers",
        "offload_state_dict",
        "proxies",
        "quantization_config",
        "token",
        "tp_size",
        "use_safetensors",
        "variant",
        "weights_only",
    }
)
"""Keyword arguments of transformers' `from_pretrained` that may follow on `--model_args`."""


def harness_options() -> frozenset[str]:
    """Return the names of HFLM's own parameters."""
    named = inspect.signature(HFLM.__init__).parameters.values()
    return frozenset(p.name for p in named if p.kind is not p.VAR_KEYWORD and p.name != "self")


def check_known(given: Mapping[str, Any], own: Iterable[str]) -> None:
    """Raise for a keyword argument that neither this project, HFLM nor `from_pretrained` knows.

    Args:
        given: What came after this project's own options were taken out.
        own: This project's option names, for the list in the message.

    Raises:
        IllusionError: Naming the unknown option, the nearest known one, and this project's options.
    """
    known = harness_options() | FROM_PRETRAINED
    for name in given:
        if name in known or (name.startswith("bnb_4bit_")):
            continue
        options = sorted(own)
        hint = did_you_mean(name, [*options, *sorted(known)])
        raise IllusionError(
            f"--model_args: pruned_hf has no option {name!r}.{hint} Its own options: {', '.join(options)}; "
            "besides, everything that --model hf takes (lists are joined with +, not with commas)"
        )
