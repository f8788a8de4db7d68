"""What pruning one model several times need not compute twice.

Reused: the calibration rows (read, tokenised, packed, hashed), and the statistics that no pruned weight has touched.
In the order "weight" those are the statistics of the first weights of the first block, with their factorised Hessian;
in the order "block" those of the whole first block, whose collecting forward is then left out. Not reused: whatever
lies behind a pruned weight, which is every later block: its inputs differ with method and sparsity. Magnitude and the
other methods without calibration have nothing to reuse.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from prune_hooks.capture import Batch
from prune_hooks.fingerprints import fingerprints
from prune_hooks.receipt import hash_weights
from prune_hooks.spec import PruneSpec
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.weights import Block

AMOUNTS = ("sparsity", "pattern", "allocation", "allocation_options")
"""Options of a spec that change how much is pruned, and nothing of the first block's inputs."""
Facts = dict[str, Any]
"""What a receipt says of the calibration."""
Loaded = tuple[torch.Tensor, Facts, "tuple[tuple[str, ...], torch.Tensor] | None"]
"""Calibration rows (n, length), the facts about them, and, where known, the languages there are with each token's place
among them (n, length)."""


@dataclass
class Shared:
    """A statistic and the stages it serves, kept in host memory."""

    stages: tuple[str, ...]
    """Names of the stages that read the input."""
    groups: tuple[Statistics, ...]
    """One for each group of a stage."""


@dataclass
class FirstBlock:
    """The first block's statistics as far as no pruned weight has touched them."""

    shared: list[Shared] = field(default_factory=list)
    _lent: list[tuple[Shared, Sequence[Statistics]]] = field(default_factory=list)

    def keep(self, stages: Iterable[str], statistics: Sequence[Statistics]) -> None:
        """Notes finished statistics before a method sees them."""
        shared = Shared(tuple(stages), tuple(one.copied(torch.device("cpu")) for one in statistics))
        self.shared.append(shared)
        self._lent.append((shared, statistics))

    def lend(self, shared: Shared, device: torch.device) -> list[Statistics]:
        """Returns statistics as they were kept, free for a method to use up."""
        lent = [one.copied(device) for one in shared.groups]
        self._lent.append((shared, lent))
        return lent

    def close(self) -> None:
        """Takes over the factors that a method had made of what it was lent."""
        for shared, statistics in self._lent:
            for kept, used in zip(shared.groups, statistics, strict=True):
                kept.take_factor(used, torch.device("cpu"))
        self._lent.clear()


class Reuse:
    """What is kept between calls of `prune` on one model, brought back to its dense weights in between.

    Everything is found by what it was made from, so that another calibration, seed, order, dtype, batch or method is
    never served it: a call with a reuse writes the same bits as one without.
    """

    def __init__(self) -> None:
        self._rows: dict[str, tuple[Any, Loaded]] = {}
        self._first: dict[str, FirstBlock] = {}

    def rows(self, spec: PruneSpec, tokenizer: Any, make: Callable[[PruneSpec, Any], Loaded]) -> Loaded:
        """Returns calibration rows (n, length) int64, the facts about them and their languages, made once.

        Args:
            spec: the calibration options.
            tokenizer: the same object each time, or the rows are made anew.
            make: makes them.
        """
        values = spec.to_dict()
        named = {key: value for key, value in values.items() if key.startswith("calibration") or key == "prune_seed"}
        source = spec.calibration
        files = fingerprints(Path(source).expanduser()) if isinstance(source, str) else {}
        key = json.dumps([named, files], sort_keys=True)
        held = self._rows.get(key)
        if held is None or held[0] is not tokenizer:
            held = (tokenizer, make(spec, tokenizer))
            self._rows[key] = held
        rows, facts, languages = held[1]
        return rows, dict(facts), languages

    def first_block(self, spec: PruneSpec, needs: Needs, block: Block, batches: Sequence[Batch]) -> FirstBlock:
        """Returns what is kept of the first block's statistics for these options; empty where nothing is yet.

        Args:
            spec: what is pruned and how.
            needs: what the method asks of its statistics.
            block: the first block, dense.
            batches: the calibration batches.
        """
        made = {key: value for key, value in spec.to_dict().items() if key not in AMOUNTS}
        made |= {"needs": needs.value, "weights": hash_weights(block.weights()), "batches": _digest(batches)}
        configs = [getattr(module, "config", None) for module in block.module.modules()]
        made["attention"] = sorted({str(getattr(config, "_attn_implementation", None)) for config in configs})
        made["devices"] = sorted({str(parameter.device) for parameter in block.module.parameters()})
        return self._first.setdefault(json.dumps(made, sort_keys=True), FirstBlock())


def _digest(batches: Sequence[Batch]) -> str:
    digest = hashlib.sha256()
    for batch in batches:
        for name, tensor in batch.items():
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
