import subprocess
import sys
from pathlib import Path

import pytest
import torch

from prune_hooks import PruneError, PruneSpec
from prune_hooks.spec_values import parse_pattern


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, prune_hooks, prune_hooks.spec; print('torch' in sys.modules, 'transformers' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


def test_unknown_attribute_names_what_there_is() -> None:
    import prune_hooks

    with pytest.raises(AttributeError, match=r"no attribute 'pruen'; it has .*prune"):
        prune_hooks.pruen  # noqa: B018


def test_defaults() -> None:
    spec = PruneSpec()
    assert (spec.method, spec.sparsity, spec.pattern, spec.sequential) == ("wanda", 0.5, "unstructured", "weight")
    assert spec.kept is None


def test_pattern_implies_its_sparsity() -> None:
    assert PruneSpec(pattern="1:4").sparsity == 0.75
    assert PruneSpec(pattern="2:4", sparsity=0.5).kept == (2, 4)


@pytest.mark.parametrize("pattern", ["3:2", "4:4", "0:4", "2:", "2/4", "2:4:8", "", "-1:4", "²:4"])
def test_bad_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(PruneError, match=r'expected "unstructured" or "n:m" with 0 < n < m'):
        PruneSpec(pattern=pattern)


@pytest.mark.parametrize("pattern", [124, False, None, 2.5])
def test_patterns_that_yaml_mangled_are_refused(pattern: object) -> None:
    with pytest.raises(PruneError, match=r"pattern is .*quoted in YAML"):
        parse_pattern(pattern)


@pytest.mark.parametrize("sparsity", [1.5, 1.0, -0.1, float("nan"), "half", True, [0.5]])
def test_sparsity_outside_its_range_is_refused(sparsity: object) -> None:
    with pytest.raises(PruneError, match=r"sparsity is .*expected a number from 0 to below 1"):
        PruneSpec(sparsity=sparsity)  # type: ignore[arg-type]


def test_sparsity_that_contradicts_the_pattern_is_refused() -> None:
    with pytest.raises(PruneError, match=r"sparsity 0\.7 with pattern '2:4': the pattern itself means 0\.5"):
        PruneSpec(sparsity=0.7, pattern="2:4")


def test_other_fields_are_checked() -> None:
    with pytest.raises(PruneError, match=r"sequential is 'layer': expected weight or block"):
        PruneSpec(sequential="layer")
    with pytest.raises(PruneError, match=r"method is '': expected a name"):
        PruneSpec(method="")
    with pytest.raises(PruneError, match=r"calibration_samples is 0: expected a whole number of at least 1"):
        PruneSpec(calibration_samples=0)
    with pytest.raises(PruneError, match=r"prune_seed is '1.5': expected a whole number"):
        PruneSpec(prune_seed="1.5")  # type: ignore[arg-type]


@pytest.mark.parametrize("languages", [False, ["en", False], "en++sw", 7])
def test_languages_that_are_no_strings_are_refused(languages: object) -> None:
    with pytest.raises(PruneError, match=r"calibration_languages is .*a bare no means false"):
        PruneSpec(calibration_languages=languages)  # type: ignore[arg-type]


def test_a_language_named_twice_is_refused() -> None:
    with pytest.raises(PruneError, match=r"a language is named twice"):
        PruneSpec(calibration_languages="en+en")  # type: ignore[arg-type]


@pytest.mark.parametrize("calibration", [5, "", [], [[1, 2], [3]], torch.zeros(3), torch.zeros(0, 4)])
def test_calibration_of_another_kind_is_refused(calibration: object) -> None:
    with pytest.raises(PruneError, match=r"calibration is .*expected builtin, c4, mc4, a path, or token rows"):
        PruneSpec(calibration=calibration)


def test_model_args_are_split_into_own_and_rest() -> None:
    spec, rest = PruneSpec.from_model_args(
        {"pretrained": "x", "method": None, "sparsity": "0.25", "calibration_languages": "en+sw", "dtype": "bfloat16"}
    )
    assert (spec.method, spec.sparsity, spec.calibration_languages) == ("none", 0.25, ("en", "sw"))
    assert rest == {"pretrained": "x", "dtype": "bfloat16"}
    typed, _ = PruneSpec.from_model_args({"calibration_length": 64, "calibration": Path("a"), "sparsity": None})
    assert (typed.calibration_length, typed.calibration, typed.sparsity) == (64, "a", 0.5)


def test_option_names_are_the_documented_ones() -> None:
    assert PruneSpec.option_names() == {
        "method", "sparsity", "pattern", "allocation", "calibration", "calibration_languages", "calibration_samples",
        "calibration_length", "calibration_dtype", "sequential", "prune_seed", "method_options", "allocation_options",
        "mask", "save_mask",
    }  # fmt: skip


def test_digest_depends_on_every_value_and_on_token_rows() -> None:
    rows = torch.tensor([[1, 2], [3, 4]])
    assert PruneSpec(calibration=rows).digest() == PruneSpec(calibration=[[1, 2], [3, 4]]).digest()
    assert PruneSpec(calibration=rows) != PruneSpec(calibration=rows + 1)
    assert PruneSpec() == PruneSpec(sparsity=0.5)
    assert hash(PruneSpec()) != hash(PruneSpec(prune_seed=1))
