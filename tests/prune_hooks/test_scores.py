import torch

from prune_hooks import scores


def test_wanda_by_hand() -> None:
    weight = torch.tensor([[1.0, -2.0], [-3.0, 0.5]])
    # root mean squares 2 and 3
    assert scores.wanda_score(weight, torch.tensor([4.0, 9.0])).tolist() == [[2.0, 6.0], [6.0, 1.5]]


def test_wanda_with_equal_activations_is_magnitude() -> None:
    weight = torch.randn(4, 6)
    assert torch.equal(scores.wanda_score(weight, torch.ones(6)), scores.magnitude_score(weight))


def test_sparsegpt_by_hand() -> None:
    weight = torch.tensor([[2.0, -3.0]])
    assert scores.sparsegpt_score(weight, torch.tensor([2.0, 0.5])).tolist() == [[1.0, 36.0]]


def test_wanda_is_sparsegpt_with_the_diagonal_alone() -> None:
    weight, mean_square = torch.randn(3, 5), torch.rand(5) + 0.1
    # H = diag(h): H^-1 = diag(1/h) = U^T U with U_jj = h_j^-1/2, so W^2 / U_jj^2 = W^2 h_j = Wanda squared.
    diagonal = mean_square.rsqrt()
    torch.testing.assert_close(
        scores.sparsegpt_score(weight, diagonal), scores.wanda_score(weight, mean_square).square()
    )


def test_scores_of_bfloat16_weights_are_float32() -> None:
    weight = torch.randn(2, 3).bfloat16()
    assert scores.magnitude_score(weight).dtype == torch.float32
    assert scores.wanda_score(weight, torch.ones(3)).dtype == torch.float32


def test_random_scores_depend_on_name_and_seed_alone() -> None:
    def draw(name: str, seed: int) -> torch.Tensor:
        return scores.random_score(name, seed, torch.Size([3, 4]), torch.device("cpu"))

    first = draw("a", 0)
    torch.rand(7)
    assert torch.equal(first, draw("a", 0))
    assert not torch.equal(first, draw("b", 0))
    assert not torch.equal(first, draw("a", 1))
