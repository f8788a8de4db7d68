"""`inspect`: zeros, patterns and formats of checkpoints made by hand, against what was put into them."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GgufConfig

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.checkpoint import files as reading
from lm_eval_illusion.harness.checkpoint.formats import CT_FORMATS, METHODS, format_of, quantisation_of
from lm_eval_illusion.harness.checkpoint.show import text_of
from lm_eval_illusion.harness.checkpoint.zeros import Pattern, nonzero, tally, unpacked
from lm_eval_illusion.harness.export import export_checkpoint
from lm_eval_illusion.harness.inspect import inspect_checkpoint
from tests import families


def mask(*rows: str) -> torch.Tensor:
    return torch.tensor([[c == "x" for c in row] for row in rows])


# ------------------------------------------------------------------ arithmetic
@pytest.mark.parametrize(
    ("rows", "patterns"),
    [
        (["xx..x.x.", ".x.x..xx"], ["2:4"]),
        (["xx...x..", "x......."], ["2:4 at least"]),
        (["x....x..", "..x....x"], ["1:4"]),
        (["xxxx....", "x.x.x.x."], ["4:8"]),
        (["xxxxxx..", "x.xxx.xx"], ["6:8"]),
        (["x.x.x.x.", ".x.x.xx."], ["1:2"]),
        (["xxxxxxxx"], []),
        (["........"], []),
        (["xx.xx.", "x.xx.x"], ["2:3"]),
        (["xxx", "x.x"], []),
    ],
)
def test_patterns_by_hand(rows, patterns):
    found = tally([mask(*rows)])
    assert [str(pattern) for pattern in found.patterns] == patterns
    assert (found.elements, found.zeros) == (len("".join(rows)), "".join(rows).count("."))


def test_a_pattern_that_breaks_in_a_later_piece_is_none_and_its_multiple_is_found():
    pieces = [mask("xx..x.x.")] * 3 + [mask("xxx...x.")]
    assert tally(pieces).patterns == (Pattern(4, 8, exact=True),)
    assert tally([*pieces, mask("xxxxxxxx")]).patterns == ()


def test_long_groups_of_a_sparse_matrix_say_nothing():
    values = torch.rand(64, 64, generator=torch.Generator().manual_seed(0)) > 0.5
    assert tally([values]).patterns == ()


def test_stops_as_soon_as_nothing_can_hold():
    def pieces():
        yield mask("xxxxxxxx")
        raise AssertionError("read on")

    assert tally(pieces(), until_settled=True).patterns == ()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8])
def test_zero_of_any_type(dtype):
    values = torch.tensor([0.0, -0.0, 1.0, -2.0]).to(dtype)
    assert nonzero(values).tolist() == [False, False, True, True]
    assert nonzero(torch.tensor([float("nan")])).tolist() == [True]


def test_bits_are_unpacked_as_numpy_packs_them():
    values = torch.rand(5, 19, generator=torch.Generator().manual_seed(1)) > 0.4
    bits = torch.from_numpy(np.packbits(values.numpy(), axis=-1, bitorder="little"))
    assert torch.equal(unpacked(bits, 19), values)


# ------------------------------------------------------------------ checkpoints
@pytest.fixture
def pruned(tiny, tmp_path):
    """Return a function that exports a pruned tiny model of a family."""

    def make(family: str, **options):
        return export_checkpoint(tiny(family), options, tmp_path / family, device="cpu", shard_size="20KB")

    return make


@pytest.mark.parametrize("family", sorted(families.PRUNED))
def test_counts_what_the_receipt_counts(pruned, family):
    made = pruned(family, method="magnitude", pattern="2:4")
    found, receipt = inspect_checkpoint(made.folder), made.receipt
    assert found.whole.sparsity == receipt["whole_model_sparsity"]
    dense = sum(receipt["unreached"].values())  # routers and the like are matrices of the blocks all the same
    reached = sum(m.elements for m in found.matrices if m.block) - dense
    assert found.blocks.zeros == round(receipt["sparsity_reached"] * reached)
    assert found.receipt.differing == ()
    moe = family in ("mixtral", "qwen3_moe", "qwen3_next")  # their experts have other names in memory
    assert (found.receipt.found < found.receipt.matrices) == moe
    sparse = [m for m in found.matrices if m.block and m.zeros]
    assert {m.patterns for m in sparse} == {("2:4",)}
    axes = {m.axis for m in sparse}
    assert axes == ({"first"} if family == "gpt2" else {"last"})
    assert sum(layer.share.weights for layer in found.layers) == found.blocks.weights
    assert found.files > 1


@pytest.mark.parametrize(
    ("family", "state"), [("llama", "untied"), ("gemma3", "tied"), ("t5", "tied"), ("gpt2", "tied")]
)
def test_tied_weights(tiny, family, state):
    found = inspect_checkpoint(Path(tiny(family)))
    assert found.tied.state == state
    assert (found.tied.head is None) == (state == "tied")


def test_a_head_stored_twice_is_told(tiny, tmp_path):
    shutil.copytree(tiny("gemma3"), tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    held = load_file(path)
    save_file({**held, "lm_head.weight": held["model.embed_tokens.weight"].clone()}, path)
    found = inspect_checkpoint(tmp_path / "m")
    assert found.tied.state == "stored twice"
    assert "stored twice: lm_head.weight holds the values of model.embed_tokens.weight" in text_of(found)


def test_dense_zeros_are_counted_in_pieces_as_in_one(tiny, monkeypatch):
    whole = inspect_checkpoint(Path(tiny("llama"))).to_dict()
    monkeypatch.setattr(reading, "CHUNK", 50)
    assert inspect_checkpoint(Path(tiny("llama"))).to_dict() == whole


def test_one_file_is_a_checkpoint_too(tiny):
    file = Path(tiny("llama")) / "model.safetensors"
    assert inspect_checkpoint(file).blocks == inspect_checkpoint(file.parent).blocks


def test_the_text(pruned):
    made = pruned("gemma3", method="magnitude", pattern="1:4")
    lines = text_of(inspect_checkpoint(made.folder)).split("\n")
    assert [line.split("  ")[0] for line in lines[:10]] == [
        "checkpoint",
        "model",
        "format",
        "read",
        "dtype",
        "weights",
        "tied",
        "sparsity",
        "pattern",
        "receipt",
    ]
    assert "0.7500 of the blocks' matrices" in lines[7]
    assert lines[8].endswith("1:4 exactly in 21 of 21")
    assert lines[9].endswith("21 of its 21 matrices were found, with the zeros it says")
    assert lines[-1].split() == ["model.layers.2", "7,680", "0.7500", "1:4", "exactly", "in", "7", "of", "7"]


def test_zeros_that_are_not_the_receipt_s_are_named(pruned):
    made = pruned("llama", method="magnitude")
    shard = next(p for p in sorted(made.folder.glob("*.safetensors")) if any("up_proj" in n for n in load_file(p)))
    held = load_file(shard)
    name = next(n for n in held if "up_proj" in n)
    save_file({**held, name: torch.ones_like(held[name])}, shard)
    found = inspect_checkpoint(made.folder)
    assert found.receipt.differing == (name,)
    assert f"DIFFERS: 1 matrices hold other numbers of zeros than it says, first {name}" in text_of(found)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["xx..x.x."], "2:4 exactly in 1 of 2"),
        (["xx...x..", "xx..x.x."], "2:4 in 1 of 2 (exactly in 0)"),
        (["xxxxxxxx"], "none"),
    ],
)
def test_patterns_in_words(tmp_path, rows, words):
    tensors = {"h.0.a.weight": mask(*rows).float(), "h.0.b.weight": torch.ones(1, 8)}
    lines = text_of(inspect_checkpoint(write(tmp_path / "m", tensors))).split("\n")
    assert next(line for line in lines if line.startswith("pattern")).split(maxsplit=1)[1] == words


# ------------------------------------------------------------------ compressed formats
ROWS = mask("xx..x.x.xx..x.x.", ".x.x..xxx.x.xx..")


def write(folder: Path, tensors: dict, config: dict | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **(config or {})}))
    return folder


@pytest.mark.parametrize("suffix", ["", ".weight"])
@pytest.mark.parametrize("kind", ["sparse-bitmask", "sparse-24-bitmask"])
def test_bit_masks_are_counted(tmp_path, suffix, kind):
    base = f"model.layers.0.mlp.up_proj{suffix}"
    values = torch.where(ROWS, torch.full(ROWS.shape, 2.0), torch.zeros(()))
    tensors = {
        f"{base}.compressed": values[ROWS],
        f"{base}.bitmask": torch.from_numpy(np.packbits(ROWS.numpy(), axis=-1, bitorder="little")),
        f"{base}.shape": torch.tensor(ROWS.shape),
        f"{base}.row_offsets": torch.tensor([0, 8]),
        "model.embed_tokens.weight": torch.ones(4, 16),
    }
    told = {"quant_method": "compressed-tensors", "format": "dense", "sparsity_config": {"format": kind}}
    found = inspect_checkpoint(write(tmp_path / "m", tensors, {"quantization_config": told}))
    (matrix,) = [m for m in found.matrices if m.block]
    assert (matrix.name, matrix.shape, matrix.dtype) == ("model.layers.0.mlp.up_proj.weight", (2, 16), "F32")
    assert (matrix.zeros, matrix.patterns) == (16, ("2:4",))
    assert found.whole.sparsity == 16 / (32 + 64)
    assert found.format.detail == f"dense, {kind}"
    assert "bit masks" in found.format.reads


def test_a_bit_mask_that_does_not_fit_its_shape_is_named(tmp_path):
    base = "model.layers.0.mlp.up_proj"
    tensors = {f"{base}.compressed": torch.ones(3), f"{base}.bitmask": torch.ones(2, 1, dtype=torch.uint8)}
    tensors[f"{base}.shape"] = torch.tensor([2, 16])
    with pytest.raises(IllusionError, match=r"up_proj.weight: 16 bits for \(2, 16\) weights; expected one each"):
        inspect_checkpoint(write(tmp_path / "m", tensors))


def quantised(kind: str) -> tuple[dict, dict, int]:
    """Tensors, configuration, and the weights that one packed matrix of 8 x 32 stands for."""
    base = "model.layers.0.mlp.up_proj"
    if kind == "gptq":
        packed = {f"{base}.qweight": torch.ones(4, 8, dtype=torch.int32), f"{base}.scales": torch.ones(1, 8)}
        packed |= {f"{base}.qzeros": torch.zeros(1, 1, dtype=torch.int32), f"{base}.g_idx": torch.zeros(32)}
        return packed, {"quant_method": "gptq", "bits": 4, "group_size": 32}, 256
    if kind == "awq":
        packed = {f"{base}.qweight": torch.ones(32, 1, dtype=torch.int32), f"{base}.scales": torch.ones(1, 8)}
        return packed, {"quant_method": "awq", "bits": 4, "group_size": 32}, 256
    if kind == "bitsandbytes":
        packed = {f"{base}.weight": torch.ones(128, 1, dtype=torch.uint8), f"{base}.weight.absmax": torch.ones(4)}
        packed[f"{base}.weight.quant_state.bitsandbytes__nf4"] = torch.ones(9, dtype=torch.uint8)
        return packed, {"quant_method": "bitsandbytes", "load_in_4bit": True}, 256
    if kind == "pack-quantized":
        packed = {
            f"{base}.weight_packed": torch.ones(8, 4, dtype=torch.int32),
            f"{base}.weight_scale": torch.ones(8, 1),
        }
        packed[f"{base}.weight_shape"] = torch.tensor([8, 32])
        return packed, {"quant_method": "compressed-tensors", "format": kind}, 256
    if kind == "nvfp4-pack-quantized":
        packed = {f"{base}.weight_packed": torch.ones(8, 16, dtype=torch.uint8)}
        packed[f"{base}.weight_scale"] = torch.ones(8, 2).to(torch.float8_e4m3fn)
        return packed, {"quant_method": "compressed-tensors", "format": kind}, 256
    packed = {f"{base}.weight": torch.ones(8, 32, dtype=torch.int8)}
    return packed, {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}}, 256


@pytest.mark.parametrize("kind", ["gptq", "awq", "bitsandbytes", "pack-quantized", "nvfp4-pack-quantized", "torchao"])
def test_packed_weights_are_named_and_never_counted(tmp_path, kind):
    packed, told, weights = quantised(kind)
    tensors = {**packed, "model.layers.0.mlp.down_proj.weight": torch.eye(16), "lm_head.weight": torch.ones(2, 2)}
    found = inspect_checkpoint(write(tmp_path / "m", tensors, {"quantization_config": told}))
    assert found.format.method == told["quant_method"]
    (reason,) = found.not_counted
    assert reason.startswith("packed or integer (")
    assert found.not_counted[reason] == weights
    assert (found.blocks.weights, found.blocks.counted) == (weights + 256, 256)
    assert found.blocks.sparsity == 240 / 256
    text = text_of(found)
    assert "(50.0 % of them counted)" in text
    assert f"{weights} weights: {reason}" in text
    assert "not counted" in found.format.reads


def test_where_nothing_can_be_counted_no_share_is_given(tmp_path):
    packed, told, _ = quantised("gptq")
    found = inspect_checkpoint(write(tmp_path / "m", packed, {"quantization_config": told}))
    assert found.blocks.sparsity is None
    assert "not known of the blocks' matrices" in text_of(found)
    assert "pattern     not known" in text_of(found)


@pytest.mark.parametrize(("point", "counted"), [(None, True), (0, True), (3, False)])
def test_integers_are_counted_where_zero_means_zero(tmp_path, point, counted):
    base = "model.layers.0.mlp.up_proj"
    tensors = {f"{base}.weight": ROWS.to(torch.int8), f"{base}.weight_scale": torch.ones(2, 1)}
    if point is not None:
        tensors[f"{base}.weight_zero_point"] = torch.full((2, 1), point, dtype=torch.int8)
    told = {"quant_method": "compressed-tensors", "format": "int-quantized"}
    found = inspect_checkpoint(write(tmp_path / "m", tensors, {"quantization_config": told}))
    (matrix,) = found.matrices
    assert (matrix.zeros, matrix.patterns) == ((16, ("2:4",)) if counted else (None, ()))


def test_eight_bit_floats_are_counted(tmp_path):
    tensors = {"model.layers.0.mlp.up_proj.weight": ROWS.float().to(torch.float8_e4m3fn)}
    told = {"quant_method": "fp8"}
    found = inspect_checkpoint(write(tmp_path / "m", tensors, {"quantization_config": told}))
    assert (found.blocks.zeros, found.blocks.patterns) == (16, {"2:4": 1})
    assert found.format.name == "FP8"


def test_formats_are_told_by_other_files_and_by_names(tmp_path):
    (tmp_path / "quantize_config.json").write_text('{"bits": 4, "group_size": 128}')
    assert format_of(tmp_path, {}, []) == format_of(
        tmp_path, {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}, []
    )
    (tmp_path / "quantize_config.json").unlink()
    stored = reading.Stored("model.layers.0.mlp.up_proj.qweight", "I32", (4, 8))
    assert format_of(tmp_path, {}, [stored]).name == "packed, of no named format"
    assert format_of(tmp_path, {}, []).name == "plain safetensors"
    (tmp_path / "recipe.yaml").write_text("x")
    assert format_of(tmp_path, {}, []).detail == "llmcompressor's recipe.yaml is beside it"
    unknown = format_of(tmp_path, {"quantization_config": {"quant_method": "novel"}}, [])
    assert (unknown.name, unknown.reads[:15]) == ("novel", "unknown format:")
    old = format_of(tmp_path, {"compression_config": {"sparsity_config": {"format": "sparse-bitmask"}}}, [])
    assert (old.name, old.detail) == ("compressed-tensors", "sparse-bitmask")


def test_every_format_says_what_it_reads():
    assert all(" counted" in reads for _, reads in METHODS.values())
    assert all("counted" in reads for reads in CT_FORMATS.values())


def test_a_loaded_model_s_format_in_a_few_words():
    told = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    assert quantisation_of(SimpleNamespace(quantization_config=told)) == "GPTQ, bits 4, group_size 128"
    of_transformers = SimpleNamespace(quantization_config=GgufConfig(dequantize=True))
    assert quantisation_of(of_transformers) == "GGUF, dequantised"
    assert quantisation_of(SimpleNamespace(quantization_config=None)) is None
    assert quantisation_of(object()) is None


def gguf_file(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_tensor("token_embd.weight", np.ones((4, 16), np.float32))
    writer.add_tensor("blk.0.ffn_up.weight", ROWS.numpy().astype(np.float16))
    packed = gguf.GGMLQuantizationType.Q8_0
    values = gguf.quants.quantize(np.ones((2, 32), np.float32), packed)
    writer.add_tensor("blk.0.ffn_down.weight", values, raw_dtype=packed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_gguf_floats_are_counted_and_quantised_types_named(tmp_path):
    file = gguf_file(tmp_path / "m" / "tiny.gguf")
    found = inspect_checkpoint(file.parent)
    assert (found.model_type, found.format.name, found.tied.state) == ("llama", "GGUF", "tied")
    assert {m.name: (m.shape, m.zeros, m.patterns) for m in found.matrices if m.block} == {
        "blk.0.ffn_up.weight": ((2, 16), 16, ("2:4",)),
        "blk.0.ffn_down.weight": ((2, 32), None, ()),
    }
    assert found.not_counted == {"a quantised type (Q8_0)": 64}
    assert inspect_checkpoint(file).blocks == found.blocks


def test_whether_packed_ends_are_tied_is_not_guessed(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    packed = gguf.GGMLQuantizationType.Q8_0
    for name in ("token_embd.weight", "output.weight"):
        writer.add_tensor(name, gguf.quants.quantize(np.ones((4, 32), np.float32), packed), raw_dtype=packed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = inspect_checkpoint(tmp_path / "m.gguf")
    assert (found.tied.state, found.tied.embedding, found.tied.head) == (
        "unknown",
        "token_embd.weight",
        "output.weight",
    )


# ------------------------------------------------------------------ what cannot be read
def test_what_cannot_be_read_is_named(tiny, tmp_path):
    with pytest.raises(IllusionError, match=r"no such checkpoint.*hf download NAME --local-dir DIR"):
        inspect_checkpoint(tmp_path / "none")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(IllusionError, match=r"no \*.safetensors and no \*.gguf in it \(it holds no weights\)"):
        inspect_checkpoint(empty)
    (empty / "pytorch_model.bin").write_text("x")
    with pytest.raises(IllusionError, match=r"pytorch_model.bin, which cannot be read lazily.*save_pretrained"):
        inspect_checkpoint(empty)
    cut = tmp_path / "cut"
    shutil.copytree(tiny("llama"), cut)
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(IllusionError, match=r"model.safetensors: cannot be read as safetensors.*copy it again"):
        inspect_checkpoint(cut)
    two = tmp_path / "two"
    gguf_file(two / "a.gguf")
    gguf_file(two / "b.gguf")
    with pytest.raises(IllusionError, match=r"holds 2 GGUF files \(a.gguf, b.gguf\); expected one"):
        inspect_checkpoint(two)
    (two / "a.gguf").write_bytes(b"GGUF but not really")
    with pytest.raises(IllusionError, match=r"a.gguf: cannot be read as GGUF"):
        inspect_checkpoint(two / "a.gguf")
    write(tmp_path / "nothing", {"x.weight_scale": torch.ones(1)}, {"quantization_config": {"quant_method": "fp8"}})
    with pytest.raises(IllusionError, match="its files hold no weights"):
        inspect_checkpoint(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "config.json: is not JSON"), ("[1]", "config.json: holds a JSON list, expected an object")],
)
def test_a_configuration_that_is_none_is_named(tiny, tmp_path, text, words):
    shutil.copytree(tiny("llama"), tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text(text)
    with pytest.raises(IllusionError, match=words):
        inspect_checkpoint(tmp_path / "m")


def test_shards_that_do_not_fit_their_index_are_named(pruned, tmp_path):
    folder = pruned("llama", method="random").folder
    index = folder / reading.INDEX
    held = json.loads(index.read_text())

    def with_map(change: dict):
        index.write_text(json.dumps({"weight_map": {**held["weight_map"], **change}}))

    with_map({"ghost.weight": next(iter(held["weight_map"].values()))})
    with pytest.raises(IllusionError, match=r"names 1 tensors that no shard holds \(first 'ghost.weight'\)"):
        inspect_checkpoint(folder)
    with_map({"ghost.weight": "../../model.safetensors"})
    with pytest.raises(IllusionError, match=r"names 1 of \d+ shards that are not in the folder"):
        inspect_checkpoint(folder)
    index.write_text("{}")
    with pytest.raises(IllusionError, match="no index of shards"):
        inspect_checkpoint(folder)
    index.unlink()
    save_file({"lm_head.weight": torch.ones(2, 2)}, folder / "again.safetensors")
    with pytest.raises(
        IllusionError, match=r"holds tensor 'lm_head.weight', which another file of the folder holds too"
    ):
        inspect_checkpoint(folder)


def test_names_out_of_files_are_inert_in_the_text(tmp_path):
    name = "model.layers\u202e\x1b[31m.0.evil.weight"
    found = inspect_checkpoint(write(tmp_path / "m", {name: torch.ones(2, 4)}, {"architectures": ["\x1b[2J"]}))
    shown = text_of(found)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
