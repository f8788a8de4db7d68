import sys
import types
from pathlib import Path

import pytest
import torch

from prune_hooks import PruneError, PruneSpec, get_method, method_names, prune, register_method
from prune_hooks.registry import Group, Outcome, allocation_names, get_allocation, register_allocation
from tests.families import build, token_rows


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("own_methods")
    monkeypatch.setitem(sys.modules, "own_methods", module)
    monkeypatch.setattr("prune_hooks.registry._METHODS", dict.fromkeys(()) | _methods())
    return module


def _methods() -> dict[str, object]:
    return {name: get_method(name) for name in method_names()}


def test_the_methods_there_are() -> None:
    assert set(method_names()) >= {"magnitude", "magnitude_global", "none", "random", "sparsegpt", "wanda"}
    assert set(method_names()) >= {"ria", "dsnot", "alps", "obs", "wanda_variant"}
    assert allocation_names() == ["correlation", "file", "owl", "uniform"]


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(
        PruneError, match=r"unknown method 'wandaa' \(did you mean 'wanda'\?\): expected one of alps, .*, wanda, .*"
    ):
        prune(build("llama"), None, PruneSpec(method="wandaa"))
    with pytest.raises(
        PruneError,
        match=r"unknown allocation 'owll' \(did you mean 'owl'\?\): expected one of correlation, file, owl, uniform",
    ):
        prune(build("llama"), None, PruneSpec(allocation="owll"))


def test_a_method_of_ones_own_is_loaded_by_address(plugin: types.ModuleType) -> None:
    @register_method("first_column")
    def first_column(group: Group) -> list[Outcome]:
        for weight in group.weights:
            weight.matrix()[:, 0] = 0
        return [Outcome(masked=weight.matrix().shape[0]) for weight in group.weights]

    plugin.method = first_column  # type: ignore[attr-defined]
    model = build("llama")
    receipt = prune(model, None, PruneSpec(method="own_methods:method"))
    assert torch.equal(model.model.layers[0].mlp.up_proj.weight[:, 0], torch.zeros(48))
    assert receipt.weights[0].masked == 32


OWN_METHOD = '''\
"""A pruning method of one's own: magnitude times the root of the input's norm, compared within a row."""

from prune_hooks.registry import Group, Outcome, register_method
from prune_hooks.statistics import Needs


@register_method("root_wanda", needs=Needs.NORMS)
def root_wanda(group: Group) -> list[Outcome]:
    norms = group.statistics.mean_square().sqrt()  # one a column; the group's weights read the same input
    outcomes = []
    for weight in group.weights:
        matrix = weight.matrix()  # (out, in): what is written here is written into the model
        mask = group.choose(matrix.float().abs() * norms.sqrt(), within="row")  # the sparsity or n:m pattern asked
        matrix[mask] = 0
        outcomes.append(Outcome(masked=int(mask.sum())))
    return outcomes
'''


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("pattern", ["unstructured", "2:4"])
def test_a_file_of_ones_own_is_a_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    assert len(OWN_METHOD.splitlines()) < 25
    (tmp_path / "my_pkg").mkdir()
    (tmp_path / "my_pkg" / "my_module.py").write_text(OWN_METHOD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("my_pkg", "my_pkg.my_module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec, rest = PruneSpec.from_model_args(
        {"method": "my_pkg.my_module:root_wanda", "pattern": pattern, "calibration": token_rows()}
    )
    assert rest == {}
    model = build("llama")
    receipt = prune(model, None, spec, progress=False)
    assert receipt.sparsity_masked == receipt.sparsity_reached == 0.5
    for block in model.model.layers:
        rows = (block.mlp.up_proj.weight == 0).float()
        assert (rows.mean(dim=1) == 0.5).all()
        assert pattern == "unstructured" or (rows.reshape(48, 8, 4).sum(-1) == 2).all()
    assert receipt.spec["method"] == "my_pkg.my_module:root_wanda"
    wanda = prune(build("llama"), None, PruneSpec(pattern=pattern, calibration=token_rows()), progress=False)
    assert wanda.weights_sha256 != receipt.weights_sha256
    with pytest.raises(PruneError, match=r"'my_pkg\.my_module:Root' cannot be loaded .*module:attribute"):
        get_method("my_pkg.my_module:Root")


def test_addresses_that_lead_nowhere_are_errors(plugin: types.ModuleType) -> None:
    plugin.number = 5  # type: ignore[attr-defined]
    with pytest.raises(PruneError, match=r"'own_methods:nothing' cannot be loaded .*importable module:attribute"):
        get_method("own_methods:nothing")
    with pytest.raises(PruneError, match=r"method 'own_methods:number' is a int: expected a function under"):
        get_method("own_methods:number")
    with pytest.raises(PruneError, match=r"allocation 'own_methods:number' is a int: expected a function"):
        get_allocation("own_methods:number")
    with pytest.raises(PruneError, match=r"'no_such_module:x' cannot be loaded"):
        get_allocation("no_such_module:x")


def test_a_name_is_taken_once() -> None:
    with pytest.raises(PruneError, match=r"method 'wanda' is registered twice"):
        register_method("wanda")(lambda group: [])
    with pytest.raises(PruneError, match=r"allocation 'uniform' is registered twice"):
        register_allocation("uniform")(lambda targets, sparsity: [])


def test_a_method_must_report_every_weight(plugin: types.ModuleType) -> None:
    plugin.method = register_method("silent")(lambda group: [])  # type: ignore[attr-defined]
    with pytest.raises(PruneError, match=r"'silent' returned 0 outcomes for 1 weights \(model.layers.0"):
        prune(build("llama"), None, PruneSpec(method="own_methods:method"))


def test_allocations_are_held_to_the_asked_sparsity(plugin: types.ModuleType) -> None:
    plugin.short = lambda targets, sparsity: [sparsity]  # type: ignore[attr-defined]
    plugin.high = lambda targets, sparsity: [0.6, 0.5, 0.5]  # type: ignore[attr-defined]
    plugin.fair = lambda targets, sparsity: [0.25, 0.5, 0.75]  # type: ignore[attr-defined]
    with pytest.raises(PruneError, match=r"returned 1 sparsities .*expected 3, one a block"):
        prune(build("llama"), None, PruneSpec(method="magnitude", allocation="own_methods:short"))
    with pytest.raises(PruneError, match=r"spreads a sparsity of 0\.533333 over the blocks: expected the asked 0\.5"):
        prune(build("llama"), None, PruneSpec(method="magnitude", allocation="own_methods:high"))
    with pytest.raises(PruneError, match=r"compares the whole model, but allocation .*expected allocation=uniform"):
        prune(build("llama"), None, PruneSpec(method="magnitude_global", allocation="own_methods:fair"))
    for method in ("magnitude", "wanda"):
        spec = PruneSpec(method=method, allocation="own_methods:fair", calibration=token_rows())
        receipt = prune(build("llama"), None, spec, progress=False)
        shares = [record.zeros_after / (record.shape[0] * record.shape[1]) for record in receipt.weights]
        assert (shares[0], shares[7], shares[14], receipt.sparsity_reached) == (0.25, 0.5, 0.75, 0.5)
