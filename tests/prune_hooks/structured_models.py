"""Tiny models for the tests of structured methods: every norm's gain and bias differs from the one it starts with."""

import torch

from tests.families import build, token_rows

ROWS = token_rows(6, 24)
PROBE = token_rows(2, 16, seed=9)
CUT = ("llama", "qwen3", "qwen3_hybrid", "mistral", "gemma3", "phi3", "gpt2", "opt")
"""Families whose heads and channels can be cut."""


@torch.no_grad()
def varied(family, **options):
    model = build(family, **options)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            scale = 0.3 if "norm" in name or ".ln_" in name else 0.1
            parameter += scale * torch.randn(parameter.shape, generator=generator)
    return model


@torch.no_grad()
def logits(model, ids=PROBE):
    return model(input_ids=ids, use_cache=False).logits


@torch.no_grad()
def greedy_without_cache(model, ids, tokens):
    """Greedy continuation, the whole text read again for every token."""
    for _ in range(tokens):
        ids = torch.cat([ids, logits(model, ids)[:, -1].argmax(-1, keepdim=True)], dim=1)
    return ids


def generated(model, ids, tokens):
    mask = torch.ones_like(ids)
    return model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        do_sample=False,
        use_cache=True,
    )
