from typing import Any

import pytest
import torch
from torch import nn

from prune_hooks import PruneError
from prune_hooks.batches import make_batches
from prune_hooks.capture import Batch, Pool
from prune_hooks.targets import find_targets
from prune_hooks.walk import walk
from tests.families import FAMILIES, build, token_rows


def _walked(model: Any, batches: list[Batch]) -> list[list[torch.Tensor]]:
    """The hidden states that enter each block, per batch, of a walk that changes nothing."""
    entered = []
    with torch.no_grad():
        for step in walk(model, find_targets(model), batches):
            entered.append([step.hidden(batch) for batch in step.batches])
            for batch in step.batches:
                step.advance(batch)
    return entered


def _own(model: Any, batch: Batch) -> list[torch.Tensor]:
    """The same by the model's own account (its last entry is taken after the final norm, hence left out)."""
    with torch.no_grad():
        out = model(**batch, use_cache=False, output_hidden_states=True)
    if model.config.is_encoder_decoder:
        return [*out.encoder_hidden_states[:-1], *out.decoder_hidden_states[:-1]]
    return list(out.hidden_states[:-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("attn", ["eager", "sdpa"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_walk_that_changes_nothing_is_the_model(family: str, attn: str, padded: bool, dtype: torch.dtype) -> None:
    model = build(family, attn=attn, dtype=dtype)
    batches = make_batches(model, token_rows(rows=3, length=20), batch_rows=2)
    if padded:
        for batch in batches:
            batch["attention_mask"] = torch.ones_like(batch["input_ids"])
            batch["attention_mask"][0, -4:] = 0
    entered = _walked(model, batches)
    for number, batch in enumerate(batches):
        expected = _own(model, batch)
        assert len(entered) == len(expected)
        for walked, own in zip(entered, expected, strict=True):
            assert torch.isfinite(own).all()
            torch.testing.assert_close(walked[number], own, atol=1e-5, rtol=0)


def test_the_walks_end_is_the_models_end() -> None:
    model = build("gemma3")
    (batch,) = make_batches(model, token_rows(), batch_rows=6)
    with torch.no_grad():
        for step in walk(model, find_targets(model), [batch]):
            step.advance(0)
        ended = model.model.norm(step.hidden(0))
        torch.testing.assert_close(ended, model.model(**batch, use_cache=False).last_hidden_state, atol=1e-5, rtol=0)


def test_the_head_never_runs_and_the_model_is_left_as_it_was() -> None:
    model = build("llama")
    calls: list[int] = []
    model.lm_head.register_forward_hook(lambda *_: calls.append(1))
    _walked(model, make_batches(model, token_rows(), batch_rows=4))
    assert calls == []
    assert all("forward" not in layer.__dict__ for layer in model.model.layers)
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.model.layers)


def test_a_forward_set_on_the_instance_is_put_back() -> None:
    model = build("llama")
    layer = model.model.layers[0]
    own = layer.forward
    layer.forward = own
    entered = _walked(model, make_batches(model, token_rows(), batch_rows=6))
    assert layer.__dict__["forward"] is own
    assert len(entered) == 3


def test_equal_masks_and_tables_are_held_once() -> None:
    pool = Pool()
    first = pool.share({"mask": torch.ones(3), "rotary": (torch.zeros(2), torch.ones(2))})
    second = pool.share({"mask": torch.ones(3), "rotary": (torch.zeros(2), torch.full((2,), 5.0))})
    assert second["mask"] is first["mask"]
    assert second["rotary"][0] is first["rotary"][0]
    assert second["rotary"][1].tolist() == [5.0, 5.0]
    assert pool.share(None) is None


def test_a_block_the_model_skips_is_an_error() -> None:
    model = build("llama")
    model.config.num_hidden_layers = 2  # the parent runs this many, the list holds three
    with pytest.raises(PruneError, match=r"block 2 \(LlamaDecoderLayer\) is not run by the model on text"):
        _walked(model, make_batches(model, token_rows(), batch_rows=6))


def test_hidden_states_changed_between_blocks_are_an_error() -> None:
    class Shifting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = build("llama").config
            self.embed = nn.Embedding(512, 8)
            self.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)) for _ in range(2)])

        def forward(self, input_ids: torch.Tensor, use_cache: bool) -> torch.Tensor:
            hidden = self.embed(input_ids)
            for layer in self.layers:
                hidden = layer(hidden) + 1
            return hidden

    with pytest.raises(PruneError, match=r"changes the hidden states before block 1 \(Sequential\)"):
        _walked(Shifting(), [{"input_ids": token_rows()}])


def test_encoder_decoder_rows_are_split_in_halves() -> None:
    model = build("t5")
    first, second = make_batches(model, token_rows(rows=3, length=8), batch_rows=2)
    rows = token_rows(rows=3, length=8)
    assert torch.equal(first["input_ids"], rows[:2, :4])
    assert first["decoder_input_ids"].tolist() == [[0, *row[4:7].tolist()] for row in rows[:2]]
    assert second["input_ids"].shape == (1, 4)
    with pytest.raises(PruneError, match=r"rows of 1 token: an encoder-decoder needs at least 2"):
        make_batches(model, rows[:, :1], batch_rows=2)


def test_rows_that_are_not_this_models_are_refused() -> None:
    model = build("llama")
    with pytest.raises(PruneError, match=r"rows hold token 512: expected ids from 0 to 511"):
        make_batches(model, torch.tensor([[1, 512]]), batch_rows=1)
    with pytest.raises(PruneError, match=r"rows hold token -1: expected ids from 0 to 511"):
        make_batches(model, torch.tensor([[1, -1]]), batch_rows=1)
    with pytest.raises(PruneError, match=r"rows have shape \(2,\), torch.int64: expected \(n, length\) integers"):
        make_batches(model, torch.tensor([1, 2]), batch_rows=1)
