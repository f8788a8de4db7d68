"""Options of methods and allocation rules: spelling, defaults, and what is refused."""

import sys
import types

import pytest

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.options import Option, parse_options, resolve_options
from prune_hooks.registry import Allocation, Method, Outcome
from prune_hooks.statistics import Needs
from tests.families import build

DECLARED = {
    "cycles": Option(50, least=1),
    "rate": Option(0.5, least=0, most=1),
    "start": Option("wanda", choices=("wanda", "magnitude")),
    "note": Option("x"),
}


def test_text_and_mapping_are_the_same_options() -> None:
    text = PruneSpec(method_options="rate:0.25+cycles:7+start:magnitude")  # type: ignore[arg-type]
    typed = PruneSpec(method_options={"cycles": 7.0, "start": "magnitude", "rate": 0.25})
    assert text == typed
    assert text.method_options == {"rate": 0.25, "cycles": 7, "start": "magnitude"}
    assert text.to_dict()["method_options"] == text.method_options
    assert parse_options("method_options", "file:a:b") == {"file": "a:b"}
    split, rest = PruneSpec.from_model_args({"allocation_options": "lambda:0.08+M:5"})
    assert (split.allocation_options, rest) == ({"lambda": 0.08, "M": 5}, {})


def test_specs_without_options_keep_their_digest() -> None:
    # Made before there were options.
    assert PruneSpec().digest() == "867ca4178b573ae4f312600e4fd6ef92143d8db4ac7c51cf344de52eb6461ac1"
    assert PruneSpec(method_options="", allocation_options={}) == PruneSpec()  # type: ignore[arg-type]
    assert "method_options" not in PruneSpec().to_dict()
    assert len({PruneSpec(method_options={"a": 1}), PruneSpec(allocation_options={"a": 1}), PruneSpec()}) == 3


@pytest.mark.parametrize("given", [5, ["a:1"], None, "cycles", "a:1+b", ":3", "a:", {"a": True}, {"a": None}, {1: 2}])
def test_options_spelt_otherwise_are_refused(given: object) -> None:
    with pytest.raises(PruneError, match=r'method_options .*expected "name:value\+name:value" \(quoted in YAML\)'):
        PruneSpec(method_options=given)  # type: ignore[arg-type]


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(PruneError, match=r"allocation_options gives 'a' twice"):
        PruneSpec(allocation_options="a:1+a:2")  # type: ignore[arg-type]


def test_defaults_fill_what_is_not_given() -> None:
    values = resolve_options("method 'm'", "method_options", DECLARED, {"rate": 1, "note": 3})
    assert values == {"cycles": 50, "rate": 1.0, "start": "wanda", "note": "3"}
    assert isinstance(values["rate"], float)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"cycles": 0}, "a whole number of at least 1"),
        ({"cycles": 1.5}, "a whole number of at least 1"),
        ({"cycles": "many"}, "a whole number of at least 1"),
        ({"rate": 2}, "a number of at least 0 and of at most 1"),
        ({"start": "owl"}, "one of wanda, magnitude"),
    ],
)
def test_values_out_of_range_say_what_is_expected(given: dict[str, object], expected: str) -> None:
    with pytest.raises(PruneError, match=rf"option '\w+' of method 'm' is .*: expected {expected}; change"):
        resolve_options("method 'm'", "method_options", DECLARED, given)  # type: ignore[arg-type]


def test_unknown_options_list_the_known_before_anything_is_touched() -> None:
    model = build("llama")
    with pytest.raises(PruneError, match=r"method 'm' has no option 'cycle': .*cycles \(50\), note \(x\), rate"):
        resolve_options("method 'm'", "method_options", DECLARED, {"cycle": 1})
    for options in ({"method_options": {"a": 1}}, {"allocation_options": {"a": 1}}):
        for sparsity in (0.0, 0.5):
            spec = PruneSpec(method="magnitude", sparsity=sparsity, **options)  # type: ignore[arg-type]
            with pytest.raises(PruneError, match=r"(method|allocation) '\w+' has no option 'a': expected no .*none"):
                prune(model, None, spec)
    assert all((p != 0).any() for p in model.model.layers[0].mlp.parameters())


def test_options_reach_the_function_and_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def method(group):  # type: ignore[no-untyped-def]
        seen.append(dict(group.options))
        return [Outcome(masked=0) for _ in group.weights]

    def rule(targets, sparsity, options):  # type: ignore[no-untyped-def]
        seen.append(dict(options))
        return [sparsity] * len(targets.blocks)

    module = types.ModuleType("own_options")
    module.method = Method("m", Needs.NOTHING, method, options=DECLARED)  # type: ignore[attr-defined]
    module.rule = Allocation("r", rule, {"M": Option(5.0)})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_options", module)
    spec = PruneSpec(method="own_options:method", allocation="own_options:rule", method_options={"cycles": 3})
    receipt = prune(build("llama"), None, spec, progress=False)
    assert seen[0] == {"M": 5.0}
    assert seen[1] == {"cycles": 3, "rate": 0.5, "start": "wanda", "note": "x"}
    assert receipt.spec["method_options"] == {"cycles": 3}
