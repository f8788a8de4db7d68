"""The further methods agree with their plain counterparts in reference_methods.py, and disagree with planted faults."""

import sys

import pytest
import torch
from torch import nn

from prune_hooks import PruneSpec, get_method, masks, prune, surgeon, swaps
from prune_hooks.methods.magnitude import magnitude_global
from prune_hooks.registry import Group
from prune_hooks.statistics import Statistics
from prune_hooks.weights import Weight
from tests.families import build, token_rows
from tests.prune_hooks import reference, reference_methods

ROWS = token_rows(rows=6, length=24)
FAMILIES = ["llama", "gpt2", "phi3", "t5"]
AMOUNTS = [{"sparsity": 0.5}, {"sparsity": 0.77}, {"pattern": "2:4"}, {"pattern": "1:8"}]


def ours_and_reference(family, method, amount, **options):
    ours, theirs = build(family), build(family)
    spec = PruneSpec(method=method, calibration=ROWS, sequential="block", method_options=options, **amount)
    prune(ours, None, spec, progress=False)
    reference_methods.prune(theirs, family, ROWS, method, spec.sparsity, spec.kept, **options)
    return ours, theirs


def share_differing(ours, theirs, family):
    sizes = {name: matrix.numel() for name, matrix in reference.matrices(ours, family).items()}
    differing = reference.differing(ours, theirs, family)
    return sum(differing[name] * size for name, size in sizes.items()) / sum(sizes.values())


def assert_equal(ours, theirs, family):
    left, right = reference.matrices(ours, family), reference.matrices(theirs, family)
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


@pytest.mark.parametrize("amount", AMOUNTS, ids=str)
@pytest.mark.parametrize("method", ["ria", "wanda_variant", "dsnot"])
def test_methods_without_update_are_equal_to_the_bit(method, amount):
    assert_equal(*ours_and_reference("gpt2", method, amount), "gpt2")


@pytest.mark.parametrize("family", ["llama", "phi3", "t5"])
@pytest.mark.parametrize("method", ["ria", "wanda_variant", "dsnot"])
def test_families_are_equal_to_the_bit(method, family):
    assert_equal(*ours_and_reference(family, method, {"sparsity": 0.5}), family)


@pytest.mark.parametrize("amount", [{"sparsity": 0.6}, {"pattern": "2:4"}], ids=str)
@pytest.mark.parametrize("start", ["wanda", "magnitude", "ria", "sparsegpt"])
def test_dsnot_agrees_from_any_start(start, amount):
    ours, theirs = ours_and_reference("llama", "dsnot", amount, start=start, threshold=0.01, cycles=9)
    if start != "sparsegpt":
        assert_equal(ours, theirs, "llama")
    assert share_differing(ours, theirs, "llama") <= 0.001


def test_ria_with_another_power():
    ours, theirs = build("llama"), build("llama")
    prune(ours, None, PruneSpec(method="ria", calibration=ROWS, sequential="block", method_options={"a": 1}))
    reference_methods.prune(theirs, "llama", ROWS, "ria", power=1.0)
    assert_equal(ours, theirs, "llama")


def weight(values, name="w"):
    holder = nn.Module()
    holder.weight = nn.Parameter(values.clone(), requires_grad=False)
    return Weight(name, holder, "weight")


def single(method, values, x, sparsity=0.5, kept=None, **options):
    """One matrix pruned by the package."""
    method = get_method(method)
    options = method.resolve(options)
    statistics = Statistics("w", x.shape[1], method.needs_with(options), x.device)
    statistics.update(x)
    one = weight(values)
    outcome = method.prune(Group((one,), statistics, sparsity, kept, 0, options))[0]
    assert outcome.masked == int((one.matrix() == 0).sum())
    return one.matrix()


def problem(seed=0, out=24, width=160, tokens=600):
    """Correlated inputs of unequal size and a weight."""
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(width, width, generator=generator) * 0.15 + torch.eye(width)
    scale = torch.rand(width, generator=generator) * 3 + 0.1
    x = torch.randn(tokens, width, generator=generator) @ mix * scale + 0.3 * scale
    return torch.randn(out, width, generator=generator), x


def assert_agrees(ours, theirs, values, x):
    assert ((ours == 0) != (theirs == 0)).float().mean() <= 0.001
    loss, expected = (reference_methods.layer_loss(values, w, [x]) for w in (ours, theirs))
    assert loss == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("window", [8, 128])
@pytest.mark.parametrize(("sparsity", "kept"), [(0.5, None), (0.83, None), (0.5, (2, 4)), (0.5, (4, 8))])
def test_obs_agrees_across_windows(sparsity, kept, window, monkeypatch):
    monkeypatch.setattr(surgeon, "WINDOW", window)
    values, x = problem()
    theirs = reference_methods.obs(values, [x], sparsity, kept)
    assert_agrees(single("obs", values, x, sparsity, kept), theirs, values, x)


@pytest.mark.parametrize("amount", [{"sparsity": 0.7}, {"pattern": "2:4"}], ids=str)
def test_obs_agrees_through_a_model(amount):
    ours, theirs = ours_and_reference("llama", "obs", amount)
    assert share_differing(ours, theirs, "llama") <= 0.001
    left, right = reference.matrices(ours, "llama"), reference.matrices(theirs, "llama")
    assert all(torch.allclose(left[name], right[name], rtol=1e-2, atol=1e-3) for name in left)


@pytest.mark.parametrize(("sparsity", "kept"), [(0.5, None), (0.7, None), (0.5, (2, 4))])
def test_alps_agrees_on_a_wide_matrix(sparsity, kept):
    values, x = problem(width=96)
    theirs = reference_methods.alps(values, [x], sparsity, kept)
    assert_agrees(single("alps", values, x, sparsity, kept), theirs, values, x)


def test_alps_agrees_on_the_layers_of_a_model():
    """With the same inputs each: the support ADMM finds may turn on the last bits of what earlier layers hand on."""
    model = build("gpt2")
    for block in reference.modules(model, "gpt2"):
        inputs = reference.collect(model, block, ROWS)
        for name, module, sizes in block:
            matrix = reference.read_matrix(module)
            for part in matrix.split(sizes or [len(matrix)]):
                theirs = reference_methods.alps(part, inputs[name], 0.7, None)
                assert_agrees(single("alps", part, torch.cat(inputs[name]), 0.7), theirs, part, torch.cat(inputs[name]))


@pytest.mark.parametrize("sparsity", [0.3, 0.5, 0.9])
def test_magnitude_global_is_one_sort_of_everything(sparsity):
    model = build("phi3")
    before = reference.matrices(model, "phi3")
    flat = torch.cat([matrix.abs().reshape(-1) for matrix in before.values()]).numpy()
    expected = torch.from_numpy(reference.lowest(flat, reference.count(len(flat), sparsity)))
    prune(model, None, PruneSpec(method="magnitude_global", sparsity=sparsity), progress=False)
    after = torch.cat([matrix.reshape(-1) for matrix in reference.matrices(model, "phi3").values()])
    assert torch.equal(after == 0, expected)


@pytest.mark.parametrize("kept", [(2, 4), (4, 8), (1, 4), (3, 8)])
def test_magnitude_global_with_a_pattern_keeps_the_largest_of_every_run(kept):
    values = torch.randn(6, 16, generator=torch.Generator().manual_seed(0))
    one = weight(values)
    magnitude_global.prune(Group((one,), None, 0.5, kept, 0))
    assert torch.equal(one.matrix() == 0, reference.mask_runs(values.abs(), *kept))


# --- planted faults


def method_module(name):
    return sys.modules[f"prune_hooks.methods.{name}"]


def row_wise(patch):
    patch.setattr(masks, "matrix_mask", masks.row_mask)


def ria_without_rows(patch):
    patch.setattr(method_module("ria"), "ria_score", lambda w, s, a: w.abs() / w.abs().sum(dim=0) * s.sqrt() ** a)


def ria_without_root(patch):
    honest = method_module("ria").ria_score
    patch.setattr(method_module("ria"), "ria_score", lambda w, s, a: honest(w, s, 2 * a))


def variant_of_scores(patch):
    patch.setattr(method_module("wanda_variant"), "cumulative_share", lambda score: score)


def variant_of_sums(patch):
    honest = method_module("wanda_variant").cumulative_share
    patch.setattr(method_module("wanda_variant"), "cumulative_share", lambda s: honest(s) * s.sum(dim=1, keepdim=True))


def dsnot_without_variance(patch):
    honest = swaps.swap
    patch.setattr(method_module("dsnot"), "swap", lambda m, c, v, *rest: honest(m, c, torch.ones_like(v), *rest))


def dsnot_by_size(patch):
    honest = swaps.swap
    patch.setattr(method_module("dsnot"), "swap", lambda m, c, v, s, *rest: honest(m, c, v, c.abs(), *rest))


def dsnot_of_absolute_means(patch):
    honest = Statistics.mean
    patch.setattr(Statistics, "mean", lambda self: honest(self).abs())


FAULTS = [
    ("ria", row_wise),
    ("ria", ria_without_rows),
    ("ria", ria_without_root),
    ("wanda_variant", row_wise),
    ("wanda_variant", variant_of_scores),
    ("wanda_variant", variant_of_sums),
    ("dsnot", dsnot_without_variance),
    ("dsnot", dsnot_by_size),
    ("dsnot", dsnot_of_absolute_means),
]


@pytest.mark.parametrize(("method", "fault"), FAULTS)
def test_a_planted_fault_is_caught(method, fault, monkeypatch):
    fault(monkeypatch)
    ours, theirs = ours_and_reference("gpt2", method, {"sparsity": 0.5})
    with pytest.raises(AssertionError):
        assert_equal(ours, theirs, "gpt2")


def obs_with_equal_rows(patch):
    patch.setattr(masks, "matrix_mask", masks.row_mask)


def obs_without_refit(patch):
    def masked(weights, inverse, order, counts):
        kept = weights.clone()
        for row, gone, count in zip(kept, order, counts, strict=True):
            row[gone[:count]] = 0
        return kept

    patch.setattr(method_module("obs"), "refit", masked)


def obs_without_update(patch):
    patch.setattr(
        surgeon,
        "_reduced",
        lambda state, places, moves: torch.stack([q[p][:, p] for q, p in zip(state, places, strict=True)]),
    )


def alps_without_scaling(patch):
    honest = method_module("alps").scale

    def scale(statistics):
        scaled = honest(statistics)
        plain = scaled.gram * scaled.norms * scaled.norms[:, None]
        values, vectors = torch.linalg.eigh(plain)
        return method_module("alps").Scaled(plain, torch.ones_like(scaled.norms), values, vectors)

    patch.setattr(method_module("alps"), "scale", scale)


def alps_without_refit(patch):
    patch.setattr(method_module("alps"), "refit", lambda start, *rest: start)


def alps_of_one_penalty(patch):
    patch.setattr(method_module("alps"), "_growth", lambda changed: 1.0)


@pytest.mark.parametrize(
    ("method", "fault", "options"),
    [
        ("obs", obs_with_equal_rows, {}),
        ("obs", obs_without_refit, {}),
        ("obs", obs_without_update, {}),
        ("alps", alps_without_scaling, {}),
        ("alps", alps_of_one_penalty, {}),
        ("alps", alps_without_refit, {"rounds": 6}),  # where ADMM itself has not come to rest
    ],
)
def test_a_fault_planted_in_an_update_is_caught(method, fault, options, monkeypatch):
    values, x = problem(width=64)
    theirs = reference_methods.METHODS[method](values, [x], 0.7, None, **options)
    assert_agrees(single(method, values, x, 0.7, **options), theirs, values, x)
    monkeypatch.setattr(surgeon, "WINDOW", 16)
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        assert_agrees(single(method, values, x, 0.7, **options), theirs, values, x)


# --- the reference itself, by hand


def test_reference_swaps_by_hand():
    # Pruned columns 0 and 1 add 3 - 1 = 2. Column 0 comes back (-3), and of the kept the lowest that lowers e goes: 3.
    start, change = torch.tensor([True, True, False, False]).numpy(), torch.tensor([3.0, -1.0, 2.0, -0.5]).numpy()
    mask = reference_methods.refine_row(start, change, change, torch.tensor([0.0, 0.0, 1.0, 4.0]).numpy(), 1, 0.1, None)
    assert mask.tolist() == [False, True, False, True]


def test_reference_surgery_by_hand():
    # Two equal inputs with a third of its own: the smaller of the two goes and the other takes over its part.
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    inputs = torch.stack([x[:, 0], x[:, 0] + 0.02 * x[:, 1], x[:, 1]], dim=1)
    pruned = reference_methods.obs(torch.tensor([[1.0, 2.0, 5.0]]), [inputs], 0.34, None)
    assert pruned[0, 0] == 0
    assert abs(pruned[0, 1] - 3) < 0.1
    assert abs(pruned[0, 2] - 5) < 0.1
