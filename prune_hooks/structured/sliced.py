"""Decoder blocks whose residual stream is narrower, and changes its basis on the way: shortcuts are matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from prune_hooks.structured.cut import projection
from prune_hooks.structured.families import Family, matrix
from prune_hooks.structured.norms import gain_of, plain


class SlicedBlock(nn.Module):
    """The forward of a pre-norm decoder block with a matrix on either shortcut."""

    attention_shortcut: nn.Parameter
    """(in, middle): the stream's basis before attention to that before the MLP."""
    mlp_shortcut: nn.Parameter
    """(middle, out): to that of the next block."""

    def forward(self, hidden_states: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """Returns the stream after the block, (rows, tokens, out)."""
        block: Any = self
        attended = block.self_attn(hidden_states=block.input_layernorm(hidden_states), **kwargs)[0]
        middle = hidden_states @ self.attention_shortcut + attended
        return middle @ self.mlp_shortcut + block.mlp(block.post_attention_layernorm(middle))  # type: ignore[no-any-return]


_CLASSES: dict[type[nn.Module], type[nn.Module]] = {}


def sliced_class(dense: type[nn.Module]) -> type[nn.Module]:
    """Returns a subclass of a block's class with the sliced forward: what looks for the dense class finds it."""
    if dense not in _CLASSES:
        _CLASSES[dense] = type(f"Sliced{dense.__name__}", (SlicedBlock, dense), {})
    return _CLASSES[dense]


def slice_block(
    family: Family, name: str, block: Any, entering: torch.Tensor, middle: torch.Tensor, leaving: torch.Tensor
) -> None:
    """Makes a block sliced in place: gains and rotations go into new matrices, calculated in float64.

    Args:
        family: of the model.
        name: the block's name, for messages.
        block: dense.
        entering: (d, kept) float64, orthonormal columns: the directions of the stream that enter the block.
        middle: (d, kept): those before the MLP.
        leaving: (d, kept or d): those of the next block.
    """
    first = gain_of(f"{name}.input_layernorm", block.input_layernorm)
    second = gain_of(f"{name}.post_attention_layernorm", block.post_attention_layernorm)
    for modules, gain, basis in ((family.attention, first, entering), (family.mlp, second, middle)):
        for path in dict.fromkeys(modules):
            _replace(block, path, lambda w, g=gain, q=basis: (w * g) @ q, None)
    for path, basis in ((family.attention_out, middle), (family.mlp_out, leaving)):
        _replace(block, path, lambda w, q=basis: q.T @ w, basis)
    block.input_layernorm, block.post_attention_layernorm = (
        plain(block.input_layernorm),
        plain(block.post_attention_layernorm),
    )
    dtype = block.get_submodule(family.mlp_out).weight.dtype
    block.__class__ = sliced_class(type(block))
    block.attention_shortcut = nn.Parameter((entering.T @ middle).to(dtype), requires_grad=False)
    block.mlp_shortcut = nn.Parameter((middle.T @ leaving).to(dtype), requires_grad=False)


def slice_ends(model: Any, entering: torch.Tensor, leaving: torch.Tensor) -> None:
    """Rotates and narrows the embedding and the head, untied; the last norm's gain goes into the head.

    Args:
        model: a causal language model whose blocks are sliced.
        entering: (d, kept) float64: the stream's directions before the first block.
        leaving: (d, kept or d): those after the last.
    """
    embedding = model.model.embed_tokens
    weight = (embedding.weight.detach().double() @ entering).to(embedding.weight.dtype)
    model.model.embed_tokens = nn.Embedding(
        weight.shape[0], weight.shape[1], padding_idx=embedding.padding_idx, _weight=weight
    )
    gain = gain_of("model.norm", model.model.norm)
    head = (matrix(model.lm_head).double() * gain) @ leaving
    model.lm_head = projection(model.lm_head, head.to(model.lm_head.weight.dtype), model.lm_head.bias)
    model.model.norm = plain(model.model.norm)
    model.config.tie_word_embeddings = False
    model.all_tied_weights_keys = {}


def _replace(block: Any, path: str, change: Any, basis: torch.Tensor | None) -> None:
    """Puts a layer with a changed weight in place of another; where `basis` is given the bias turns into it."""
    module = block.get_submodule(path)
    values = change(matrix(module).double()).to(module.weight.dtype)
    bias = module.bias
    if bias is not None and basis is not None:
        bias = (bias.detach().double() @ basis).to(bias.dtype)
    owner, _, name = path.rpartition(".")
    setattr(block.get_submodule(owner), name, projection(module, values, bias))
