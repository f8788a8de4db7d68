"""Masks agree with the plain implementation in reference.py, and disagree as soon as a fault is planted."""

import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from prune_hooks import PruneSpec, masks, prune
from prune_hooks.scores import magnitude_score, sparsegpt_score, wanda_score
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.weights import Weight
from tests.families import build, token_rows
from tests.prune_hooks import reference

ROWS = token_rows(rows=6, length=24)
FAMILIES = ["llama", "gemma3", "gpt2", "phi3", "opt", "qwen3_hybrid", "mistral", "t5"]


def ours_and_reference(family, method, *, sparsity=None, pattern="unstructured", model=build):
    """Two copies of one model, pruned by the package and by the reference."""
    ours, theirs = model(family), model(family)
    spec = PruneSpec(method=method, sparsity=sparsity, pattern=pattern, calibration=ROWS, sequential="block")
    prune(ours, None, spec, progress=False)
    runs = None if pattern == "unstructured" else tuple(int(k) for k in pattern.split(":"))
    reference.prune(theirs, family, ROWS, method, spec.sparsity, runs)
    return ours, theirs


def wide_llama(_family):
    """Inputs wider than one block of 128 columns, so that SparseGPT's updates cross blocks."""
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=160,
        intermediate_size=304,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_wanda_is_equal_to_the_bit(family):
    ours, theirs = ours_and_reference(family, "wanda", sparsity=0.5)
    assert set(reference.differing(ours, theirs, family).values()) == {0.0}
    left, right = reference.matrices(ours, family), reference.matrices(theirs, family)
    assert all(torch.equal(left[name], right[name]) for name in left)
    dense = reference.matrices(build(family), family)
    assert all((left[name] == 0).float().mean() == 0.5 for name in left)
    assert all((dense[name] != 0).all() for name in dense)


@pytest.mark.parametrize("pattern", ["2:4", "4:8", "1:4"])
@pytest.mark.parametrize("family", ["llama", "gpt2", "phi3"])
def test_wanda_patterns_are_equal_to_the_bit(family, pattern):
    ours, theirs = ours_and_reference(family, "wanda", pattern=pattern)
    assert set(reference.differing(ours, theirs, family).values()) == {0.0}


@pytest.mark.parametrize("sparsity", [0.3, 0.77])
def test_wanda_is_equal_at_sparsities_that_do_not_divide_the_row(sparsity):
    ours, theirs = ours_and_reference("gemma3", "wanda", sparsity=sparsity)
    assert set(reference.differing(ours, theirs, "gemma3").values()) == {0.0}


@pytest.mark.parametrize("family", FAMILIES)
def test_sparsegpt_agrees(family):
    ours, theirs = ours_and_reference(family, "sparsegpt", sparsity=0.5)
    assert_agrees(ours, theirs, family)


@pytest.mark.parametrize("pattern", ["2:4", "4:8"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_sparsegpt_patterns_agree(family, pattern):
    ours, theirs = ours_and_reference(family, "sparsegpt", pattern=pattern)
    assert_agrees(ours, theirs, family)


@pytest.mark.parametrize("options", [{"sparsity": 0.6}, {"pattern": "2:4"}])
def test_sparsegpt_agrees_where_updates_cross_blocks_of_columns(options):
    ours, theirs = ours_and_reference("llama", "sparsegpt", model=wide_llama, **options)
    assert_agrees(ours, theirs, "llama")


def assert_agrees(ours, theirs, family):
    """At least 99.9 % of the mask overall, and the updated weights beside it."""
    left, right = reference.matrices(ours, family), reference.matrices(theirs, family)
    total = sum(matrix.numel() for matrix in left.values())
    shares = reference.differing(ours, theirs, family)
    assert sum(share * left[name].numel() for name, share in shares.items()) <= 0.001 * total
    for name, share in shares.items():
        if share == 0:
            torch.testing.assert_close(left[name], right[name], rtol=1e-2, atol=1e-3)


def test_experts_are_pruned_by_the_tokens_that_reach_them():
    """The first block of a mixture, by hand: an expert's inputs are its own tokens, then its own hidden activation."""
    ours, dense = build("mixtral"), build("mixtral")
    prune(ours, None, PruneSpec(calibration=ROWS, sequential="block"), progress=False)
    experts = "model.layers.0.mlp.experts"
    seen = []
    handle = dense.get_submodule(experts).register_forward_pre_hook(lambda module, args: seen.append(args))
    with torch.no_grad():
        for row in ROWS:
            dense(input_ids=row[None], use_cache=False)
    handle.remove()
    was, now = dense.get_submodule(experts), ours.get_submodule(experts)
    for expert in range(4):
        tokens = [hidden[(chosen == expert).sum(dim=1) > 0] for hidden, chosen, _ in seen]
        up = was.gate_up_proj[expert].detach()
        halves = [(x @ up.T).chunk(2, dim=1) for x in tokens]
        inner = [torch.nn.functional.silu(gate) * linear for gate, linear in halves]
        assert torch.equal(now.gate_up_proj[expert] == 0, reference.wanda(up, tokens, 0.5, None) == 0)
        down = was.down_proj[expert].detach()
        assert torch.equal(now.down_proj[expert] == 0, reference.wanda(down, inner, 0.5, None) == 0)


# --- planted faults


def transposed_weights(patch):
    honest = Weight.matrix
    patch.setattr(Weight, "matrix", lambda self: m.T if len(set((m := honest(self)).shape)) == 1 else m)


def wrong_axis(patch):
    honest = masks.row_mask
    patch.setattr(masks, "row_mask", lambda score, sparsity: honest(score.T.contiguous(), sparsity).T)


def inclusive_threshold(patch):
    def row_mask(score, sparsity):
        limit = score.sort(dim=1).values[:, int(score.shape[1] * sparsity)]
        return score <= limit[:, None]

    patch.setattr(masks, "row_mask", row_mask)


def missing_root(patch):
    module = sys.modules["prune_hooks.methods.wanda"]
    patch.setattr(module, "wanda_score", lambda weight, squares: weight.float().abs() * squares)


def norm_over_the_wrong_dimension(patch):
    honest = Statistics.update
    patch.setattr(Statistics, "update", lambda self, x: honest(self, x.reshape(x.shape[-1], -1).T.contiguous()))


def whole_matrix(patch):
    patch.setattr(masks, "row_mask", masks.matrix_mask)


def forgotten_activations(patch):
    module = sys.modules["prune_hooks.methods.wanda"]
    patch.setattr(module, "wanda_score", lambda weight, squares: weight.float().abs())


WANDA_FAULTS = [
    transposed_weights,
    wrong_axis,
    inclusive_threshold,
    missing_root,
    norm_over_the_wrong_dimension,
    whole_matrix,
    forgotten_activations,
]


@pytest.mark.parametrize("fault", WANDA_FAULTS)
@pytest.mark.parametrize("family", ["llama", "gpt2", "phi3"])
def test_a_fault_planted_in_wanda_is_caught(family, fault, monkeypatch):
    fault(monkeypatch)
    ours, theirs = ours_and_reference(family, "wanda", sparsity=0.5)
    assert max(reference.differing(ours, theirs, family).values()) > 0


def sparsegpt_inclusive_threshold(patch):
    def matrix_mask(score, sparsity):
        limit = score.reshape(-1).sort().values[int(score.numel() * sparsity)]
        return score <= limit

    patch.setattr(masks, "matrix_mask", matrix_mask)


def sparsegpt_row_wise(patch):
    patch.setattr(masks, "matrix_mask", masks.row_mask)


def sparsegpt_score_without_factor(patch):
    module = sys.modules["prune_hooks.methods.sparsegpt"]
    patch.setattr(module, "sparsegpt_score", lambda weight, diagonal: weight.square())


def sparsegpt_lower_factor(patch):
    honest = Statistics.inverse_factor

    def flipped(self, damping, limit):
        factor, dead, used = honest(self, damping, limit)
        return factor.T.contiguous(), dead, used

    patch.setattr(Statistics, "inverse_factor", flipped)


def sparsegpt_without_damping(patch):
    honest = Statistics.inverse_factor
    patch.setattr(Statistics, "inverse_factor", lambda self, damping, limit: honest(self, damping * 100, limit))


SPARSEGPT_FAULTS = [
    transposed_weights,
    norm_over_the_wrong_dimension,
    sparsegpt_inclusive_threshold,
    sparsegpt_row_wise,
    sparsegpt_score_without_factor,
    sparsegpt_lower_factor,
    sparsegpt_without_damping,
]


@pytest.mark.parametrize("fault", SPARSEGPT_FAULTS)
def test_a_fault_planted_in_sparsegpt_is_caught(fault, monkeypatch):
    fault(monkeypatch)
    ours, theirs = ours_and_reference("gpt2", "sparsegpt", sparsity=0.5)
    with pytest.raises(AssertionError):
        assert_agrees(ours, theirs, "gpt2")


# --- properties


def inputs_and_weight(width=48, tokens=200, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scale = torch.rand(width, generator=generator) * 5 + 0.1
    return torch.randn(tokens, width, generator=generator) * scale, torch.randn(20, width, generator=generator)


@pytest.mark.parametrize("seed", range(5))
def test_wanda_is_the_criterion_of_sparsegpt_without_damping_on_the_diagonal(seed):
    x, weight = inputs_and_weight(seed=seed)
    statistics = Statistics("w", x.shape[1], Needs.HESSIAN, x.device)
    statistics.update(x)
    diagonal_only = statistics.hessian().diagonal().diag()
    factor = reference.inverse_factor(diagonal_only, damping=0.0)
    ours = sparsegpt_score(weight, factor.diagonal())
    torch.testing.assert_close(ours, 2 * wanda_score(weight, statistics.mean_square()) ** 2)
    assert torch.equal(masks.row_mask(ours, 0.5), masks.row_mask(wanda_score(weight, statistics.mean_square()), 0.5))


@pytest.mark.parametrize("sparsity", [0.25, 0.5, 0.9])
def test_wanda_with_equal_activations_is_row_wise_magnitude(sparsity):
    _, weight = inputs_and_weight()
    signs = torch.randn(200, weight.shape[1], generator=torch.Generator().manual_seed(1)).sign()
    statistics = Statistics("w", weight.shape[1], Needs.NORMS, weight.device)
    statistics.update(3 * signs)
    wanda = masks.row_mask(wanda_score(weight, statistics.mean_square()), sparsity)
    assert torch.equal(wanda, masks.row_mask(magnitude_score(weight), sparsity))


@pytest.mark.parametrize("seed", range(3))
def test_statistics_are_those_of_the_reference(seed):
    x, _ = inputs_and_weight(seed=seed)
    statistics = Statistics("w", x.shape[1], Needs.HESSIAN, x.device)
    for part in x.split(50):
        statistics.update(part)
    torch.testing.assert_close(statistics.mean_square(), reference.mean_square(list(x.split(50))))
    torch.testing.assert_close(statistics.hessian(), reference.hessian(list(x.split(50))))


# --- the reference itself, by hand


def test_reference_by_hand():
    weight = torch.tensor([[1.0, -2.0, 3.0, 0.5]])
    inputs = [torch.tensor([[3.0, 1.0, 0.0, 4.0]]), torch.tensor([[3.0, 1.0, 0.0, 4.0]])]
    # scores 3, 2, 0, 2: two go, and of the two equal ones the first
    assert reference.wanda(weight, inputs, 0.5, None).tolist() == [[1.0, 0.0, 0.0, 0.5]]
    assert reference.wanda(weight, inputs, 0.5, (1, 2)).tolist() == [[1.0, 0.0, 0.0, 0.5]]
    assert reference.hessian(inputs)[0].tolist() == [18.0, 6.0, 0.0, 24.0]


def test_reference_sparsegpt_moves_the_removed_weight_to_its_equal():
    # Two inputs that are almost the same: what one loses, the other takes over.
    x = torch.randn(500, 1, generator=torch.Generator().manual_seed(0))
    noise = 0.01 * torch.randn(500, 2, generator=torch.Generator().manual_seed(1))
    pruned = reference.sparsegpt(torch.tensor([[1.0, 2.0]]), [x + noise], 0.5, None, damping=1e-6)
    assert pruned[0, 0] == 0
    assert abs(pruned[0, 1] - 3.0) < 0.05
