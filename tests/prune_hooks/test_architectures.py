"""Every unstructured method on every family, and the families that came last held to the plain walk."""

import pytest
import torch

from prune_hooks import PruneSpec, method_names, prune
from prune_hooks.batches import make_batches
from prune_hooks.calibration import label_rows
from prune_hooks.registry import get_method
from prune_hooks.structured.registry import StructuredMethod
from prune_hooks.targets import find_targets
from prune_hooks.walk import walk
from tests.families import FAMILIES, PRUNED, build, token_rows
from tests.prune_hooks import reference

ROWS = token_rows()
TEXT = label_rows(ROWS, ("en", "sw") * 3)
SLOW = ("alps", "obs", "sparsegpt")
"""Methods that solve for every row or matrix."""
METHODS = [
    name
    for name in method_names()
    if name not in ("none", "mask") and not isinstance(get_method(name), StructuredMethod)
]
FURTHER = [family for family in PRUNED if family not in FAMILIES]
MLP = ["mlp.dense_h_to_4h", "mlp.dense_4h_to_h"]
LAYOUTS = {
    "gpt_neox": {"gpt_neox.layers": ["attention.query_key_value", "attention.dense", *MLP]},
    "falcon": {"transformer.h": ["self_attention.query_key_value", "self_attention.dense", *MLP]},
    "bloom": {"transformer.h": ["self_attention.query_key_value", "self_attention.dense", *MLP]},
    "mt5": reference.LAYOUTS["t5"],
}


def test_the_methods_are_all_there():
    assert set(METHODS) >= {
        "alps", "dsnot", "magnitude", "magnitude_global", "mwanda", "obs", "random", "ria", "sparsegpt", "wanda",
        "wanda_variant",
    }  # fmt: skip


@pytest.mark.parametrize("family", [*FURTHER, "qwen3_moe", "mixtral", "t5"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_prunes_every_family(method, family):
    model = build(family)
    before = {weight.name: weight.matrix().clone() for weight in find_targets(model).weights()}
    receipt = prune(model, None, PruneSpec(method=method, sparsity=0.5, calibration=TEXT), progress=False)
    assert receipt.sparsity_reached == pytest.approx(0.5, abs=1e-4)
    assert {record.name for record in receipt.weights} == before.keys()
    assert all(record.zeros_after for record in receipt.weights)
    assert all(torch.isfinite(weight.matrix()).all() for weight in find_targets(model).weights())
    updated = any(
        not torch.equal(weight.matrix(), before[weight.name].masked_fill(weight.matrix() == 0, 0))
        for weight in find_targets(model).weights()
    )
    assert updated == (method in ("alps", "obs", "sparsegpt"))
    with torch.no_grad():
        (batch,) = make_batches(model, ROWS, 6)
        assert torch.isfinite(model(**batch, use_cache=False).logits).all()


@pytest.mark.parametrize(
    ("method", "family"),
    [
        *((method, family) for method in METHODS if method not in SLOW for family in PRUNED),
        *((method, family) for method in SLOW for family in ("llama", "gpt2", "mixtral", "t5", "qwen3_next")),
    ],
)
def test_every_method_takes_patterns_on_every_family(method, family):
    model = build(family)
    assert all((weight.matrix() != 0).all() for weight in find_targets(model).weights())
    spec = PruneSpec(method=method, pattern="2:4", calibration=TEXT)
    assert prune(model, None, spec, progress=False).sparsity_reached == 0.5
    for weight in find_targets(model).weights():
        zeros = (weight.matrix() == 0).reshape(weight.matrix().shape[0], -1, 4).sum(dim=-1)
        assert (zeros == 2).all(), weight.name


@pytest.mark.parametrize("family", PRUNED)
def test_mwanda_is_not_wanda_in_any_family(family):
    ours, wandas = build(family), build(family)
    prune(ours, None, PruneSpec(method="mwanda", calibration=TEXT, method_options="lambda:5"), progress=False)
    prune(wandas, None, PruneSpec(calibration=TEXT), progress=False)
    pairs = [
        (one.matrix() == 0, other.matrix() == 0)
        for one, other in zip(find_targets(ours).weights(), find_targets(wandas).weights(), strict=True)
    ]
    assert all(torch.equal(one.sum(dim=1), other.sum(dim=1)) for one, other in pairs)
    unlike = sum(not torch.equal(one, other) for one, other in pairs)
    assert unlike > len(pairs) / 2


@pytest.mark.parametrize("attn", ["eager", "sdpa"])
@pytest.mark.parametrize("family", FURTHER)
def test_the_walk_is_the_model(family, attn):
    model = build(family, attn=attn)
    batches = make_batches(model, token_rows(rows=3, length=20), batch_rows=2)
    entered = []
    with torch.no_grad():
        for step in walk(model, find_targets(model), batches):
            entered.append([step.hidden(batch) for batch in step.batches])
            for batch in step.batches:
                step.advance(batch)
        for number, batch in enumerate(batches):
            out = model(**batch, use_cache=False, output_hidden_states=True)
            hidden = (
                [*out.encoder_hidden_states[:-1], *out.decoder_hidden_states[:-1]]
                if model.config.is_encoder_decoder
                else list(out.hidden_states[:-1])
            )
            for walked, own in zip(entered, hidden, strict=True):
                torch.testing.assert_close(walked[number], own, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", LAYOUTS)
def test_wanda_is_the_plain_one_to_the_bit(family, monkeypatch):
    monkeypatch.setitem(reference.LAYOUTS, family, LAYOUTS[family])
    ours, theirs = build(family), build(family)
    prune(ours, None, PruneSpec(calibration=ROWS, sequential="block"), progress=False)
    reference.prune(theirs, family, ROWS, "wanda", 0.5)
    left, right = reference.matrices(ours, family), reference.matrices(theirs, family)
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_linear_attention_is_pruned_by_its_own_inputs():
    """The first block, which has linear attention, by hand."""
    model, dense = build("qwen3_next"), build("qwen3_next")
    prune(model, None, PruneSpec(calibration=ROWS, sequential="block"), progress=False)
    names = [f"linear_attn.{name}" for name in ("in_proj_qkvz", "in_proj_ba", "out_proj")]
    block = [(f"model.layers.0.{name}", dense.get_submodule(f"model.layers.0.{name}"), []) for name in names]
    seen = reference.collect(dense, block, ROWS)
    for name, module, _ in block:
        expected = reference.wanda(reference.read_matrix(module), seen[name], 0.5, None)
        assert torch.equal(model.get_submodule(name).weight, expected)


def test_experts_that_no_token_reaches_are_pruned_by_magnitude_and_listed():
    model, dense = build("qwen3_moe"), build("qwen3_moe")
    receipt = prune(model, None, PruneSpec(calibration=ROWS[:1, :1]), progress=False)
    starved = [record.name for record in receipt.weights if record.starved]
    assert len(starved) == 2 * 2 * 3  # one token visits two of four experts in either block, of three matrices each
    weights = {weight.name: weight.matrix() for weight in find_targets(dense).weights()}
    for weight in find_targets(model).weights():
        if weight.name in starved:
            assert "experts" in weight.name
            mask = reference.mask_rows(weights[weight.name].abs(), 0.5)
            assert torch.equal(weight.matrix(), weights[weight.name].masked_fill(mask, 0))
    assert f"12 matrices, first {starved[0]}" in receipt.table()
