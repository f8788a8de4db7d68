"""Dense weights come back bit for bit, from memory and from the checkpoint's files, or it is said that they do not."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from prune_hooks import PruneError, PruneSpec, get_method, prune
from prune_hooks.restore import DenseWeights, shard_files, shard_reader
from tests.families import FAMILIES, build, save_tiny, tiny_tokenizer, token_rows

SPEC = PruneSpec(method="magnitude_global", sparsity=0.7)


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
def test_memory_brings_back_every_bit_and_every_tensor_in_place(family: str, dtype: torch.dtype) -> None:
    model = build(family, dtype=dtype)
    before = state(model)
    places = {name: p.data_ptr() for name, p in model.named_parameters()}
    dense = DenseWeights(model)
    for _ in range(2):
        assert prune(model, None, SPEC, progress=False).weights_sha256 != dense.digest
        dense.restore()
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert {name: p.data_ptr() for name, p in model.named_parameters()} == places


def loaded(family: str, folder: Path, **options):
    auto = AutoModelForSeq2SeqLM if family == "t5" else AutoModelForCausalLM
    return auto.from_pretrained(folder, **options)


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "opt", "phi3", "t5"])
def test_shards_bring_back_every_bit(family: str, tmp_path: Path) -> None:
    folder = save_tiny(family, tmp_path)
    model = loaded(family, folder, dtype=torch.bfloat16)
    before = state(model)
    dense = DenseWeights(model, shard_reader(model, shard_files(str(folder))))
    prune(model, None, SPEC, progress=False)
    dense.restore()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_several_shards_are_read(tmp_path: Path) -> None:
    build("llama").save_pretrained(tmp_path, max_shard_size="30KB")
    files = shard_files(str(tmp_path))
    assert len(set(files.values())) > 2
    model = loaded("llama", tmp_path)
    dense = DenseWeights(model, shard_reader(model, files))
    prune(model, None, SPEC, progress=False)
    dense.restore()


def test_shards_that_do_not_hold_the_weights_are_refused(tmp_path: Path) -> None:
    folder = save_tiny("llama", tmp_path)
    model = loaded("llama", folder)
    files = shard_files(str(folder))
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[0, 0] += 1
    with pytest.raises(PruneError, match=r"layers\.0\.mlp\.up_proj\.weight in memory is not what its file holds"):
        DenseWeights(model, shard_reader(model, files))
    fewer = {name: path for name, path in files.items() if "up_proj" not in name}
    with pytest.raises(PruneError, match=r"up_proj\.weight is in no safetensors file .* use restore=memory"):
        DenseWeights(model, shard_reader(model, fewer))
    with pytest.raises(PruneError, match=r"no model\.safetensors: .* use restore=memory"):
        shard_files(str(tmp_path / ".."))


def test_files_that_changed_meanwhile_are_noticed(tmp_path: Path) -> None:
    folder = save_tiny("llama", tmp_path)
    model = loaded("llama", folder)
    dense = DenseWeights(model, shard_reader(model, shard_files(str(folder))))
    prune(model, None, SPEC, progress=False)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["model.layers.1.mlp.down_proj.weight"] = tensors["model.layers.1.mlp.down_proj.weight"] + 1
    changed = folder / "changed"
    save_file(tensors, changed, metadata={"format": "pt"})
    changed.replace(file)
    with pytest.raises(PruneError, match="restored weights have SHA-256"):
        dense.restore()


@pytest.mark.parametrize("method", ["magnitude", "magnitude_global", "random", "wanda", "sparsegpt"])
def test_a_method_that_says_so_gives_the_same_weights_under_every_seed(method: str) -> None:
    hashes = set()
    for seed in (0, 1):
        model = build("llama")
        spec = PruneSpec(method=method, prune_seed=seed, calibration_samples=4, calibration_length=16)
        hashes.add(prune(model, tiny_tokenizer(), spec, progress=False).weights_sha256)
    assert len(hashes) == (2 if get_method(method).seeded else 1)


@pytest.mark.parametrize("source", ["memory", "shards"])
def test_weights_that_are_kept_off_the_device_come_back_too(source: str, tmp_path: Path) -> None:
    folder = save_tiny("llama", tmp_path / "model")
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
    places |= {"model.layers.0": "cpu", "model.layers.1": "disk", "model.layers.2": "disk"}
    model = loaded("llama", folder, device_map=places, offload_folder=str(tmp_path / "off"))
    rows = token_rows()
    with torch.no_grad():
        before = model(rows).logits
    reader = shard_reader(model, shard_files(str(folder))) if source == "shards" else None
    dense = DenseWeights(model, reader)
    prune(model, None, PruneSpec(method="magnitude", sparsity=0.7), progress=False)
    with torch.no_grad():
        assert not torch.equal(model(rows).logits, before)
    dense.restore()
    with torch.no_grad():
        assert torch.equal(model(rows).logits, before)
