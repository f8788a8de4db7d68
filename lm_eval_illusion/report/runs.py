"""What a run was: plain facts read from a results file, free of the harness's layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval_illusion.report.halves import Half

__all__ = ["IDENTITY", "TOLD_ONLY", "Document", "HalfRecord", "Run", "RunFacts", "TaskFacts"]

IDENTITY = (
    "pretrained",
    "revision",
    "base",
    "base_revision",
    "adapter",
    "quantization",
    "model_type",
    "class",
    "parameters",
    "dtype",
    "attn_implementation",
    "max_length",
    "device",
    "torch",
)
"""Facts about the loaded model that a results file may tell; `TOLD_ONLY` are left out where it does not."""

TOLD_ONLY = ("base", "base_revision", "adapter", "quantization")
"""Of a checkpoint that was exported, the one it was pruned from; adapters put on; how weights are packed."""


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One task of a run."""

    name: str
    version: str
    """Task version as text; a changed task is not comparable."""
    num_fewshot: int
    generation: str | None
    """The generation arguments in effect, as JSON with sorted keys; None where the task generates nothing."""
    records: int
    """Sample records read."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """How the run was made. None means that the results file does not say."""

    model: str
    model_args: str
    date: float | None
    harness_version: str | None
    transformers_version: str | None
    identity: Mapping[str, str | None]
    """What was loaded, by the names in `IDENTITY`."""
    system_instruction: str | None
    chat_template: str | None
    """The template's SHA-256 (None: no chat template)."""
    fewshot_as_multiturn: bool | None
    gen_kwargs: str | None
    limit: float | None
    use_cache: str | None
    batch_size: str | None
    device: str | None
    enable_thinking: bool | None
    receipt: Mapping[str, Any] | None
    """The pruning receipt, None for a dense model or another backend."""

    @property
    def left_as_it_is(self) -> bool:
        """Whether the checkpoint was loaded and nothing done to it: whatever made it, no receipt tells."""
        spec = (self.receipt or {}).get("spec")
        return isinstance(spec, dict) and spec.get("method") == "none"

    def origin(self, name: str) -> str | None:
        """A fact of `identity`; of an exported checkpoint, `pretrained` and `revision` of the one it was made from."""
        if name in ("pretrained", "revision") and self.identity.get("base") is not None:
            name = {"pretrained": "base", "revision": "base_revision"}[name]
        return self.identity.get(name)


@dataclass(frozen=True, slots=True)
class HalfRecord:
    """One half of an item with what proves that two runs saw the same thing."""

    task: str
    doc_hash: str
    prompt_hash: str
    half: Half
    options: str | None = None
    """SHA-256 of the options that the item's row holds; None where it holds none."""


@dataclass(frozen=True, slots=True)
class Document:
    """The question itself, for the items file and leak measures."""

    question: str
    passage: str


@dataclass(frozen=True)
class Run:
    """One run: facts, tasks and the halves, keyed by condition and item id."""

    path: Path
    """As the user named it."""
    results_file: Path
    facts: RunFacts
    tasks: Mapping[str, TaskFacts]
    halves: Mapping[str, Mapping[str, HalfRecord]]
    """condition -> item_id -> half."""
    documents: Mapping[str, Document] = field(default_factory=dict)

    def tasks_under(self, conditions: Iterable[str]) -> list[str]:
        """The tasks that asked under any of these conditions, sorted."""
        return sorted({r.task for name in conditions for r in self.halves.get(name, {}).values()})
