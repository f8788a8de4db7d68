"""How a checkpoint is stored, told from its configuration and its files, and which of its weights can be counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_illusion.harness.checkpoint.files import Stored, read_json

FLOATS = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})
"""Stored types in which a zero weight is a zero."""
COUNTABLE = "float tensors are counted; integer ones are not"
_PACKED = "packed weights are not counted: several share a number, and a code need not mean zero"

METHODS: dict[str, tuple[str, str]] = {
    "compressed-tensors": ("compressed-tensors", COUNTABLE),
    "bitsandbytes": ("bitsandbytes", _PACKED),
    "gptq": ("GPTQ", _PACKED),
    "awq": ("AWQ", _PACKED),
    "torchao": ("torchao", _PACKED),
    "gguf": ("GGUF", _PACKED),
    "fp8": ("FP8", "8-bit floats are counted"),
    "fbgemm_fp8": ("FBGEMM FP8", "8-bit floats are counted"),
    "mxfp4": ("MXFP4", _PACKED),
    "hqq": ("HQQ", _PACKED),
    "quanto": ("Quanto", _PACKED),
    "modelopt": ("NVIDIA ModelOpt", _PACKED),
}
"""quant_method of a configuration -> its name, and what can be counted of it."""

CT_FORMATS: dict[str, str] = {
    "dense": "weights lie as they are: all are counted",
    "sparse-bitmask": "zeros are not stored: counted, with their pattern, from the bit masks",
    "sparse-24-bitmask": "zeros are not stored: counted, with their pattern, from the bit masks",
    "marlin-24": _PACKED,
    "int-quantized": "8-bit integers with a scale and no zero point are counted (0 means 0), others not",
    "float-quantized": "8-bit floats are counted",
    "naive-quantized": "8-bit integers with a scale and no zero point are counted (0 means 0), others not",
    "mxfp8-quantized": "8-bit floats are counted",
    "pack-quantized": _PACKED,
    "nvfp4-pack-quantized": _PACKED,
    "mxfp4-pack-quantized": _PACKED,
    "mixed-precision": "what is stored as floats is counted, what is packed is not",
}
"""Formats of compressed-tensors -> what can be counted of them."""

_OTHER_FILES = {"quantize_config.json": "gptq", "quant_config.json": "awq", "hf_quant_config.json": "modelopt"}
"""Files of older tools that keep their settings beside config.json."""


@dataclass(frozen=True)
class Format:
    """How a checkpoint is stored."""

    method: str | None
    """quant_method, None for plain weights."""
    name: str
    detail: str | None
    """What the configuration says of it: format, bits, groups."""
    reads: str
    """What is counted and what is not, in words."""


def format_of(folder: Path, config: Mapping[str, Any], tensors: Iterable[Stored]) -> Format:
    """Say how a checkpoint is stored.

    Args:
        folder: Where it lies.
        config: Its config.json.
        tensors: What it holds; tells bit masks and scales where the configuration is silent.
    """
    told = config.get("quantization_config") or config.get("compression_config")
    if isinstance(told, Mapping):
        return _told(told)
    for name, method in _OTHER_FILES.items():
        held = read_json(folder / name) if folder.is_dir() else {}
        if held:
            return _told({**held, "quant_method": method})
    names = [stored.name for stored in tensors]
    if any(name.endswith(".bitmask") for name in names):
        return Format("compressed-tensors", "compressed-tensors", "bit masks", CT_FORMATS["sparse-bitmask"])
    packed = next((name for name in names if name.endswith((".qweight", ".weight_packed"))), None)
    if packed:
        return Format("unknown", "packed, of no named format", None, _PACKED)
    recipe = "llmcompressor's recipe.yaml is beside it" if (folder / "recipe.yaml").is_file() else None
    return Format(None, "plain safetensors", recipe, "all weights are counted")


def _told(told: Mapping[str, Any]) -> Format:
    method = str(told.get("quant_method") or ("bitsandbytes" if "load_in_4bit" in told else "compressed-tensors"))
    sparsity = told.get("sparsity_config")
    inner = [str(told["format"])] if told.get("format") else []
    if isinstance(sparsity, Mapping) and sparsity.get("format"):
        inner.append(str(sparsity["format"]))
    name, reads = METHODS.get(method, (method, f"unknown format: {COUNTABLE}"))
    if method == "compressed-tensors":
        stored = [f for f in inner if f != "dense"] or inner
        reads = "; ".join(dict.fromkeys(CT_FORMATS.get(f, f"unknown format {f}: {COUNTABLE}") for f in stored)) or reads
    elif method == "bitsandbytes" and told.get("load_in_8bit"):
        reads = "8-bit integers with a scale are counted: 0 means 0"
    sizes = ("bits", "w_bit", "group_size", "q_group_size")
    details = [*inner, *(f"{key} {told[key]}" for key in sizes if key in told)]
    details += [key for key in ("load_in_4bit", "load_in_8bit") if told.get(key)]
    kind = told.get("quant_type")  # torchao's: text, or the name and fields of a class
    if isinstance(kind, Mapping):
        inside = kind.get("default")
        kind = inside.get("_type") if isinstance(inside, Mapping) else None
    details += [str(kind)] if kind else []
    return Format(method, name, ", ".join(filter(None, details)) or None, reads)


def quantisation_of(config: Any) -> str | None:
    """Return the format that a loaded model's configuration names, in a few words; None for plain weights."""
    told: Any = getattr(config, "quantization_config", None)
    told = told.to_dict() if hasattr(told, "to_dict") else told
    if not isinstance(told, Mapping):
        return None
    form = _told({**told, "quant_method": getattr(told.get("quant_method"), "value", told.get("quant_method"))})
    dequantised = "dequantised" if told.get("dequantize") else None
    return ", ".join(filter(None, (form.name, form.detail, dequantised)))
