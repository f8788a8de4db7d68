"""One run of the harness, planned: what is asked of which model, and the words of `lm_eval run` that ask it."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lm_eval_illusion import __version__
from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import launch, names
from lm_eval_illusion.harness.feed import Feeding
from lm_eval_illusion.harness.run_files import files_named
from lm_eval_illusion.pairs.sources import DATA_VARIABLE

log = logging.getLogger("lm_eval.illusion")

TOKENIZER_OPTIONS = ("revision", "trust_remote_code", "gguf_file", "subfolder")
"""Model arguments that also decide which tokenizer is loaded."""


@dataclass(frozen=True)
class PlannedRun:
    """What one run asks, dense or pruned."""

    pretrained: str
    """Folder or hub name of the model."""
    model_args: dict[str, Any] = field(default_factory=dict)
    """Everything else on `--model_args`: method, sparsity, ..., dtype, revision, ..."""
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
    """Batch size, or auto."""
    device: str | None = None
    """Device; None leaves the choice to the harness."""
    feeding: Feeding | None = None
    """Finished runs whose failures are asked, or whose answers are shown again."""

    def arguments(self, folder: Path) -> list[str]:
        """Return the `lm_eval run` arguments that write this run to a folder."""
        model_args = {**self.model_args, "pretrained": self.pretrained}
        words = ["--model", "pruned_hf", "--model_args", json.dumps(model_args)]
        words += ["--tasks", ",".join(names.with_all_halves(self.tasks)), "--batch_size", self.batch_size]
        metadata: dict[str, Any] = {}
        if self.items is not None:
            metadata["illusion_items_per_language"] = self.items
        if self.data is not None:
            metadata["illusion_data"] = self.data
        if metadata:
            words += ["--metadata", json.dumps(metadata)]
        if self.num_fewshot is not None:
            words += ["--num_fewshot", str(self.num_fewshot)]
        if self.chat_template:
            words += ["--apply_chat_template"]
        if self.device:
            words += ["--device", self.device]
        return [*words, "--log_samples", "--output_path", str(folder)]

    def validate(self) -> None:
        """Find what is wrong with the options before anything is loaded; the data is looked for too.

        Raises:
            IllusionError: For unknown options or tasks, or missing data.
            PruneError: For pruning options that cannot be.
        """
        from lm_eval_illusion.harness.options import check_known
        from prune_hooks import PruneSpec
        from prune_hooks.foresight import check_spec

        halves = names.with_all_halves(self.tasks)
        if self.pretrained.startswith(("/", "./", "../", "~")) and not os.path.isdir(self.pretrained):
            raise IllusionError(
                f"--pretrained {self.pretrained}: no such folder; expected a model's folder or hub name"
            )
        spec, rest = PruneSpec.from_model_args(self.model_args)
        check_spec(spec)
        check_known(rest, PruneSpec.option_names())
        launch.check_data_of(halves, self.data)

    def with_prompting(self) -> PlannedRun:
        """Decide the prompt: a base model wants a demonstration, an instruct model its chat template.

        Raises:
            IllusionError: If the tokenizer has to be asked and cannot be loaded.
        """
        chat = self.chat_template
        if chat is None:
            chat = bool(self._tokenizer().chat_template)
            if chat and self.num_fewshot is None:
                log.warning(
                    "the tokenizer has a chat template, so it is applied, without demonstrations; "
                    "a base model that carries one wants --no-chat-template"
                )
        shots = self.num_fewshot if self.num_fewshot is not None else (0 if chat else 1)
        return replace(self, chat_template=chat, num_fewshot=shots)

    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        chosen = {key: value for key, value in self.model_args.items() if key in TOKENIZER_OPTIONS}
        source = self.model_args.get("tokenizer", self.pretrained)
        try:
            return AutoTokenizer.from_pretrained(source, **chosen)
        except (OSError, ValueError) as error:
            raise IllusionError(
                f"--pretrained {self.pretrained}: no tokenizer could be loaded ({str(error).splitlines()[0]}); "
                "expected a folder written by save_pretrained or a model name on the hub"
            ) from error

    def made_from(self) -> dict[str, Any]:
        """Return everything a finished run was made from: the options, the code's version and the files they name."""
        fed = (self.feeding.answers, *self.feeding.failures) if self.feeding is not None else ()
        data = self.data if self.data is not None else os.environ.get(DATA_VARIABLE)
        files = files_named(self.model_args, (self.pretrained, data, *fed))
        words: dict[str, Any] = json.loads(json.dumps({**asdict(self), "version": __version__, "files": files}))
        if self.feeding is None:
            del words["feeding"]
        return words
