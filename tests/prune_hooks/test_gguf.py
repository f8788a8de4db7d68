"""GGUF checkpoints: pruned when dequantised on loading, refused by name while packed."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import pytest
import torch
from transformers import AutoModelForCausalLM, GgufConfig, Lfm2Config, Lfm2ForCausalLM, PreTrainedModel

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.targets import find_targets
from tests.families import VOCAB, build, token_rows

PACKED = gguf.GGMLQuantizationType.Q8_0  # blocks of 32 values: as wide as the tiny models
ROWS = token_rows()
LLAMA = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
LFM2 = LLAMA | {
    "model.embedding_norm": "token_embd_norm",
    "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down",
    "operator_norm": "attn_norm",
}


def _write(folder: Path, architecture: str, model: PreTrainedModel, names: dict[str, str], kv_heads: Any) -> str:
    """Writes a model: matrices whose width is a multiple of 32 as Q8_0, the others as float32."""
    config: Any = model.config
    writer = gguf.GGUFWriter(folder / "tiny.gguf", architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_token_list([f"t{i}" for i in range(config.vocab_size)])
    if architecture == "lfm2":
        writer.add_shortconv_l_cache(config.conv_L_cache)
    for name, tensor in model.state_dict().items():
        values = tensor.numpy()
        for ours, theirs in names.items():
            name = re.sub(rf"(^|\.){re.escape(ours)}\.", rf"\1{theirs}.", name)
        if values.ndim == 2 and values.shape[1] % 32 == 0:
            writer.add_tensor(name, gguf.quants.quantize(values, PACKED), raw_dtype=PACKED)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return "tiny.gguf"


def _lfm2() -> PreTrainedModel:
    return Lfm2ForCausalLM(
        Lfm2Config(
            vocab_size=VOCAB,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            layer_types=["full_attention", "full_attention"],
            block_auto_adjust_ff_dim=False,
            tie_word_embeddings=False,
        )
    )


@pytest.mark.parametrize("method", ["magnitude", "wanda", "sparsegpt"])
def test_a_dequantised_gguf_is_pruned(tmp_path: Path, method: str) -> None:
    file = _write(tmp_path, "llama", build("llama"), LLAMA, 2)
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=file, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    )
    written = build("llama").state_dict()
    for name in ("model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.down_proj.weight"):  # Q8_0, float32
        assert torch.allclose(model.state_dict()[name], written[name], atol=5e-3), name
    receipt = prune(model, None, PruneSpec(method=method, calibration=ROWS), progress=False)
    assert receipt.coverage == 1.0
    assert receipt.unprunable is None
    assert receipt.sparsity_masked == 0.5
    assert all((weight.matrix() == 0).sum() >= weight.matrix().numel() // 2 for weight in find_targets(model).weights())


def test_a_packed_gguf_is_refused_by_name_and_is_a_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # transformers leaves blocks packed for some architectures only (LFM2, Qwen3.5), and only where a matmul kernel is
    # installed; none is called here.
    kernel = SimpleNamespace(supports=lambda kind: True)
    monkeypatch.setattr("transformers.quantizers.quantizer_gguf.get_gguf_kernel", lambda: kernel)
    monkeypatch.setattr("transformers.integrations.gguf.kernels.kernelize_ggml_layers", lambda model: None)
    file = _write(tmp_path, "lfm2", _lfm2(), LFM2, [2, 2])
    model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=file, attn_implementation="sdpa")
    reason = r"model\.layers\.0\.self_attn\.q_proj\.\S+ is packed .*GgufConfig\(dequantize=True\)"
    with pytest.raises(PruneError, match=reason):
        prune(model, None, PruneSpec(method="magnitude"), progress=False)
    receipt = prune(model, None, PruneSpec(method="none"), progress=False)
    assert receipt.unprunable is not None
    assert "is packed" in receipt.unprunable
    assert (receipt.coverage, receipt.weights) == (None, ())
