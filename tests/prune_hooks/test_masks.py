from functools import partial

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prune_hooks import masks


def _stable(score: torch.Tensor, count: int) -> torch.Tensor:
    order = torch.sort(score, dim=1, stable=True).indices[:, :count]
    return torch.zeros_like(score, dtype=torch.bool).scatter_(1, order, True)


def test_rows_drop_their_lowest_with_ties_to_the_lower_index() -> None:
    score = torch.tensor([[3.0, 1.0, 1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    # int(5 * 0.5) = 2
    assert masks.row_mask(score, 0.5).int().tolist() == [[0, 1, 1, 0, 0], [1, 1, 0, 0, 0]]


def test_counts_follow_the_published_rounding() -> None:
    assert [masks.removed(10, 0.29), masks.removed(7, 0.5), masks.removed(3, 0.0)] == [2, 3, 0]


def test_matrix_drops_its_lowest_wherever_they_lie() -> None:
    score = torch.tensor([[9.0, 1.0], [2.0, 1.0]])
    assert masks.matrix_mask(score, 0.25).int().tolist() == [[0, 1], [0, 0]]
    assert masks.matrix_mask(score, 0.75).int().tolist() == [[0, 1], [1, 1]]


def test_runs_keep_n_of_m_consecutive_columns() -> None:
    score = torch.tensor([[4.0, 1.0, 3.0, 2.0, 5.0, 5.0, 5.0, 5.0]])
    assert masks.run_mask(score, keep=2, run=4).int().tolist() == [[0, 1, 0, 1, 1, 1, 0, 0]]
    assert masks.run_mask(score, keep=1, run=2).int().tolist() == [[0, 1, 0, 1, 1, 0, 1, 0]]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 24), st.floats(0, 0.99), st.integers(1, 4), st.integers(0, 999))
def test_masks_equal_a_stable_sort(rows: int, columns: int, sparsity: float, levels: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    score = torch.randint(0, levels + 1, (rows, columns), generator=generator).float()
    count = masks.removed(columns, sparsity)
    assert torch.equal(masks.row_mask(score, sparsity), _stable(score, count))
    total = masks.removed(score.numel(), sparsity)
    assert torch.equal(masks.matrix_mask(score, sparsity), _stable(score.reshape(1, -1), total).reshape(score.shape))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.floats(0, 0.99), st.integers(0, 3), st.integers(0, 999))
def test_masks_do_not_depend_on_how_scores_lie_in_memory(
    rows: int, columns: int, sparsity: float, levels: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    plain = torch.rand((rows, columns), generator=generator)
    if levels:
        plain = (plain * levels).round()  # many ties, zeros among them
    wide = torch.rand((rows + 2, columns + 3), generator=generator)
    wide[1:-1, 2:-1] = plain
    tall = torch.empty((columns, rows + 4))
    tall[:, 3:-1] = plain.T
    for score in (plain.T.contiguous().T, wide[1:-1, 2:-1], tall[:, 3:-1].T):
        assert torch.equal(masks.row_mask(score, sparsity), masks.row_mask(plain, sparsity))
        assert torch.equal(masks.matrix_mask(score, sparsity), masks.matrix_mask(plain, sparsity))
    count, total = masks.removed(columns, sparsity), masks.removed(plain.numel(), sparsity)
    assert torch.equal(masks.row_mask(plain, sparsity), _stable(plain, count))
    assert torch.equal(masks.matrix_mask(plain, sparsity).reshape(1, -1), _stable(plain.reshape(1, -1), total))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(2, 30), st.floats(0.05, 0.95), st.booleans(), st.integers(0, 999))
def test_both_ways_to_a_rank_agree(rows: int, columns: int, share: float, tied: bool, seed: int) -> None:
    score = torch.rand((rows, columns), generator=torch.Generator().manual_seed(seed))
    if tied:
        score = (score * 3).round()
    count = max(1, int(columns * share))
    assert torch.equal(masks.of_rank(score, count), score.kthvalue(count, dim=1, keepdim=True).values)
    assert torch.equal(masks.of_rank(score.bfloat16(), count), masks.of_rank(score.bfloat16().float(), count))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(2, 8), st.integers(1, 4), st.integers(0, 999))
def test_runs_equal_a_stable_sort(runs: int, run: int, levels: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    score = torch.randint(0, levels + 1, (3, runs * run), generator=generator).float()
    keep = run - 1 if seed % 2 else 1
    expected = _stable(score.reshape(-1, run), run - keep).reshape(score.shape)
    assert torch.equal(masks.run_mask(score, keep, run), expected)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.floats(0.01, 0.99), st.booleans(), st.integers(0, 999))
def test_global_limit_equals_one_sort_over_all(sizes: list[int], share: float, tied: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = [torch.rand(size, generator=generator) * 1e-3 for size in sizes]
    if tied:
        scores = [(score * 3e3).round() for score in scores]
    joined = torch.cat(scores)
    count = max(1, int(joined.numel() * share))
    limit, ties = masks.global_limit([partial(torch.clone, score) for score in scores], count)
    parts = []
    for score in scores:
        mask, ties = masks.up_to_limit(score, limit, ties)
        parts.append(mask)
    assert ties == 0
    assert torch.equal(torch.cat(parts), _stable(joined.reshape(1, -1), count).reshape(-1))
