"""Beyond the model, pruning holds one block's activations and statistics: measured in live tensors, not in RSS."""

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from prune_hooks import PruneSpec, counting, prune
from prune_hooks.statistics import Statistics
from prune_hooks.walk import Step
from tests.families import BOS, EOS, PAD, VOCAB, token_rows

ROWS, LENGTH, HIDDEN, WIDEST, FLOAT = 8, 64, 32, 48, 4
ORDERS = pytest.mark.parametrize("order", ["weight", "block"])


def _model(blocks: int) -> PreTrainedModel:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=HIDDEN,
            intermediate_size=WIDEST,
            num_hidden_layers=blocks,
            num_attention_heads=4,
            num_key_value_heads=2,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
        )
    ).eval()


class _Ledger:
    """Bytes of the storages that live now and at the most, the model's own left out."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._kept = [tensor.untyped_storage() for tensor in model.state_dict().values()]
        self._own = {storage._cdata for storage in self._kept}
        self._live: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.now = self.peak = 0

    def enter(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._own or key in self._live:
            return

        def leave(_: object) -> None:
            del self._live[key]
            self.now -= size

        self._live[key] = weakref.ref(storage, leave)
        self.now += size
        self.peak = max(self.peak, self.now)


class _Watch(TorchDispatchMode):
    """Enters every tensor that an operation returns."""

    def __init__(self, ledger: _Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in tree_leaves(out):
            if isinstance(value, torch.Tensor):
                self._ledger.enter(value.untyped_storage())
        return out


def _peak(monkeypatch: pytest.MonkeyPatch, blocks: int, spec: PruneSpec, batch_rows: int) -> int:
    ledger = _Ledger(model := _model(blocks))
    forward = Step._forward

    def watched(step: Step, batch: int) -> Any:
        with _Watch(ledger):  # a mode belongs to a thread, and lanes have their own
            return forward(step, batch)

    with monkeypatch.context() as patch, _Watch(ledger):
        patch.setattr(Step, "_forward", watched)
        prune(model, None, spec, progress=False, batch_rows=batch_rows)
    return ledger.peak


@ORDERS
@pytest.mark.parametrize("method", ["wanda", "sparsegpt"])
@pytest.mark.parametrize("batch_rows", [ROWS, 2])
def test_the_peak_is_one_blocks_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch, order: str, method: str, batch_rows: int
) -> None:
    spec = PruneSpec(method=method, sequential=order, calibration=token_rows(ROWS, LENGTH))
    two, six = (_peak(monkeypatch, blocks, spec, batch_rows) for blocks in (2, 6))
    assert six <= 1.01 * two
    # What rows_at_once counts for a block's forward over all rows, and a Hessian, its factor and their scratch.
    activations = ROWS * LENGTH * (6 * HIDDEN + 4 * WIDEST) * FLOAT
    statistics = 4 * WIDEST * WIDEST * FLOAT
    assert six <= activations + statistics


def test_the_measure_sees_hidden_states_kept_by_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = PruneSpec(sequential="block", calibration=token_rows(ROWS, LENGTH))
    plain = _peak(monkeypatch, 6, spec, ROWS)
    kept: list[torch.Tensor] = []
    advance = Step.advance

    def hoard(step: Step, batch: int) -> None:
        kept.append(step.hidden(batch))
        advance(step, batch)

    monkeypatch.setattr(Step, "advance", hoard)
    assert _peak(monkeypatch, 6, spec, ROWS) >= plain + 4 * ROWS * LENGTH * HIDDEN * FLOAT


@ORDERS
@pytest.mark.parametrize("batch_rows", [ROWS, 2])
def test_statistics_of_one_block_are_alive_at_once(
    monkeypatch: pytest.MonkeyPatch, order: str, batch_rows: int
) -> None:
    alive: weakref.WeakSet[Statistics] = weakref.WeakSet()
    crowds: list[set[str]] = []

    class Counted(Statistics):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            alive.add(self)
            crowds.append({statistics.name.split(".")[2] for statistics in alive})

    monkeypatch.setattr(counting, "Statistics", Counted)
    spec = PruneSpec(method="sparsegpt", sequential=order, calibration=token_rows(ROWS, LENGTH))
    prune(_model(6), None, spec, progress=False, batch_rows=batch_rows)
    assert len(crowds) == 6 * 4  # q, k, v share one; o; gate and up share one; down
    assert set().union(*crowds) == set("012345")
    assert all(len(blocks) == 1 for blocks in crowds)
    assert not alive
