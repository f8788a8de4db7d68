"""Masks, allocations and shares of languages as `--model_args` spells them, through the harness's own model."""

import pytest
from lm_eval.api.registry import get_model
from lm_eval.utils import simple_parse_args_string

from prune_hooks.errors import PruneError
from tests import families


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return families.save_tiny("llama", tmp_path_factory.mktemp("model"))


def receipt(checkpoint, text):
    args = simple_parse_args_string(f"pretrained={checkpoint},device=cpu,{text}")
    return get_model("pruned_hf")(**args).receipt


def test_a_mask_is_saved_and_put_back(checkpoint, tmp_path):
    path = tmp_path / "mask.safetensors"
    first = receipt(checkpoint, f"method=magnitude,sparsity=0.6,save_mask={path}")
    second = receipt(checkpoint, f"method=mask,mask={path}")
    assert first["weights_sha256"] == second["weights_sha256"]
    assert first["saved_mask"]["path"] == str(path)
    assert second["spec"]["mask"] == str(path)
    with pytest.raises(PruneError, match=r"is there already: expected a new file"):
        receipt(checkpoint, f"method=magnitude,sparsity=0.6,save_mask={path}")


def test_options_of_methods_and_allocations_and_weights_of_languages(checkpoint):
    found = receipt(
        checkpoint,
        "method=mwanda,method_options=lambda:2+g:1,allocation=correlation,allocation_options=sign:minus+lambda:0.05,"
        "calibration_languages=en:2+sw:1,calibration_samples=3,calibration_length=33",
    )
    assert found["spec"]["method_options"] == {"lambda": 2, "g": 1}
    assert found["allocation"]["options"] == {"sign": "minus", "lambda": 0.05}
    assert found["calibration"]["tokens_per_language"] == {"en": 64, "sw": 32}
    assert max(b["sparsity"] for b in found["allocation"]["blocks"]) - min(
        b["sparsity"] for b in found["allocation"]["blocks"]
    ) == pytest.approx(0.1)


def test_a_table_of_blocks(checkpoint, tmp_path):
    path = tmp_path / "blocks.yaml"
    path.write_text("0: 0.25\n1: 0.5\n2: 0.75\n")
    found = receipt(checkpoint, f"method=magnitude,allocation=file:{path}")
    assert [block["sparsity"] for block in found["allocation"]["blocks"]] == [0.25, 0.5, 0.75]
