"""What each of the further methods is for, and what they all promise: coverage, sparsity, patterns, refusals."""

import statistics as summary
from importlib import import_module

import pytest
import torch
from torch import nn

from prune_hooks import PruneError, PruneSpec, get_method, methods, prune, registry
from prune_hooks.foresight import check_spec
from prune_hooks.methods.obs import operations, solve
from prune_hooks.options import Option
from prune_hooks.registry import Group, register_method
from prune_hooks.statistics import Needs, Statistics
from prune_hooks.swaps import expected_error, swap, swap_within_runs
from prune_hooks.targets import find_targets
from prune_hooks.weights import Weight
from tests.families import FAMILIES, build, token_rows

ROWS = token_rows(rows=6, length=24)
LAYERWISE = ["ria", "dsnot", "alps", "obs", "wanda_variant"]
METHODS = [*LAYERWISE, "magnitude_global"]


def _weight(values: torch.Tensor) -> Weight:
    holder = nn.Module()
    holder.weight = nn.Parameter(values.clone(), requires_grad=False)
    return Weight("w", holder, "weight")


def _statistics(x: torch.Tensor, needs: Needs = Needs.MEANS | Needs.HESSIAN) -> Statistics:
    found = Statistics("w", x.shape[1], needs, x.device)
    found.update(x)
    return found


def _pruned(method: str, values: torch.Tensor, x: torch.Tensor, sparsity: float = 0.5, kept=None, **options):
    one, chosen = _weight(values), get_method(method)
    chosen.prune(Group((one,), _statistics(x), sparsity, kept, 0, chosen.resolve(options)))
    return one.matrix()


def _problem(seed: int, out: int = 40, width: int = 96, tokens: int = 500) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(width, width, generator=generator) * 0.15 + torch.eye(width)
    scale = torch.rand(width, generator=generator) * 3 + 0.1
    x = torch.randn(tokens, width, generator=generator) @ mix * scale + 0.3 * scale
    return torch.randn(out, width, generator=generator), x


def _loss(method: str, seed: int, sparsity: float = 0.5, kept: tuple[int, int] | None = None) -> float:
    values, x = _problem(seed)
    return float((x @ (_pruned(method, values, x, sparsity, kept) - values).T).square().sum())


# --- what each is for


@pytest.mark.parametrize(("sparsity", "kept"), [(0.5, None), (0.7, None), (0.5, (2, 4))])
def test_surgery_loses_no_more_than_sparsegpt_and_that_no_more_than_wanda(sparsity: float, kept) -> None:
    obs, sparsegpt, wanda = (
        summary.median(_loss(method, seed, sparsity, kept) for seed in range(5))
        for method in ("obs", "sparsegpt", "wanda")
    )
    assert obs < sparsegpt < wanda


def test_alps_loses_less_than_sparsegpt_at_high_sparsity() -> None:
    assert all(_loss("alps", seed, 0.7) < _loss("sparsegpt", seed, 0.7) for seed in range(5))


@pytest.mark.parametrize("start", ["wanda", "magnitude", "ria", "sparsegpt", "wanda_variant", "random", "alps"])
@pytest.mark.parametrize("kept", [None, (2, 4), (1, 4)])
def test_dsnot_lowers_the_expected_error_and_keeps_counts(start: str, kept) -> None:
    values, x = _problem(0)
    before, after = (_pruned("dsnot", values, x, 0.5, kept, start=start, cycles=cycles) == 0 for cycles in (0, 50))
    errors = [expected_error(mask, values * x.mean(dim=0)).abs() for mask in (before, after)]
    # Within runs the partner is given, and may move the error the other way.
    assert errors[1].sum() < (0.5 if kept is None else 1) * errors[0].sum()
    assert torch.equal(before.sum(dim=1), after.sum(dim=1))
    if kept is not None:
        assert (after.reshape(40, -1, kept[1]).sum(dim=2) == kept[1] - kept[0]).all()


def test_dsnot_starts_from_the_masks_of_other_methods() -> None:
    values, x = _problem(1)
    for start in ("wanda", "wanda_variant", "sparsegpt"):
        mask = _pruned("dsnot", values, x, start=start, cycles=0) == 0
        if start == "sparsegpt":  # as published: the first scores, row by row, nothing updated
            assert torch.equal(mask.sum(dim=1), torch.full((40,), 48))
        else:
            assert torch.equal(mask, _pruned(start, values, x) == 0)


def test_one_swap_by_hand() -> None:
    mask = torch.tensor([[True, True, False, False]])
    change, score = torch.tensor([[3.0, -1.0, 2.0, -0.5]]), torch.tensor([[0.0, 0.0, 1.0, 4.0]])
    assert swap(mask, change, torch.ones(4), score, 1, 0.1).tolist() == [[False, True, False, True]]
    assert swap(mask, change, torch.ones(4), score, 1, 2.0).tolist() == mask.tolist()  # e_r is 2: small enough
    # Within runs of two, what comes back has one partner, whatever its sign; -1.5 would turn the sign of e_r.
    pair = torch.tensor([[True, False, True, False]])
    change = torch.tensor([[3.0, 0.5, -1.0, -0.5]])
    assert swap_within_runs(pair, change, torch.ones(4), score, 2, 1, 0.1).tolist() == pair.tolist()
    change = torch.tensor([[3.0, 1.5, -1.0, -0.5]])
    assert swap_within_runs(pair, change, torch.ones(4), score, 2, 1, 0.1).tolist() == [[False, True, True, False]]


def test_dsnot_leaves_the_start_mask_where_it_is_told_to() -> None:
    refined, attention, start = build("llama"), build("llama"), build("llama")
    for model, options in ((refined, {}), (attention, {"skip": "mlp"}), (start, {"cycles": 0})):
        limits = {"threshold": 0.001} | options
        prune(model, None, PruneSpec(method="dsnot", calibration=ROWS, sequential="block", method_options=limits))
    first, skipped, plain = (model.model.layers[0] for model in (refined, attention, start))
    assert torch.equal(skipped.mlp.up_proj.weight, plain.mlp.up_proj.weight)
    assert not torch.equal(first.mlp.up_proj.weight, plain.mlp.up_proj.weight)
    assert torch.equal(skipped.self_attn.q_proj.weight, first.self_attn.q_proj.weight)
    assert not torch.equal(skipped.self_attn.q_proj.weight, plain.self_attn.q_proj.weight)


def test_the_variant_lets_rows_lose_different_numbers() -> None:
    values, x = _problem(0)
    values[0, 5:] *= 0.001  # nearly all of this row's sum lies in five weights
    counts = (_pruned("wanda_variant", values, x) == 0).sum(dim=1)
    assert counts.sum() == values.numel() // 2
    assert counts[0] > 85
    assert len(set(counts.tolist())) > 3


def test_ria_spares_a_row_and_a_column_of_small_weights() -> None:
    values = torch.randn(20, 40, generator=torch.Generator().manual_seed(0))
    values[3] *= 1e-3
    values[:, 7] *= 1e-3
    x = torch.ones(4, 40)
    kept = _pruned("ria", values, x) != 0
    assert kept[3].any()
    assert kept[:, 7].any()
    assert not (_pruned("magnitude", values, x) != 0)[3].any()


def test_rows_and_columns_of_zeros_are_no_obstacle() -> None:
    values, x = _problem(0)
    values[2], values[:, 9], x[:, 11] = 0, 0, 0
    for method in LAYERWISE:
        pruned = _pruned(method, values, x)
        assert torch.isfinite(pruned).all()
        assert (pruned == 0).float().mean() >= 0.5


# --- what all promise


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_every_family_is_covered_and_gets_the_asked_sparsity(family: str, method: str) -> None:
    _assert_promised(family, method, {"sparsity": 0.7})


@pytest.mark.parametrize("family", ["gpt2", "mixtral", "phi3"])
@pytest.mark.parametrize("method", METHODS)
def test_patterns_hold_in_transposed_fused_and_expert_matrices(family: str, method: str) -> None:
    model = _assert_promised(family, method, {"pattern": "2:4"})
    for weight in find_targets(model).weights():
        zeros = weight.matrix().reshape(-1, weight.matrix().shape[1] // 4, 4) == 0
        assert (zeros.sum(dim=2) == 2).all()


def _assert_promised(family: str, method: str, amount: dict[str, object]) -> nn.Module:
    options = {"rounds": 30} if method == "alps" else {}
    model = build(family)
    spec = PruneSpec(method=method, calibration=ROWS, method_options=options, **amount)
    receipt = prune(model, None, spec, progress=False)
    assert [name for name in receipt.unreached if not name.endswith(("gate.weight", "router.weight"))] == []
    assert (receipt.coverage == 1) == (not receipt.unreached)  # routers stay dense
    for record in receipt.weights:
        out, width = record.shape
        assert record.masked == record.zeros_after
        if method != "magnitude_global" or spec.kept:
            by_row = method == "dsnot"
            assert record.masked == (out * int(width * spec.sparsity) if by_row else int(out * width * spec.sparsity))
    assert receipt.sparsity_reached == pytest.approx(spec.sparsity, abs=1 / 24 if method == "dsnot" else 1e-3)
    return model


@pytest.mark.parametrize("method", LAYERWISE)
def test_starved_experts_are_pruned_and_listed(method: str) -> None:
    model = build("mixtral")
    for block in model.model.layers:
        with torch.no_grad():
            block.mlp.gate.weight.zero_()  # experts 0 and 1 draw every token
    receipt = prune(model, None, PruneSpec(method=method, calibration=ROWS), progress=False)
    starved = [record for record in receipt.weights if record.starved]
    assert len(starved) == 3 * 2 * 3
    assert {record.masked * 2 for record in starved} == {32 * 48}
    assert receipt.sparsity_reached == 0.5


@pytest.mark.parametrize("method", [*METHODS, "sparsegpt"])
def test_at_sparsity_0_nothing_changes(method: str) -> None:
    values, x = _problem(0)
    assert torch.equal(_pruned(method, values, x, 0.0), values)
    model, dense = build("llama"), build("llama")
    prune(model, None, PruneSpec(method=method, sparsity=0.0, calibration=ROWS), progress=False)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), dense.parameters(), strict=True))


@pytest.mark.parametrize("method", LAYERWISE)
def test_matrices_of_one_group_are_pruned_as_if_alone(method: str) -> None:
    x = _problem(0)[1]
    matrices = [scale * _problem(seed, out)[0] for seed, (out, scale) in enumerate(((24, 1.0), (8, 30.0)))]
    together, chosen = [_weight(values) for values in matrices], get_method(method)
    chosen.prune(Group(tuple(together), _statistics(x), 0.6, None, 0, chosen.resolve({})))
    for weight, values in zip(together, matrices, strict=True):
        assert torch.equal(weight.matrix(), _pruned(method, values, x, 0.6))


@pytest.mark.parametrize("method", LAYERWISE)
def test_bfloat16_weights_are_pruned_in_float32(method: str) -> None:
    values, x = _problem(0)
    half = _pruned(method, values.bfloat16(), x)
    assert torch.equal(half, _pruned(method, values.bfloat16().float(), x).bfloat16())


def test_surgery_does_not_depend_on_how_many_rows_go_at_once() -> None:
    values, x = _problem(0)
    factor, _, _ = _statistics(x).inverse_factor(0.01, 1.0)
    whole, some = (solve(values, factor.T @ factor, 0.6, None, at_once)[0] for at_once in (40, 7))
    assert torch.equal(whole == 0, some == 0)
    torch.testing.assert_close(whole, some, rtol=1e-3, atol=1e-4)


def test_the_table_lists_every_method_that_prunes_weights() -> None:
    assert methods.__doc__ is not None
    for name in methods.__all__:
        listed = "none" if name == "dense" else name
        assert f"| `{listed}` |" in methods.__doc__
        assert get_method(listed).name == listed


# --- refusals


def test_surgery_out_of_reach_is_refused_with_an_estimate() -> None:
    model = build("llama")
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(
        PruneError,
        match=r"exact OBS would take about 4\.55e-07 hours for 21 matrices on cpu .*at most 1e-09; use .*hours:4\.6e",
    ):
        prune(model, None, PruneSpec(method="obs", calibration=ROWS, method_options={"hours": 1e-9}))
    with pytest.raises(
        PruneError,
        match=r"needs 1\.84e-05 GB for a single row of model\.layers\.0\.mlp\.down_proj\.weight \(48 input .*1e-06",
    ):
        prune(model, None, PruneSpec(method="obs", calibration=ROWS, method_options={"gigabytes": 1e-6}))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


def test_the_estimate_counts_only_what_is_pruned() -> None:
    obs, targets = get_method("obs"), find_targets(build("llama"))
    assert obs.check is not None
    options = obs.resolve({"hours": operations(32, 48) / 1.5e10 / 3600 * 1.01})
    down = next(weight for weight in targets.weights() if weight.name.endswith("down_proj.weight"))
    obs.check([(weight, 0.5 if weight is down else 0.0) for weight in targets.weights()], options)
    with pytest.raises(PruneError, match=r"about .* hours for 21 matrices"):
        obs.check([(weight, 0.5) for weight in targets.weights()], options)
    obs.check([(weight, 0.0) for weight in targets.weights()], options)


@pytest.mark.parametrize("start", ["magnitude_global", "none", "dsnot"])
def test_dsnot_refuses_starts_that_give_no_layer_a_mask(start: str) -> None:
    spec = PruneSpec(method="dsnot", calibration=ROWS, method_options={"start": start})
    with pytest.raises(PruneError, match=rf"'dsnot' cannot start from '{start}': expected .* a layer at a time"):
        prune(build("llama"), None, spec)
    with pytest.raises(PruneError, match=r"unknown method 'wand'"):
        prune(build("llama"), None, PruneSpec(method="dsnot", calibration=ROWS, method_options={"start": "wand"}))


@pytest.mark.parametrize("start", ["heads", "l0", "block_influence", "slicegpt"])
def test_dsnot_refuses_starts_that_remove_structures_before_anything_else(start: str) -> None:
    spec = PruneSpec(method="dsnot", method_options={"start": start})
    with pytest.raises(
        PruneError, match=rf"'dsnot' cannot start from '{start}': it removes whole structures and leaves"
    ):
        check_spec(spec)


def test_dsnot_refuses_what_its_start_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(import_module("prune_hooks.methods.obs").RATES, "cpu", 1e2)
    model = build("llama")
    monkeypatch.setattr("prune_hooks.api._rows", lambda *_: pytest.fail("calibration was made"))
    with pytest.raises(
        PruneError, match=r"'dsnot' cannot start from 'obs'.*exact OBS would take about .* change start"
    ):
        prune(model, None, PruneSpec(method="dsnot", calibration=ROWS, method_options="start:obs"), progress=False)


def test_dsnot_refuses_what_a_users_start_refuses() -> None:
    def check(plan, options):
        raise PruneError(f"no more than {options['most']} matrices, not {len(plan)}")

    register_method("refuses_for_a_test", options={"most": Option(3)}, check=check)(lambda group: pytest.fail("it ran"))
    try:
        spec = PruneSpec(method="dsnot", calibration=ROWS, method_options="start:refuses_for_a_test")
        with pytest.raises(PruneError, match=r"'refuses_for_a_test', .*no more than 3 matrices, not 21"):
            prune(build("llama"), None, spec, progress=False)
    finally:
        del registry._METHODS["refuses_for_a_test"]
