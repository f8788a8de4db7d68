"""Samples: their distribution is the model's, their numbers depend on item, sample, place and seed alone."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lm_eval_illusion.harness.branch_ways import run_prompt
from lm_eval_illusion.harness.branching import Limits
from lm_eval_illusion.harness.sampling import Draws, nucleus, sample
from lm_eval_illusion.harness.together import together
from tests import families
from tests.harness.probes import At, Deep, Never, Table

CPU = torch.device("cpu")
LOGITS = torch.tensor([0.0, 1.5, -1.0, 0.7, 2.0, -3.0])


def draws(samples=8, temperature=1.0, top_p=1.0, seed=0, item_id="hand/en/0"):
    return Draws(item_id, samples, temperature, top_p, seed)


def drawn(first, branches, asked, most=1, ends=(), rule=None):
    found = sample(torch.as_tensor(first), asked, limits=Limits(most, frozenset(ends)), rule=rule or Never())
    return together([found], branches)[0]


# ------------------------------------------------------------------ the distribution
@pytest.mark.parametrize("temperature", [1.0, 0.8, 2.5])
@pytest.mark.parametrize("top_p", [1.0, 0.95, 0.6])
def test_first_tokens_are_distributed_as_the_softmax_within_the_nucleus(temperature, top_p):
    count = 4000
    found = drawn(LOGITS[None], Table({}), draws(count, temperature, top_p))
    seen = Counter(one.tokens[0] for one in found)
    probabilities = (LOGITS.double() / temperature).softmax(-1)
    order = sorted(range(6), key=lambda token: -probabilities[token])
    total, inside = 0.0, []
    for token in order:
        if total < top_p:
            inside.append(token)
        total += float(probabilities[token])
    assert set(seen) <= set(inside)
    share = sum(float(probabilities[token]) for token in inside)
    expected = [count * float(probabilities[token]) / share for token in inside]
    assert len(inside) == 1 or stats.chisquare([seen[token] for token in inside], expected).pvalue > 0.001


def test_whole_sequences_are_distributed_as_the_model_says():
    deep, count = Deep(3, seed=5), 6000
    seen = Counter(one.tokens for one in drawn(deep.first(), deep.copy(), draws(count), most=2, ends={0}))
    expected = {}
    for first, p in enumerate(deep.logits(()).double().softmax(-1).tolist()):
        if first == 0:
            expected[0,] = p
            continue
        for second, q in enumerate(deep.logits((first,)).double().softmax(-1).tolist()):
            expected[first, second] = p * q
    assert set(seen) <= set(expected)
    pairs = [(seen[tokens], count * p) for tokens, p in expected.items() if count * p >= 5]
    left = (count - sum(n for n, _ in pairs), count - sum(e for _, e in pairs))
    pairs += [left] if left[1] > 1 else []
    total = sum(e for _, e in pairs)
    scale = sum(n for n, _ in pairs) / total
    assert stats.chisquare([n for n, _ in pairs], [e * scale for _, e in pairs]).pvalue > 0.001


def test_numbers_are_uniform_and_differ_by_each_of_their_parts():
    made = [
        draws(seed=seed, item_id=item).uniform(j, t)
        for seed in range(3)
        for item in "ab"
        for j in range(30)
        for t in range(30)
    ]
    assert len(set(made)) == len(made)
    assert all(0 <= number < 1 for number in made)
    assert stats.kstest(made, "uniform").pvalue > 0.001


def test_a_number_as_computed_by_hand():
    from hashlib import sha256

    digest = sha256(b"x/en/1\x1f3\x1f2\x1f7").digest()
    assert draws(seed=7, item_id="x/en/1").uniform(3, 2) == (int.from_bytes(digest[:8], "big") >> 11) / 2**53


# ------------------------------------------------------------------ the nucleus
def test_the_nucleus_is_likeliest_first_and_equals_go_by_id():
    found = nucleus(torch.tensor([1.0, 3.0, 3.0, -math.inf, 1.0]), 1.0, 1.0)
    assert found.ids.tolist() == [1, 2, 0, 4]
    assert float(found.sums[-1]) == pytest.approx(1.0)
    e = math.exp(-2)
    shares = [1 / (2 + 2 * e), 2 / (2 + 2 * e), (2 + e) / (2 + 2 * e)]
    assert found.sums.tolist()[:3] == pytest.approx(shares)
    for uniform, token in (
        (0.0, 1),
        (shares[0] - 1e-9, 1),
        (shares[0] + 1e-9, 2),
        (shares[1] + 1e-9, 0),
        (1 - 2**-53, 4),
    ):
        assert found.token(uniform) == token


def test_the_token_that_reaches_top_p_is_inside():
    logits = torch.tensor([0.5, 0.3, 0.2]).log()
    assert [len(nucleus(logits, 1.0, top_p).ids) for top_p in (0.1, 0.49, 0.51, 0.79, 0.81, 1.0)] == [1, 1, 2, 2, 3, 3]


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 3000),
    spread=st.floats(0, 6),
    levels=st.integers(1, 60),
    top_p=st.floats(0.01, 1.0),
)
def test_looking_at_the_likeliest_first_changes_nothing(seed, size, spread, levels, top_p):
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(size, generator=generator) * levels).round() / levels * spread  # many equal ones
    found = nucleus(logits, 0.8, top_p)
    order = sorted(range(size), key=lambda token: (-float(logits[token]), token))
    sums = (logits.double() / 0.8).softmax(-1)[order].cumsum(-1)
    assert found.ids.tolist() == order[: len(found.ids)]
    assert found.sums.tolist() == pytest.approx(sums[: len(found.ids)].tolist(), abs=1e-9)
    assert len(found.ids) == size or float(sums[len(found.ids) - 1]) >= top_p - 1e-9
    assert len(found.ids) == 1 or float(sums[len(found.ids) - 2]) < top_p + 1e-9


# ------------------------------------------------------------------ rows
def test_samples_that_said_the_same_share_a_row_and_finished_ones_leave():
    table = Table({1: [-50.0, 0.0, 0.0, 0.0], 2: [-50.0, 0.0, 0.0, 0.0]})
    found = drawn([[-50.0, 0.0, 0.0, -50.0]], table, draws(16), most=6, ends={3})
    alive = [len({one.tokens[:n] for one in found if len(one.tokens) > n}) for n in range(1, 6)]
    assert table.steps == [rows for rows in alive if rows]
    assert table.steps[0] == 2
    assert len({len(one.tokens) for one in found}) > 2


def test_a_sample_does_not_depend_on_how_many_others_there_are():
    for seed in range(3):
        deep = Deep(6, seed)
        eight = drawn(deep.first(), deep.copy(), draws(8), most=5, ends={0})
        assert drawn(deep.first(), deep.copy(), draws(3), most=5, ends={0}) == eight[:3]


def test_the_same_seed_gives_the_same_and_another_seed_or_item_another():
    deep = Deep(40, 3)
    base = drawn(deep.first(), deep.copy(), draws(), most=6)
    assert drawn(deep.first(), deep.copy(), draws(), most=6) == base
    assert drawn(deep.first(), deep.copy(), draws(seed=1), most=6) != base
    assert drawn(deep.first(), deep.copy(), draws(item_id="hand/en/1"), most=6) != base


def test_logprobs_are_the_models_own_before_temperature_and_top_p():
    deep = Deep(5, 8)
    for one in drawn(deep.first(), deep.copy(), draws(temperature=0.5, top_p=0.7), most=4, ends={0}):
        steps = [deep.logits(one.tokens[:n]).double().log_softmax(-1)[token] for n, token in enumerate(one.tokens)]
        assert one.logprob == pytest.approx(float(sum(steps)), abs=1e-5)


def test_each_sample_ends_by_its_own_rule_end_token_or_limit():
    table = Table({n: [0.0, 0.0, 0.0, 0.0] for n in range(4)})
    found = drawn([[0.0] * 4], table, draws(40), most=3, ends={3}, rule=At(2))
    assert {(len(one.tokens) < 3, one.tokens[-1] in (2, 3), one.finish) for one in found} == {
        (True, True, "stop"),
        (False, True, "stop"),
        (False, False, "length"),
    }


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_give_nothing(bad):
    assert drawn([[1.0, bad, 0.0]], Table({}), draws()) is None
    assert drawn([[1.0, 0.9]], Table({0: [0.0, bad], 1: [0.0, bad]}), draws(), most=3) is None


def test_a_cold_temperature_is_greedy():
    deep = Deep(30, 4)
    tokens: list[int] = []
    while len(tokens) < 5:
        tokens.append(int(deep.logits(tuple(tokens)).argmax()))
    assert {one.tokens for one in drawn(deep.first(), deep.copy(), draws(temperature=1e-3), most=5)} == {tuple(tokens)}


@pytest.mark.parametrize("family", ["llama", "qwen3_hybrid", "gemma3", "phi3", "gpt2", "opt", "t5"])
def test_a_cache_and_the_whole_text_again_draw_the_same(family):
    model = families.build(family, seed=1)
    prompt = families.token_rows(1, 15, seed=2).tolist()[0]
    found = []
    with torch.no_grad():
        for way in ("rows", "texts") if family == "t5" else ("tree", "rows", "texts"):
            logits, branches = run_prompt(model, prompt, limit=8, pad=0, device=CPU, way=way)
            found.append(drawn(logits, branches, draws(temperature=0.8, top_p=0.95), most=8, ends={2}))
    first, *others = found
    assert len({one.tokens for one in first}) > 2
    for other in others:
        assert [one.tokens for one in other] == [one.tokens for one in first]
        assert [one.logprob for one in other] == pytest.approx([one.logprob for one in first], abs=1e-3)
