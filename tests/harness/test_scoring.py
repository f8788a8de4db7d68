"""One prefill a prompt gives the numbers of a full forward for every family."""

import math
import random

import pytest
import torch

from lm_eval_illusion.harness import scoring
from tests import families


def prompts(seed: int = 0) -> list[scoring.Prompt]:
    rng = random.Random(seed)
    made = []
    for length in (1, 7, 23, 12):
        conts = tuple(tuple(rng.randrange(5, 60) for _ in range(n)) for n in (1, 3, 6, 2))
        made.append(scoring.Prompt(tuple(rng.randrange(5, 60) for _ in range(length)), conts))
    return made


@torch.no_grad()
def plain(model, context, continuation) -> tuple[float, bool, int]:
    """Score one continuation with a forward over everything, as the definition says."""
    if model.config.is_encoder_decoder:
        start = model.config.decoder_start_token_id
        out = model(input_ids=torch.tensor([context]), decoder_input_ids=torch.tensor([[start, *continuation[:-1]]]))
        logits = out.logits[0]
    else:
        logits = model(input_ids=torch.tensor([[*context, *continuation]])).logits[0]
        logits = logits[len(context) - 1 : -1]
    logprobs = logits.double().log_softmax(-1)
    targets = torch.tensor(continuation)
    total = logprobs[torch.arange(len(targets)), targets].sum().item()
    rank = int((logits[0] > logits[0, targets[0]]).sum()) + 1
    return total, bool((logits.argmax(-1) == targets).all()), rank


@pytest.mark.parametrize("attn", ["sdpa", "eager"])
@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_equals_a_full_forward_in_any_batch(family, attn):
    model = families.build(family, attn=attn).eval()
    asked = prompts()
    assert scoring.supports_shared_prefix(model)
    together = scoring.score(model, asked, pad=0)
    for prompt, row in zip(asked, together, strict=True):
        alone = scoring.score(model, [prompt], pad=0)[0]
        for continuation, one, single in zip(prompt.continuations, row, alone, strict=True):
            total, greedy, rank = plain(model, prompt.context, continuation)
            assert one.logprob == pytest.approx(total, abs=1e-4)
            assert single.logprob == pytest.approx(total, abs=1e-4)
            assert (one.is_greedy, one.first_token_rank) == (greedy, rank)


def test_many_rows_are_cut_into_chunks(monkeypatch):
    model = families.build("llama").eval()
    asked = prompts()
    whole = scoring.score(model, asked, pad=0)
    monkeypatch.setattr(scoring, "MAX_LOGITS", 3 * 6 * model.config.vocab_size)
    cut = scoring.score(model, asked, pad=0)
    for a, b in zip(whole, cut, strict=True):
        assert [x.logprob for x in a] == pytest.approx([x.logprob for x in b], abs=1e-5)


def test_nan_is_never_hidden():
    model = families.build("llama").eval()
    with torch.no_grad():
        next(model.model.layers[-1].parameters()).fill_(float("nan"))
    for one in scoring.score(model, prompts(), pad=0)[0]:
        assert math.isnan(one.logprob)
        assert one.first_token_rank is None


def test_greedy_continuation_is_seen_as_greedy():
    model = families.build("gpt2").eval()
    context = (5, 9, 11)
    best = []
    with torch.no_grad():
        for _ in range(3):
            best.append(int(model(input_ids=torch.tensor([[*context, *best]])).logits[0, -1].argmax()))
    (one,) = scoring.score(model, [scoring.Prompt(context, (tuple(best),))], pad=0)[0]
    assert one.is_greedy
    assert one.first_token_rank == 1
