"""Each method on one matrix, by hand or by a property; agreement with the plain reference is in test_reference_*."""

import pytest
import torch
from torch import nn

from prune_hooks import masks
from prune_hooks.methods.magnitude import magnitude, magnitude_global
from prune_hooks.methods.sparsegpt import BLOCK, solve, sparsegpt
from prune_hooks.methods.wanda import wanda
from prune_hooks.registry import Group, get_method
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.weights import Weight


def _weight(values: torch.Tensor, name: str = "w") -> Weight:
    holder = nn.Module()
    holder.weight = nn.Parameter(values.clone(), requires_grad=False)
    return Weight(name, holder, "weight")


def _statistics(x: torch.Tensor, needs: Needs = Needs.HESSIAN) -> Statistics:
    statistics = Statistics("w", x.shape[1], needs, x.device)
    statistics.update(x)
    return statistics


def _group(*weights: Weight, x: torch.Tensor | None = None, sparsity: float = 0.5, kept=None) -> Group:
    return Group(weights, None if x is None else _statistics(x), sparsity, kept, seed=0)


def test_wanda_by_hand() -> None:
    weight = _weight(torch.tensor([[1.0, -0.5], [-3.0, 2.0]]))
    x = torch.tensor([[1.0, 4.0]])  # scores 1, 2 / 3, 8
    assert wanda.prune(_group(weight, x=x))[0].masked == 2
    assert weight.matrix().tolist() == [[0.0, -0.5], [0.0, 2.0]]


def test_magnitude_compares_the_whole_matrix() -> None:
    weight = _weight(torch.tensor([[1.0, -0.5], [-3.0, 2.0]]))
    assert magnitude.prune(_group(weight))[0].masked == 2
    assert weight.matrix().tolist() == [[0.0, 0.0], [-3.0, 2.0]]


def test_magnitude_global_compares_all_matrices() -> None:
    first, second = _weight(torch.tensor([[1.0, 2.0]])), _weight(torch.tensor([[3.0, -4.0], [1.0, 9.0]]))
    outcomes = magnitude_global.prune(_group(first, second))
    assert [outcome.masked for outcome in outcomes] == [2, 1]
    assert first.matrix().tolist() == [[0.0, 0.0]]
    assert second.matrix().tolist() == [[3.0, -4.0], [0.0, 9.0]]


def test_magnitude_global_with_a_pattern_is_magnitude_with_it() -> None:
    values = torch.randn(4, 8)
    one, other = _weight(values), _weight(values)
    magnitude.prune(_group(one, kept=(2, 4)))
    magnitude_global.prune(_group(other, kept=(2, 4)))
    assert torch.equal(one.matrix(), other.matrix())


def test_random_is_told_apart_by_name_only() -> None:
    random = get_method("random")
    values = torch.randn(8, 8)
    same, again, other = _weight(values, "a"), _weight(values, "a"), _weight(values, "b")
    for weight in (same, again, other):
        random.prune(_group(weight, sparsity=0.25))
        assert int((weight.matrix() == 0).sum()) == 16
    assert torch.equal(same.matrix(), again.matrix())
    assert not torch.equal(same.matrix(), other.matrix())


def test_sparsegpt_update_of_two_weights_by_hand() -> None:
    # H^-1 = U^T U with U = [[2, 1], [0, 1]]. Scores 1^2/2^2 and 3^2/1: the first goes, the second moves by -(1/2) * 1.
    factor = torch.tensor([[2.0, 1.0], [0.0, 1.0]])
    ((pruned, masked),) = solve([torch.tensor([[1.0, 3.0]])], factor, torch.zeros(2, dtype=torch.bool), 0.5, None)
    assert (pruned.tolist(), masked) == ([[0.0, 2.5]], 1)


def test_sparsegpt_update_is_the_least_squares_optimum_on_its_support() -> None:
    # A single removed weight in the first column: the rest must be the exact re-fit (optimal brain surgeon).
    x, row = torch.randn(64, 5).double(), torch.randn(5).double()
    row[0] = 1e-3
    hessian = x.T @ x
    factor = torch.linalg.cholesky(torch.linalg.inv(hessian), upper=True).float()
    ((pruned, _),) = solve([row.float()[None]], factor, torch.zeros(5, dtype=torch.bool), 0.2, None)
    best = torch.linalg.lstsq(x[:, 1:], (x @ row)[:, None]).solution.squeeze()
    torch.testing.assert_close(pruned[0].double(), torch.cat([torch.zeros(1).double(), best]), rtol=1e-4, atol=1e-6)


def test_sparsegpt_without_correlations_is_magnitude_within_128_columns() -> None:
    weight = _weight(torch.randn(6, 200))
    before = weight.matrix().clone()
    orthogonal = torch.linalg.qr(torch.randn(200, 200)).Q  # x^T x = I
    outcome = sparsegpt.prune(_group(weight, x=orthogonal))[0]
    mask = torch.cat([masks.matrix_mask(part.abs(), 0.5) for part in before.split(BLOCK, dim=1)], dim=1)
    assert outcome.masked == int(mask.sum()) == 600
    torch.testing.assert_close(weight.matrix(), before.masked_fill(mask, 0), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("sparsity", "kept"), [(0.5, None), (0.3, None), (0.5, (2, 4)), (0.25, (3, 4)), (0.5, (5, 10))]
)
def test_sparsegpt_counts_are_exact_and_loss_is_below_the_mask_alone(
    sparsity: float, kept: tuple[int, int] | None
) -> None:
    mix = torch.randn(260, 260) * 0.2 + torch.eye(260)
    x, weight = torch.randn(2000, 260) @ mix, _weight(torch.randn(12, 260))
    before = weight.matrix().clone()
    outcome = sparsegpt.prune(_group(weight, x=x, sparsity=sparsity, kept=kept))[0]
    zero = weight.matrix() == 0
    assert outcome.masked == int(zero.sum())
    if kept is None:
        assert outcome.masked == 2 * int(12 * 128 * sparsity) + int(12 * 4 * sparsity)
    else:
        assert (zero.reshape(12, -1, kept[1]).sum(-1) == kept[1] - kept[0]).all()
    loss = (x @ (weight.matrix() - before).T).square().sum()
    assert loss < (x @ (before * zero).T).square().sum()


def test_sparsegpt_reports_the_damping_it_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor([[2.0, 2.0]] * 4 + [[0.0, 0.0]] * 4)
    weight = torch.tensor([[1.0, 2.0]])
    assert sparsegpt.prune(_group(_weight(weight), x=x))[0].damping == 0.01
    monkeypatch.setattr("prune_hooks.methods.sparsegpt.DAMPING", 1e-9)
    assert sparsegpt.prune(_group(_weight(weight), x=x))[0].damping == pytest.approx(1e-7)


@pytest.mark.parametrize(("sparsity", "kept"), [(0.5, None), (0.37, None), (0.5, (2, 4))])
def test_matrices_solved_side_by_side_are_those_solved_alone(sparsity: float, kept: tuple[int, int] | None) -> None:
    x = torch.randn(900, 200) @ (torch.randn(200, 200) * 0.1 + torch.eye(200))
    matrices = [scale * torch.randn(rows, 200) for rows, scale in ((24, 1.0), (8, 30.0), (16, 0.01))]
    matrices[1][:, ::3] = 0  # ties
    together, alone = [_weight(m) for m in matrices], [_weight(m) for m in matrices]
    outcomes = sparsegpt.prune(_group(*together, x=x, sparsity=sparsity, kept=kept))
    for weight, single, outcome in zip(together, alone, outcomes, strict=True):
        assert sparsegpt.prune(_group(single, x=x, sparsity=sparsity, kept=kept)) == [outcome]
        assert torch.equal(weight.matrix() == 0, single.matrix() == 0)
        torch.testing.assert_close(weight.matrix(), single.matrix(), rtol=1e-4, atol=1e-5)
    if kept is None:
        # A threshold of its own: each matrix loses its share, however large the others' weights are.
        assert [o.masked for o in outcomes] == [int(r * 128 * sparsity) + int(r * 72 * sparsity) for r in (24, 8, 16)]


def test_sparsegpt_clears_dead_columns() -> None:
    x, weight = torch.randn(300, 16), _weight(torch.randn(4, 16))
    x[:, 3] = 0
    sparsegpt.prune(_group(weight, x=x, sparsity=0.25))
    assert (weight.matrix()[:, 3] == 0).all()


def test_starved_matrices_fall_back_to_magnitude_within_the_row() -> None:
    weight = _weight(torch.randn(4, 8))
    expected = weight.matrix().masked_fill(masks.row_mask(weight.matrix().abs(), 0.5), 0)
    statistics = Statistics("w", 8, Needs.NORMS, torch.device("cpu"))
    wanda.prune(Group((weight,), statistics, 0.5, None, 0))
    assert torch.equal(weight.matrix(), expected)
    starved = Statistics("w", 8, Needs.HESSIAN, torch.device("cpu"))
    other = _weight(torch.randn(4, 8))
    before = other.matrix().clone()
    sparsegpt.prune(Group((other,), starved, 0.5, None, 0))
    kept = other.matrix() != 0
    assert int(kept.sum()) == 16
    torch.testing.assert_close(other.matrix()[kept], before[kept])


def test_bfloat16_weights_are_solved_in_float32() -> None:
    values, x = torch.randn(6, 32).bfloat16(), torch.randn(400, 32)
    weight, wide = _weight(values), _weight(values.float())
    sparsegpt.prune(_group(weight, x=x))
    sparsegpt.prune(_group(wide, x=x))
    assert torch.equal(weight.matrix(), wide.matrix().bfloat16())
