"""What all structured methods share: the dispatch, the receipt, refusals, and the way back to the dense model."""

import json

import pytest
import torch

from prune_hooks import PruneError, PruneSpec, get_method, method_names, prune, register_method
from prune_hooks.foresight import check_spec
from prune_hooks.receipt import hash_model
from prune_hooks.registry import Group, allocation_names, get_allocation, register_allocation
from prune_hooks.restore import DenseWeights
from prune_hooks.reuse import Reuse
from prune_hooks.structure import Structure
from prune_hooks.structured import load_sliced, register_structured
from prune_hooks.targets import find_targets
from tests.families import PRUNED, build
from tests.prune_hooks.structured_models import ROWS, logits, varied

METHODS = ("block_influence", "heads", "l0", "slicegpt")
STEPS = {"l0": {"steps": 2}}


def _spec(method, sparsity=0.4, **spec):
    return PruneSpec(method, sparsity, calibration=ROWS, method_options=STEPS.get(method, {}), **spec)


def test_they_are_methods_like_any_other() -> None:
    assert set(METHODS) <= set(method_names())
    with pytest.raises(
        PruneError, match=r"method 'heads' has no option 'lambda': expected one of .*heads \(1\), mlp \(1\)"
    ):
        prune(varied("llama"), None, PruneSpec("heads", 0.4, calibration=ROWS, method_options="lambda:1"))
    group = Group(find_targets(varied("llama")).weights()[:1], None, 0.5, None, 0)
    with pytest.raises(PruneError, match=r"asked to prune .* alone: expected a whole model"):
        get_method("heads").prune(group)


@pytest.mark.parametrize("method", METHODS)
def test_receipt_is_json_and_says_what_is_left(method: str) -> None:
    model = varied("mistral")
    receipt = prune(model, None, _spec(method), progress=False)
    written = json.loads(json.dumps(receipt.to_dict()))
    assert written["structured"]["layers"][0]["block"] == "model.layers.0"
    assert written["sparsity_asked"] == 0.4
    assert written["sparsity_reached"] == written["sparsity_masked"] > 0
    assert written["weights_sha256"] == hash_model(model)
    shapes = {weight.name: list(weight.matrix().shape) for weight in find_targets(model).weights()}
    assert {record["name"]: record["shape"] for record in written["weights"]} == shapes
    assert written["calibration"]["rows"] == 6
    assert set(written["seconds"]) == {"check", "calibration", "prune", "receipt"}
    before, after = written["structured"]["block_parameters"]
    assert (
        f"{before - after} of {before} block parameters; {written['structured']['reload']} reloads" in receipt.table()
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_same_command_gives_the_same_model(method: str) -> None:
    reuse = Reuse()
    first, second = (prune(varied("qwen3"), None, _spec(method), progress=False, reuse=reuse) for _ in range(2))
    assert first.weights_sha256 == second.weights_sha256


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", ["llama", "phi3", "qwen3_hybrid"])
def test_the_dense_model_comes_back(family: str, method: str) -> None:
    model = varied(family)
    expected, config = logits(model), model.config.to_dict()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    dense = DenseWeights(model)
    prune(model, None, _spec(method), progress=False)
    assert not torch.equal(logits(model), expected)
    dense.restore()
    assert torch.equal(logits(model), expected)
    assert model.config.to_dict() == config
    assert {name: tensor.tolist() for name, tensor in model.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in state.items()
    }
    assert len(find_targets(model).weights()) == len(find_targets(varied(family)).weights())
    other = prune(model, None, PruneSpec("wanda", 0.5, calibration=ROWS), progress=False)
    fresh = prune(varied(family), None, PruneSpec("wanda", 0.5, calibration=ROWS), progress=False)
    assert other.weights_sha256 == fresh.weights_sha256
    assert "structured" not in other.to_dict()


def test_a_model_that_was_not_cut_keeps_what_was_set_since() -> None:
    model = varied("llama")
    structure = Structure(model)
    model.own_mark, model.config.own_mark = 1, 2
    assert not structure.changed
    structure.restore()
    assert (model.own_mark, model.config.own_mark) == (1, 2)
    prune(model, None, _spec("block_influence"), progress=False)
    assert structure.changed
    structure.restore()
    assert not structure.changed
    assert not hasattr(model, "own_mark")


def test_a_dense_model_is_told_from_a_cut_one() -> None:
    model = varied("llama")
    prune(model, None, _spec("slicegpt"), progress=False)
    with pytest.raises(PruneError, match=r"method 'heads' on a model already changed in shape \(slicegpt\)"):
        prune(model, None, _spec("heads"), progress=False)


def test_single_weights_of_a_cut_model_can_still_be_pruned() -> None:
    model = varied("llama")
    prune(model, None, _spec("heads"), progress=False)
    receipt = prune(model, None, PruneSpec("wanda", 0.5, calibration=ROWS), progress=False)
    assert receipt.sparsity_reached == pytest.approx(0.5, abs=0.03)


def test_patterns_and_allocations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PruneError, match=r"method 'heads' with pattern '2:4': .*; expected pattern=unstructured"):
        prune(varied("llama"), None, PruneSpec("heads", pattern="2:4", calibration=ROWS))
    held = {name: get_allocation(name) for name in allocation_names()}
    monkeypatch.setattr("prune_hooks.registry._ALLOCATIONS", held)
    register_allocation("falling")(lambda targets, sparsity: [sparsity] * len(targets.blocks))
    with pytest.raises(PruneError, match=r"with allocation 'falling': .*; expected allocation=uniform"):
        prune(varied("llama"), None, PruneSpec("heads", 0.4, calibration=ROWS, allocation="falling"))


@pytest.mark.parametrize("method", ["block_influence", "l0", "slicegpt"])
def test_an_order_that_says_nothing_is_refused(method: str) -> None:
    with pytest.raises(PruneError, match=rf"method '{method}' with sequential=block: .*expected sequential=weight"):
        prune(varied("llama"), None, _spec(method, sequential="block"))
    with pytest.raises(PruneError, match=rf"method '{method}' with sequential=block"):
        check_spec(_spec(method, sequential="block"))


def test_heads_knows_both_orders() -> None:
    digests = {
        prune(varied("llama"), None, _spec("heads", sequential=order), progress=False).weights_sha256
        for order in ("weight", "block")
    }
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("method", "options", "family"),
    [
        ("heads", "", "llama"),
        ("heads", "mlp:0", "llama"),
        ("heads", "heads:0", "gpt2"),
        ("l0", "", "opt"),
        ("block_influence", "", "llama"),
    ],
)
def test_what_would_remove_nothing_is_refused(method: str, options: str, family: str) -> None:
    model = varied(family)
    before = hash_model(model)
    spec = PruneSpec(method, 0.001, calibration=ROWS, method_options=options)
    with pytest.raises(PruneError, match=rf"method '{method}' at sparsity 0\.001 .*removes none: .*; raise sparsity"):
        prune(model, None, spec, progress=False)
    assert hash_model(model) == before


@pytest.mark.parametrize(("method", "family"), [("heads", "llama"), ("heads", "gemma3"), ("l0", "gpt2")])
def test_just_above_what_is_refused_something_goes(method: str, family: str) -> None:
    options = STEPS.get(method, {})
    with pytest.raises(PruneError, match="expected more than") as caught:
        prune(varied(family), None, PruneSpec(method, 1e-9, calibration=ROWS, method_options=options), progress=False)
    least = float(str(caught.value).partition("expected more than ")[2].partition(",")[0])
    spec = PruneSpec(method, least * 1.02, calibration=ROWS, method_options=options)
    assert prune(varied(family), None, spec, progress=False).sparsity_reached > 0


def test_heads_that_may_remove_neither_kind_is_refused_outright() -> None:
    spec = PruneSpec("heads", 0.05, calibration=ROWS, method_options="heads:0+mlp:0")
    for call in (check_spec, lambda spec: prune(varied("llama"), None, spec, progress=False)):
        with pytest.raises(PruneError, match=r"heads:0\+mlp:0: nothing is left that may go; expected heads:1 or mlp:1"):
            call(spec)


def test_heads_where_each_block_has_but_one_group_is_refused() -> None:
    config = build("llama").config
    config.num_key_value_heads = 1
    model = type(build("llama"))(config)
    with pytest.raises(PruneError, match=r"removes none: no block has more than one unit of what may go"):
        prune(model, None, PruneSpec("heads", 0.01, calibration=ROWS, method_options="mlp:0"), progress=False)


_NO_HEADS = {"bloom", "falcon", "gpt_neox", "mixtral", "mt5", "qwen3_moe", "qwen3_next", "t5"}
REFUSED = {
    "heads": _NO_HEADS,
    "l0": _NO_HEADS,
    "block_influence": {"bloom", "falcon", "gpt_neox", "mt5", "qwen3_next", "t5"},
    "slicegpt": _NO_HEADS | {"gemma3", "gpt2", "opt"},
}


@pytest.mark.parametrize(("method", "family"), [(m, f) for m in METHODS for f in sorted(REFUSED[m])])
def test_families_a_method_does_not_know_are_refused_by_name(method: str, family: str) -> None:
    model = build(family)
    before = hash_model(model)
    kind = model.config.model_type
    with pytest.raises(PruneError, match=rf"method '{method}' does not know {kind} models \(\w+\): expected one of"):
        prune(model, None, _spec(method), progress=False)
    assert hash_model(model) == before


@pytest.mark.parametrize("method", METHODS)
def test_all_other_families_are_taken(method: str) -> None:
    for family in sorted(set(PRUNED) - REFUSED[method]):
        assert prune(build(family), None, _spec(method), progress=False).sparsity_reached > 0, family


def test_offloaded_models_are_refused() -> None:
    from accelerate import cpu_offload

    model = varied("llama")
    cpu_offload(model, execution_device=torch.device("cpu"))
    with pytest.raises(PruneError, match=r"'heads' changes the model's shape, part of which is offloaded"):
        prune(model, None, _spec("heads"))


def test_a_name_can_be_taken_once() -> None:
    with pytest.raises(PruneError, match="method 'heads' is registered twice"):
        register_structured("heads", ("llama",))(lambda job: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(PruneError, match="method 'l0' is registered twice"):
        register_method("l0")(lambda group: [])


def test_folders_that_hold_something_else_are_refused(tmp_path) -> None:
    with pytest.raises(PruneError, match=r"has no prune_hooks\.json: expected a folder written by save_sliced"):
        load_sliced(tmp_path)
    (tmp_path / "prune_hooks.json").write_text('{"schema": 99}')
    with pytest.raises(PruneError, match=r"is of another version than 1"):
        load_sliced(tmp_path)
