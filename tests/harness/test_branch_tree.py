"""A tree of continuations says what the whole texts say: any family, windows, forgotten tokens."""

import pytest
import torch

from lm_eval_illusion.harness.branch_tree import Tree, require_tree
from lm_eval_illusion.harness.branching import Recomputed
from lm_eval_illusion.harness.generation_cache import CannotRunError, cache_argument
from tests import families

CPU = torch.device("cpu")
CAUSAL = ["llama", "qwen3", "qwen3_hybrid", "gemma3", "mistral", "phi3", "gpt2", "opt", "mixtral", "qwen3_moe"]


def walk(branches, steps, seed):
    """Let random rows go on with random tokens; of every eighth step's rows one alone goes on. Return all logits."""
    generator = torch.Generator().manual_seed(seed)
    seen, rows = [branches.logits()], 1
    for step in range(steps):
        count = 1 if step % 8 == 7 else int(torch.randint(1, 6, (), generator=generator))
        parents = torch.randint(0, rows, (count,), generator=generator).tolist()
        tokens = torch.randint(3, 400, (count,), generator=generator).tolist()
        seen.append(branches.follow(parents, tokens))
        rows = count
    return seen


@torch.no_grad()
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", CAUSAL)
def test_every_continuation_has_the_logits_of_its_own_text(family, attention):
    model = families.build(family, attn=attention, seed=3)
    for length, seed in ((3, 0), (14, 1)):
        prompt = families.token_rows(1, length, seed=seed).tolist()[0]
        tree = Tree(model, prompt, CPU)
        for found, expected in zip(walk(tree, 24, seed), walk(Recomputed(model, prompt, CPU), 24, seed), strict=True):
            torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-3)
        (kept,) = {layer.keys.shape[-2] for layer in tree._cache.layers}
        assert kept == tree._seen.shape[1] == len(tree._positions) < length + 24 * 3  # some were forgotten
        require_tree(model, prompt, Recomputed(model, prompt, CPU), CPU)


@torch.no_grad()
def test_a_step_costs_the_new_tokens_alone():
    model = families.build("llama")
    lengths = []
    model.model.embed_tokens.register_forward_hook(lambda module, args, out: lengths.append(tuple(args[0].shape)))
    tree = Tree(model, [1, 2, 3, 4], CPU)
    tree.logits()
    tree.follow([0] * 5, [5, 6, 7, 8, 9])
    tree.follow([0, 3], [5, 6])
    assert lengths == [(1, 4), (1, 5), (1, 2)]


@pytest.mark.parametrize(
    ("family", "told"),
    [
        ("t5", "it is an encoder-decoder"),
        ("bloom", "it takes no positions"),
        ("qwen3_next", "its cache has a LinearAttentionLayer"),
    ],
)
def test_what_cannot_be_a_tree_says_why(family, told):
    with pytest.raises(CannotRunError, match=told):
        Tree(families.build(family), [1, 2, 3], CPU)


def test_attention_without_masks_of_ones_own_is_refused():
    model = families.build("llama")
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(CannotRunError, match="its attention is flash_attention_2"):
        Tree(model, [1, 2, 3], CPU)


@torch.no_grad()
@pytest.mark.parametrize("broken", ["window", "positions", "kinds", "memory"])
def test_the_trial_notices_what_a_model_does_not_follow(broken, monkeypatch):
    model = families.build("gemma3", seed=3)
    prompt = families.token_rows(1, 14, seed=1).tolist()[0]
    real = type(model).forward

    def forward(self, **told):
        if told["input_ids"].shape[1] != len(prompt) and told.get(cache_argument(model)) is not None:
            if broken == "window":
                told["attention_mask"] = dict.fromkeys(told["attention_mask"], told["attention_mask"]["full_attention"])
            elif broken == "positions":
                told["position_ids"] = torch.arange(told["position_ids"].shape[1])[None] + len(prompt)
            elif broken == "memory":
                raise torch.OutOfMemoryError
            else:
                told["attention_mask"] = {"full_attention": told["attention_mask"]["full_attention"]}
        return real(self, **told)

    forward.__signature__ = __import__("inspect").signature(real)
    plain = Recomputed(model, prompt, CPU)
    monkeypatch.setattr(type(model), "forward", forward)
    told = {"kinds": "takes no mask of its own", "memory": "no memory to try a mask"}
    with pytest.raises(CannotRunError, match=told.get(broken, "nats off")):
        require_tree(model, prompt, plain, CPU)
