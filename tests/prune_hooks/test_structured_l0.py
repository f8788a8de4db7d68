"""Learned gates: their arithmetic by hand, their training and choice against a plain loop, what is cut to the bit."""

import logging
from unittest import mock

import pytest
import torch

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.structured import load_sliced, save_sliced
from prune_hooks.structured.gate_training import Gated, along, expected_sparsity, hold
from prune_hooks.structured.gates import open_probability, sample
from tests.prune_hooks import reference_structured as reference
from tests.prune_hooks.structured_models import CUT, PROBE, ROWS, generated, greedy_without_cache, logits, varied


def _prune(model, sparsity=0.4, steps=4, **spec):
    options = {"steps": steps} | spec.pop("options", {})
    spec = {"calibration": ROWS} | spec
    return prune(model, None, PruneSpec("l0", sparsity, method_options=options, **spec), progress=False)


def _gone(receipt):
    return [(layer["groups"], layer["channels"]) for layer in receipt.structured["layers"]]


def test_gates_by_hand() -> None:
    # u = 1/2 leaves s = sigmoid(1.5 * log_alpha), stretched to 1.2 s - 0.1 and cut to [0, 1].
    z = sample(torch.tensor([0.0, 4.0, -4.0, 1.0]), torch.full((4,), 0.5))
    assert z.tolist() == pytest.approx([0.5, 1.0, 0.0, 1.2 * 0.8175745 - 0.1])
    # A gate at 0 is closed with probability 1 / (1 + 11^(2/3)); at log_alpha = -2/3 log 11 with 1/2.
    assert open_probability(torch.tensor([0.0])).item() == pytest.approx(1 - 1 / (1 + 11 ** (2 / 3)))
    assert open_probability(torch.tensor([-1.5985968])).item() == pytest.approx(0.5, abs=1e-6)


def test_probability_is_the_share_of_closed_gates() -> None:
    uniform = torch.linspace(1e-5, 1 - 1e-5, 20001)
    for location in (-2.0, 0.0, 1.5):
        opened = (sample(torch.full_like(uniform, location), uniform) > 0).float().mean()
        assert opened.item() == pytest.approx(float(open_probability(torch.tensor(location))), abs=1e-3)


@pytest.mark.parametrize("family", CUT)
def test_choice_and_logits_are_the_references(family: str) -> None:
    cut, zeroed = varied(family), varied(family)
    receipt = _prune(cut)
    locations, sizes, total = reference.l0_locations(zeroed, family, ROWS, 0.4, steps=4, rate=0.1)
    gone, removed = reference.l0_choice(locations, sizes, 0.4 * total)
    assert _gone(receipt) == list(zip(gone[::2], gone[1::2], strict=True))
    assert receipt.sparsity_reached == pytest.approx(removed / total)
    assert receipt.sparsity_reached == pytest.approx(0.4, abs=min(sizes) / total)
    for block, (groups, channels) in zip(reference.blocks(zeroed, family), _gone(receipt), strict=True):
        attention, mlp = (block.get_submodule(name) for name in reference.PLACES[family][1:])
        reference.zero_units(attention, groups, reference.QUERIES_A_GROUP[family] * reference.HEAD)
        reference.zero_units(mlp, channels, 1)
    torch.testing.assert_close(logits(cut), logits(zeroed), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "phi3", "gpt2"])
def test_blocks_of_different_widths_generate_and_reload(family: str, tmp_path) -> None:
    model = varied(family)
    receipt = _prune(model)
    shapes = {(len(groups), len(channels)) for groups, channels in _gone(receipt)}
    assert len(shapes) > 1
    assert receipt.structured["reload"] == "load_sliced"
    assert torch.equal(generated(model, PROBE, 5), greedy_without_cache(model, PROBE, 5))
    loaded = load_sliced(save_sliced(model, tmp_path))
    assert torch.equal(logits(loaded), logits(model))
    assert torch.equal(generated(loaded, PROBE, 5), generated(model, PROBE, 5))


@pytest.mark.parametrize(
    ("family", "sparsity"), [("llama", 0.2), ("llama", 0.5), ("llama", 0.7), ("gemma3", 0.5), ("gpt2", 0.7)]
)
def test_the_defaults_reach_the_target(family: str, sparsity: float) -> None:
    receipt = _prune(varied(family), sparsity, options={"steps": 200})
    assert receipt.structured["steps"] == 200
    assert receipt.structured["expected_sparsity"] == pytest.approx(sparsity, abs=1e-3)
    assert receipt.sparsity_reached == pytest.approx(sparsity, abs=0.01)


def _gates(*parts: tuple[int, list[float]]) -> list[Gated]:
    """Gates of parts with a size and locations, over nothing."""
    return [Gated("", None, None, size, torch.tensor(values), torch.empty(0)) for size, values in parts]


def test_expected_sparsity_by_hand() -> None:
    # The highest of each part stays; a location of -2/3 log 11 closes with 1/2.
    half = -1.5985968
    gated = _gates((3, [half, 5.0, half]), (10, [half, half]), (7, [half]))
    assert expected_sparsity(gated, 100) == pytest.approx((3 * 2 * 0.5 + 10 * 0.5) / 100)


def test_all_move_by_one_amount_to_the_target() -> None:
    gated = _gates((3, [0.1, 0.4, -0.3]), (10, [1.0, 0.0]))
    before = [gates.log_alpha.clone() for gates in gated]
    for target in (0.02, 0.08, 0.15):
        hold(gated, 100, target)
        assert expected_sparsity(gated, 100) == pytest.approx(target, abs=1e-6)
        moved = torch.cat([gates.log_alpha - old for gates, old in zip(gated, before, strict=True)])
        torch.testing.assert_close(moved, moved[:1].expand(5))
    hold(gated, 100, 0.16)  # all that may go
    assert expected_sparsity(gated, 100) == pytest.approx(0.16, abs=1e-6)


def test_the_price_of_sparsity_by_hand() -> None:
    # At -2/3 log 11 the slope of e is -size / 4. Two units of sizes 4 and 8 may go: slopes -1 and -2 (the first of
    # equal locations stays). Loss gradients -5 and -1 give the price -6 / 3 = -2, so 2 and 4 more: -3 and 3.
    half = -1.5985968
    gated = _gates((4, [half, half]), (8, [half, half]))
    first, second = along(gated, [torch.tensor([9.0, -5.0]), torch.tensor([9.0, -1.0])])
    assert [*first.tolist(), *second.tolist()] == pytest.approx([0.0, -3.0, 0.0, 3.0], abs=1e-4)


def _learned(useless: torch.Tensor):
    """A Llama that has learned ROWS by heart while half of its MLP channels said next to nothing."""
    model = varied("llama").requires_grad_(True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        text = model(input_ids=ROWS, use_cache=False).logits[:, :-1]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(text.flatten(0, 1), ROWS[:, 1:].flatten()).backward()
        optimizer.step()
        for block in model.model.layers:
            block.mlp.down_proj.weight.data[:, useless] *= 1e-3
    optimizer.zero_grad()
    return model.eval()


def test_training_closes_what_the_text_does_not_need() -> None:
    useless = torch.randperm(48, generator=torch.Generator().manual_seed(1))[:24]
    receipt = _prune(_learned(useless), 0.25, steps=60)
    closed = [set(channels) for _, channels in _gone(receipt)]
    assert sum(map(len, closed)) >= 50
    assert all(channels <= set(useless.tolist()) for channels in closed)


def test_weights_stay_and_may_still_be_trained_afterwards() -> None:
    model, dense = varied("opt"), varied("opt")
    model.model.decoder.layers[0].fc1.weight.requires_grad_(False)
    receipt = _prune(model)
    groups, channels = _gone(receipt)[0]
    kept = [i for i in range(48) if i not in channels]
    assert torch.equal(model.model.decoder.layers[0].fc2.weight, dense.model.decoder.layers[0].fc2.weight[:, kept])
    assert torch.equal(model.model.decoder.layers[0].fc1.bias, dense.model.decoder.layers[0].fc1.bias[kept])
    assert model.model.decoder.layers[1].fc1.weight.requires_grad
    assert not model.model.decoder.layers[0].fc1.weight.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    assert groups


def test_the_seed_decides() -> None:
    first, again, other = (_gone(_prune(varied("qwen3"), prune_seed=seed)) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_the_cost_is_said_before_and_after(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        receipt = _prune(varied("llama"), steps=3, options={"rows": 2})
    said = [record.getMessage() for record in caplog.records if "l0" in record.getMessage()]
    assert said[0] == "l0 trains 150 gates: 3 steps x 2 x 24 tokens = 144, forward and backward"
    assert said[1].startswith("l0: about ")
    assert (receipt.structured["steps"], receipt.structured["tokens"]) == (3, 144)
    assert receipt.structured["training_seconds"] > 0


def test_what_training_left_open_is_said(caplog: pytest.LogCaptureFixture) -> None:
    receipt = _prune(varied("llama"), 0.5, steps=1)
    undecided = receipt.structured["undecided_gates"]
    assert undecided > 0.5  # one step parts nothing
    assert f"expected sparsity 0.5000, {undecided:.0%} of the gates undecided" in receipt.table()
    assert f"l0: {undecided:.0%} of the gates are undecided after 1 steps" in caplog.text
    caplog.clear()
    trained = _prune(_learned(torch.arange(24)), 0.5, steps=200)
    assert trained.structured["undecided_gates"] < 0.5
    assert "undecided" not in caplog.text


def test_too_much_and_no_number_are_refused() -> None:
    with (
        mock.patch("prune_hooks.structured.l0.train", side_effect=AssertionError("it had begun to train")),
        pytest.raises(PruneError, match=r"sparsity 0\.95: at most 0\.\d+ of the block parameters can go"),
    ):
        _prune(varied("llama"), 0.95)
    model = varied("llama")
    model.lm_head.weight.data *= 1e38
    with pytest.raises(PruneError, match=r"the loss of method 'l0' is (nan|inf) at step 0: expected a finite one"):
        _prune(model)
    with pytest.raises(PruneError, match=r"calibration_dtype='float32' on a model in half precision"):
        _prune(varied("llama").bfloat16(), calibration_dtype="float32")
