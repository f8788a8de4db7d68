"""One prefill a prompt gives the numbers of a full forward for every family."""

import math
import random
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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


@torch.no_grad()
@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_parting_is_read_where_an_option_leaves_the_gold(family):
    model = families.build(family).eval()
    gold = (9, 8, 7)
    options = (gold, (9, 8, 6, 5), (4, 8), (9, 8), (9, 8, 7, 3))
    context = (5, 11, 6)
    row = scoring.score(model, [scoring.Prompt(context, options, (gold,) * 5)], pad=0)[0]
    assert [one.parting is None for one in row] == [True, False, False, True, True]
    for option, one, shared in ((options[1], row[1], 2), (options[2], row[2], 0)):
        if model.config.is_encoder_decoder:
            start = model.config.decoder_start_token_id
            decoder = torch.tensor([[start, *gold[:shared]]])
            logits = model(input_ids=torch.tensor([context]), decoder_input_ids=decoder).logits[0, -1]
        else:
            logits = model(input_ids=torch.tensor([[*context, *gold[:shared]]])).logits[0, -1]
        assert one.parting.token == shared
        assert one.parting.gold_rank == int((logits > logits[gold[shared]]).sum()) + 1
        assert one.parting.margin == pytest.approx(float(logits[gold[shared]] - logits[option[shared]]), abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("family", ["llama", "gemma3", "phi3", "gpt2", "opt", "t5"])
def test_bfloat16_scores_are_float32_readings_of_the_last_hidden_states(family):
    model = families.build(family).eval().to(torch.bfloat16)
    head = model.get_output_embeddings()
    seen = []
    handle = head.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    prompt = scoring.Prompt((5, 11, 6, 8), ((9, 8, 7), (4,)))
    exact = scoring.score(model, [prompt], pad=0)[0]
    handle.remove()
    assert all(hidden.dtype == torch.bfloat16 for hidden in seen)
    weight = head.weight.float()
    if model.config.is_encoder_decoder:
        logits = [hidden.float() @ weight.T for hidden in seen[0]]
        first = logits[0][0]
    else:
        first = (seen[0].float() @ weight.T)[0, -1]
    expected = float(first.log_softmax(-1)[4])
    assert exact[1].logprob == pytest.approx(expected, abs=1e-5)
    assert exact[1].logprob != float(first.bfloat16().log_softmax(-1)[4])


def test_what_follows_the_head_is_kept():
    """Soft-capped logits (Gemma 2 and 3) are capped in float32 too."""
    model = families.build("gemma3").eval()
    plain_scores = scoring.score(model, prompts(), pad=0)
    model.config.get_text_config().final_logit_softcapping = 0.05
    capped = scoring.score(model, prompts(), pad=0)
    total, _, _ = plain(model, prompts()[2].context, prompts()[2].continuations[2])
    assert capped[2][2].logprob == pytest.approx(total, abs=1e-4)
    assert capped[2][2].logprob != pytest.approx(plain_scores[2][2].logprob, abs=1e-3)


def test_head_is_put_back_and_left_alone_where_it_is_no_linear_layer():
    model = families.build("llama").eval()
    before = scoring.score(model, prompts(), pad=0)
    assert "forward" not in model.lm_head.__dict__

    class Wrapped(torch.nn.Linear):
        pass

    model.lm_head.__class__ = Wrapped
    after = scoring.score(model, prompts(), pad=0)
    for a, b in zip(before, after, strict=True):
        assert [x.logprob for x in a] == pytest.approx([x.logprob for x in b], abs=1e-5)


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "t5"])
def test_offloaded_weights_are_brought_in_for_the_head(family):
    from accelerate import cpu_offload

    model = families.build(family).eval()
    before = scoring.score(model, prompts(), pad=0)
    cpu_offload(model, execution_device=torch.device("cpu"))
    after = scoring.score(model, prompts(), pad=0, device=torch.device("cpu"))
    for a, b in zip(before, after, strict=True):
        assert [x.logprob for x in a] == pytest.approx([x.logprob for x in b], abs=1e-5)


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=60),
    vocabulary=st.integers(10, 1000),
    row_bytes=st.integers(1, 1000),
)
def test_chunks_hold_every_row_once_within_their_limits(lengths, vocabulary, row_bytes):
    rows = [scoring.Row(0, n, (1,) * length, None) for n, length in enumerate(lengths)]
    with mock.patch.multiple(scoring, MAX_LOGITS=20_000, MAX_CACHE_BYTES=5_000, SPARE_TOKENS=8):
        chunks = list(scoring.chunked(rows, 0, vocabulary, row_bytes))
    assert sorted(row.number for chunk in chunks for row in chunk) == list(range(len(lengths)))
    for chunk in chunks:
        scored = sum(len(row.tokens) for row in chunk)
        padding = len(chunk) * len(chunk[0].tokens) - scored
        assert len(chunk) == 1 or scored * vocabulary <= 20_000
        assert len(chunk) == 1 or len(chunk) * row_bytes <= 5_000
        assert padding <= max(8, scored // 4)


def test_like_lengths_stay_together():
    rows = [scoring.Row(0, n, (1,) * length, None) for n, length in enumerate([3, 40, 3, 41, 2])]
    chunks = scoring.chunked(rows, 1, 10, 1)
    assert [[len(row.tokens) for row in chunk] for chunk in chunks] == [[41, 40], [3, 3, 2]]


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_hybrid"])
def test_branched_rows_leave_the_cache_they_come_from_as_it_was(family):
    from lm_eval_illusion.harness.generation_cache import branched

    model = families.build(family).eval()
    ids = torch.arange(2, 42).reshape(2, 20)
    with torch.no_grad():
        held = model(input_ids=ids, use_cache=True).past_key_values
    before = [(layer.keys.clone(), layer.values.clone()) for layer in held.layers]
    twin = branched(held, torch.tensor([1, 1, 0]))
    with torch.no_grad():
        model(input_ids=torch.tensor([[5], [6], [7]]), past_key_values=twin, use_cache=True)
    for layer, other, (keys, values) in zip(held.layers, twin.layers, before, strict=True):
        assert torch.equal(layer.keys, keys)
        assert torch.equal(layer.values, values)
        assert layer.get_seq_length() == 20
        assert other.get_seq_length() == 21
        assert len(other.keys) == 3
