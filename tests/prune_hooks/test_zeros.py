"""Zeros are set and counted as masked_fill and count_nonzero do, to the bit, whatever the values and strides."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_hooks import zeros

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
VALUES = st.sampled_from([0.0, -0.0, 1.5, -2.0, float("nan"), float("inf"), -float("inf"), 1e-45, -1e-45])


def bits(values: torch.Tensor) -> torch.Tensor:
    return values.contiguous().view(torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES)
@given(values=st.lists(st.tuples(VALUES, st.booleans()), min_size=1, max_size=24))
def test_erase_and_count_agree_with_torch(dtype, values):
    flat = torch.tensor([value for value, _ in values], dtype=torch.float64).to(dtype)
    mask = torch.tensor([gone for _, gone in values])
    assert zeros.zeros_in(flat) == int((flat == 0).sum())
    expected = flat.clone().masked_fill_(mask, 0)
    zeros.erase(flat, mask)
    assert torch.equal(bits(flat), bits(expected))


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_are_erased_in_place_and_parameters_too(dtype):
    owner = torch.nn.Parameter(torch.ones(6, 8, dtype=dtype))
    part = owner[2:5].T
    mask = torch.arange(24).reshape(8, 3) % 2 == 0
    zeros.erase(part, mask)
    expected = torch.ones(6, 8, dtype=dtype)
    expected[2:5].T[mask] = 0
    assert torch.equal(owner.data, expected)
    assert zeros.zeros_in(part) == 12
    assert zeros.zeros_in(owner) == 12


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (5,), (7, 3), (3, 2, 5)])
def test_counts_any_shape_in_any_number_of_steps(monkeypatch, shape):
    monkeypatch.setattr(zeros, "_AT_ONCE", 4)
    values = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape) % 3
    assert zeros.zeros_in(values) == int((values == 0).sum())
