import weakref

import pytest
import torch

from prune_hooks import PruneError
from prune_hooks import statistics as statistics_module
from prune_hooks.finite import all_finite
from prune_hooks.statistics import Needs, Statistics

CPU = torch.device("cpu")


def _collected(*batches: torch.Tensor, needs: Needs = Needs.HESSIAN) -> Statistics:
    statistics = Statistics("layer.weight", batches[0].shape[-1], needs, CPU)
    for batch in batches:
        statistics.update(batch)
    return statistics


def test_mean_square_by_hand() -> None:
    statistics = _collected(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.0]]), needs=Needs.NORMS)
    assert statistics.mean_square().tolist() == [5.0, 2.0]
    assert statistics.tokens == 2


def test_hessian_by_hand() -> None:
    # (2/2) * ([1,2]^T[1,2] + [3,0]^T[3,0])
    assert _collected(torch.tensor([[1.0, 2.0], [3.0, 0.0]])).hessian().tolist() == [[10.0, 2.0], [2.0, 4.0]]


def test_hessian_of_several_tiles_is_the_plain_product() -> None:
    x = torch.randn(40, 1100)
    torch.testing.assert_close(_collected(x.reshape(4, 10, 1100)).hessian(), x.T @ x * (2 / 40), atol=1e-5, rtol=1e-4)


def test_norms_are_the_hessians_diagonal() -> None:
    x = torch.randn(3, 5, 7)
    torch.testing.assert_close(_collected(x).mean_square(), _collected(x, needs=Needs.NORMS).mean_square())


def test_inverse_factor_by_hand() -> None:
    # H = diag(8, 2), no damping: H^-1 = diag(1/8, 1/2), U = diag of the roots
    factor, dead, damping = _collected(torch.tensor([[2.0, 0.0], [0.0, 1.0]]) * 2**0.5).inverse_factor(0.0, 1.0)
    torch.testing.assert_close(factor, torch.diag(torch.tensor([8**-0.5, 2**-0.5])))
    assert (dead.tolist(), damping) == ([False, False], 0.0)


def test_inverse_factor_squares_to_the_damped_inverse() -> None:
    statistics = _collected(torch.randn(200, 6))
    hessian, mean_square = statistics.hessian(), statistics.mean_square()
    factor, _, _ = statistics.inverse_factor(0.01, 1.0)
    assert torch.equal(statistics.mean_square(), mean_square)
    damped = hessian + 0.01 * hessian.diagonal().mean() * torch.eye(6)
    torch.testing.assert_close(factor.T @ factor, torch.linalg.inv(damped), atol=1e-5, rtol=1e-4)
    assert torch.equal(factor, factor.triu())


def test_dead_inputs_get_one_on_the_diagonal() -> None:
    x = torch.randn(50, 3)
    x[:, 1] = 0
    factor, dead, _ = _collected(x).inverse_factor(0.01, 1.0)
    assert dead.tolist() == [False, True, False]
    assert torch.isfinite(factor).all()


SINGULAR = torch.tensor([[2.0, 2.0]] * 4 + [[0.0, 0.0]] * 4)
"""Two inputs that are always equal: H is exactly [[4, 4], [4, 4]], and 1e-9 of 4 is lost in float32."""


def test_damping_grows_tenfold_until_the_factorisation_succeeds() -> None:
    factor, _, damping = _collected(SINGULAR).inverse_factor(1e-9, 1.0)
    assert damping == pytest.approx(1e-7)  # the first whose product with 4 is not rounded away
    assert torch.isfinite(factor).all()


def test_a_hessian_beyond_damping_names_the_layer() -> None:
    with pytest.raises(PruneError, match=r"Hessian of layer\.weight is not positive definite even with 1e-09 .*raise"):
        _collected(SINGULAR).inverse_factor(1e-9, 1e-9)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_activations_that_are_not_finite_name_the_layer(bad: float) -> None:
    for needs in (Needs.NORMS, Needs.HESSIAN):
        statistics = _collected(torch.tensor([[1.0, bad]]), needs=needs)
        with pytest.raises(PruneError, match=r"NaN or infinite activations reach layer\.weight"):
            statistics.mean_square()


def test_no_tokens_leave_the_magnitude_alone() -> None:
    starved = Statistics("layer.weight", 2, Needs.HESSIAN, CPU)
    assert starved.starved
    assert starved.mean_square().tolist() == [1.0, 1.0]
    assert starved.hessian().tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_sums_are_float32_for_bfloat16_inputs() -> None:
    x = (torch.randn(300, 4) + 3).bfloat16()
    torch.testing.assert_close(_collected(x, needs=Needs.NORMS).mean_square(), x.double().square().mean(0).float())


@pytest.mark.parametrize("width", [5, 256, 700])
def test_factor_of_any_width_squares_to_the_inverse(width: int) -> None:
    # 256 is inverted by one solve, 700 half by half down to 175.
    x = torch.randn(3 * width, width)
    hessian = (x.T @ x / width).double() + torch.eye(width).double()
    factor = statistics_module._inverse_upper(hessian.triu().float())
    assert factor is not None
    assert torch.equal(factor, factor.triu())
    torch.testing.assert_close((factor.T @ factor).double(), torch.linalg.inv(hessian), atol=1e-5, rtol=1e-3)


def test_what_is_not_positive_definite_has_no_factor() -> None:
    assert statistics_module._inverse_upper(torch.tensor([[1.0, 2.0], [2.0, 1.0]])) is None


def test_the_hessian_is_not_copied_to_be_factorised() -> None:
    statistics = _collected(torch.randn(50, 6))
    held = weakref.ref(statistics._products)
    statistics.inverse_factor(0.01, 1.0)
    assert held() is None


@pytest.mark.parametrize("tokens", [1, 255, 256, 257, 1000])
def test_norms_in_steps_are_the_plain_sum(tokens: int) -> None:
    x = torch.randn(tokens, 33)
    torch.testing.assert_close(_collected(x, needs=Needs.NORMS).mean_square(), x.square().mean(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_all_finite(dtype: torch.dtype) -> None:
    tensor = torch.randn(4, 5).to(dtype)
    assert all_finite(tensor)
    assert all_finite(torch.empty(0, 3, dtype=dtype))
    for bad in (float("nan"), float("inf"), float("-inf")):
        tensor[2, 1] = bad
        assert not all_finite(tensor)


@pytest.mark.parametrize("needs", [Needs.MEANS, Needs.MEANS | Needs.HESSIAN])
def test_means_by_hand_beside_squares(needs: Needs) -> None:
    statistics = _collected(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -4.0]]), needs=needs)
    assert statistics.mean().tolist() == [2.0, -1.0]
    assert statistics.mean_square().tolist() == [5.0, 10.0]
    copied = statistics.copied(CPU)
    copied.update(torch.tensor([[5.0, 5.0]]))
    assert copied.mean().tolist() == [3.0, 1.0]
    assert statistics.mean().tolist() == [2.0, -1.0]
    assert Statistics("w", 2, needs, CPU).mean().tolist() == [0.0, 0.0]
