"""What is read from logits, against numbers worked out by hand."""

import math

import pytest
import torch

from lm_eval_illusion.harness import readout
from lm_eval_illusion.harness.head import linear_float32


def test_log_probabilities_and_greediness_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0), 0.0], [math.log(2.0), math.log(5.0), math.log(3.0)]])
    logprobs, greedy = readout.token_logprobs(logits, torch.tensor([1, 2]))
    assert logprobs == pytest.approx([math.log(3 / 5), math.log(3 / 10)])
    assert greedy == [True, False]


def test_many_rows_are_read_slice_by_slice(monkeypatch):
    logits = torch.randn(7, 5)
    targets = torch.tensor([0, 1, 2, 3, 4, 0, 1])
    whole = readout.token_logprobs(logits, targets)
    monkeypatch.setattr(readout, "_SLICE", 10)
    assert readout.token_logprobs(logits, targets) == whole
    assert whole[0] == pytest.approx(logits.log_softmax(-1)[torch.arange(7), targets].tolist(), abs=1e-6)


def test_nan_and_infinity_show():
    logits = torch.tensor([[0.0, float("nan"), 1.0], [float("-inf"), 0.0, 0.0]])
    logprobs, _ = readout.token_logprobs(logits, torch.tensor([0, 0]))
    assert math.isnan(logprobs[0])
    assert logprobs[1] == float("-inf")
    assert readout.rank(logits[0], 0) is None
    assert readout.rank(logits[1], 0) is None
    assert readout.rank(logits[1], 1) == 1


def test_parting_by_hand():
    assert readout.parting_token((4, 5, 6), (4, 5, 7)) == 2
    assert readout.parting_token((4,), (5, 4)) == 0
    assert readout.parting_token((4, 5), (4, 5, 7)) is None
    assert readout.parting_token((), (5,)) is None
    found = readout.parting(torch.tensor([1.0, 4.0, 2.5, 3.0]), 2, option=1, gold=2)
    assert found == readout.Parting(token=2, gold_rank=3, margin=-1.5)
    assert readout.parting(torch.tensor([float("nan"), 0.0, 0.0]), 0, option=1, gold=2).margin is None
    assert readout.parting(torch.tensor([1.0, float("-inf"), 0.0]), 0, option=1, gold=2).margin is None


def test_the_head_s_product_is_float32_slice_by_slice(monkeypatch):
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(2, 3, 8).bfloat16(), torch.randn(50, 8).bfloat16(), torch.randn(50).bfloat16()
    expected = hidden.float() @ weight.float().T + bias.float()
    monkeypatch.setattr("lm_eval_illusion.harness.head.SLICE_BYTES", 4 * 8 * 7)
    with torch.autocast("cpu", torch.bfloat16):
        got = linear_float32(hidden, weight, bias)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(linear_float32(hidden, weight.float(), None), hidden.float() @ weight.float().T)
