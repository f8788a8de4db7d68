"""Beam search: transformers' own where no line ends it, brute force over a tiny vocabulary, ties and ends by hand."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_illusion.harness.beam import beam_search, highest
from lm_eval_illusion.harness.branch_ways import run_prompt
from lm_eval_illusion.harness.branching import Hypothesis, Limits
from lm_eval_illusion.harness.together import together
from tests import families
from tests.harness.probes import At, Deep, Never, Table

CPU = torch.device("cpu")
FAMILIES = ["llama", "qwen3_hybrid", "gemma3", "mistral", "phi3", "gpt2", "opt", "mixtral", "t5"]


def search(first, branches, width=2, most=5, ends=(), rule=None):
    limits = Limits(most, frozenset(ends))
    found = beam_search(torch.as_tensor(first), width=width, limits=limits, rule=rule or Never())
    return together([found], branches)[0]


# ------------------------------------------------------------------ transformers' own
@torch.no_grad()
def stock(model, prompt, width, limit, **how):
    ids = torch.tensor([prompt])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        num_beams=width,
        num_return_sequences=width,
        max_new_tokens=limit,
        do_sample=False,
        pad_token_id=families.PAD,
        return_dict_in_generate=True,
        output_scores=True,
        **how,
    )
    start = 1 if model.config.is_encoder_decoder else len(prompt)
    return [
        (trimmed(row[start:].tolist()), score)
        for row, score in zip(out.sequences, out.sequences_scores.tolist(), strict=True)
    ]


def trimmed(tokens):
    return tuple(tokens[: tokens.index(families.EOS) + 1] if families.EOS in tokens else tokens)


def likely_end(model, by):
    """Make the end token likelier, so that hypotheses end at many lengths."""
    head = model.get_output_embeddings()
    bias = torch.zeros(families.VOCAB)
    bias[families.EOS] = by
    bias[families.PAD] = -50  # what stock pads with is told from nothing else
    head.register_forward_hook(lambda module, args, out: out + bias)
    return model


@pytest.mark.parametrize("ending", [0.0, 5.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_line_to_end_them_beams_are_transformers_own(family, ending):
    model = likely_end(families.build(family, seed=1), ending)
    rows = families.token_rows(3, 20, seed=4).tolist()
    lengths = set()
    for prompt, width in zip((rows[0], rows[1][:7], rows[2][:3]), (4, 3, 8), strict=True):
        expected = stock(model, prompt, width, 9)
        for way in ("rows", "texts") if family == "t5" else ("tree", "rows", "texts"):
            with torch.no_grad():
                logits, branches = run_prompt(model, prompt, limit=9, pad=families.PAD, device=CPU, way=way)
                ours = search(logits, branches, width, 9, {families.EOS})
            assert [one.tokens for one in ours] == [tokens for tokens, _ in expected]
            assert [one.score for one in ours] == pytest.approx([score for _, score in expected], abs=1e-4)
            assert [one.finish for one in ours] == ["stop" if t[-1] == families.EOS else "length" for t, _ in expected]
            lengths |= {len(one.tokens) for one in ours}
    assert len(lengths) > 1 or not ending


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_a_prompt_that_is_run_once_serves_several_searches(family):
    model = families.build(family, seed=1)
    prompt = families.token_rows(1, 12, seed=6).tolist()[0]
    with torch.no_grad():
        logits, branches = run_prompt(model, prompt, limit=6, pad=families.PAD, device=CPU)
        limits = Limits(6, frozenset())
        asked = [beam_search(logits, width=width, limits=limits, rule=Never()) for width in (4, 8, 4)]
        found = together(asked, branches)
        alone = search(*run_prompt(model, prompt, limit=6, pad=families.PAD, device=CPU), 8, 6)
    assert found[0] == found[2]
    assert found[1] == alone


# ------------------------------------------------------------------ brute force
def everything(deep: Deep, most: int, ends: set[int]) -> list[Hypothesis]:
    """Every continuation that an end token or the limit ends."""
    made = []
    for length in range(1, most + 1):
        for tokens in itertools.product(range(deep.vocabulary), repeat=length):
            if any(token in ends for token in tokens[:-1]) or (tokens[-1] not in ends and length < most):
                continue
            steps = [deep.logits(tokens[:n]).double().log_softmax(-1)[token] for n, token in enumerate(tokens)]
            made.append(Hypothesis(tokens, float(sum(steps)), "stop" if tokens[-1] in ends else "length"))
    return sorted(made, key=lambda one: (-one.score, one.tokens))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), vocabulary=st.integers(2, 4), most=st.integers(1, 3))
def test_beams_that_lose_nothing_find_what_brute_force_finds(seed, vocabulary, most):
    deep = Deep(vocabulary, seed)
    found = search(deep.first(), deep, vocabulary**most, most, {0})
    expected = everything(deep, most, {0})
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.logprob for one in found] == pytest.approx([one.logprob for one in expected], abs=1e-5)
    assert [one.finish for one in found] == [one.finish for one in expected]


def plain_beams(deep: Deep, width: int, most: int, ends: set[int]) -> list[Hypothesis]:
    """The rule of the docstring, written out over lists."""
    open_ones, finished = [((), 0.0)], []
    for length in range(1, most + 1):
        ranked = sorted(
            (
                ((*tokens, token), logprob + float(step))
                for tokens, logprob in open_ones
                for token, step in enumerate(deep.logits(tokens).double().log_softmax(-1))
            ),
            key=lambda found: (-found[1], found[0]),
        )
        open_ones = []
        for place, (tokens, logprob) in enumerate(ranked):
            if tokens[-1] in ends or length == most:
                if place < width:
                    finished.append(Hypothesis(tokens, logprob, "stop" if tokens[-1] in ends else "length"))
            elif len(open_ones) < width:
                open_ones.append((tokens, logprob))
        finished = sorted(finished, key=lambda one: (-one.score, one.tokens))[:width]
        if not open_ones or (len(finished) == width and open_ones[0][1] / length <= finished[-1].score):
            break
    return finished


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocabulary=st.integers(2, 12),
    width=st.integers(1, 4),
    ends=st.sets(st.integers(0, 11), max_size=8),
)
def test_beams_are_the_rule_written_out_however_many_tokens_end_one(seed, vocabulary, width, ends):
    deep = Deep(vocabulary, seed)
    found = search(deep.first(), deep.copy(), width, 5, ends)
    assert [one.tokens for one in found] == [one.tokens for one in plain_beams(deep, width, 5, ends)]


# ------------------------------------------------------------------ by hand
def logs(*probabilities):
    return [math.log(p) if p else -math.inf for p in probabilities]


def test_the_second_beam_may_win():
    # Token 1 is the greedy one; after it the end, 3, has a half. After 2 it comes almost for sure.
    table = Table({1: logs(0, 0.25, 0.25, 0.5), 2: logs(0, 0.02, 0.02, 0.96)})
    found = search([logs(0, 0.6, 0.4, 0)], table, width=2, most=3, ends={3})
    assert [one.tokens for one in found] == [(2, 3), (1, 3)]
    assert found[0].logprob == pytest.approx(math.log(0.4 * 0.96))
    assert found[1].score == pytest.approx(math.log(0.6 * 0.5) / 2)
    assert {one.finish for one in found} == {"stop"}


def test_a_longer_hypothesis_is_scored_per_token():
    # 0.5 against 0.5 * 0.9 * 0.9: per token -0.69 against -0.30.
    table = Table({1: logs(0, 0.9, 0, 0.1)})
    found = search([logs(0, 0.5, 0, 0.5)], table, width=2, most=3, ends={3})
    assert [(one.tokens, one.finish) for one in found] == [((1, 1, 1), "length"), ((3,), "stop")]
    assert [one.score for one in found] == pytest.approx([math.log(0.405) / 3, math.log(0.5)])


def test_the_search_ends_when_no_open_one_scores_above_the_worst_finished():
    # (1, 3) at log(.48) / 2 = -.37 and (2, 3) at log(.32) / 2 = -.57 are finished; (1, 1) is at log(.06) / 2 = -1.4.
    table = Table({1: logs(0, 0.1, 0.1, 0.8), 2: logs(0, 0.1, 0.1, 0.8)})
    found = search([logs(0, 0.6, 0.4, 0)], table, width=2, most=40, ends={3})
    assert [one.tokens for one in found] == [(1, 3), (2, 3)]
    assert table.steps == [2]


def test_the_search_goes_on_while_an_open_one_scores_above_the_worst_finished():
    # (2, 3) is finished at log(.5) / 2 = -.35, (1, 1, 3) at log(.045) / 3 = -1.0; (1, 1, 1) is at log(.405) / 3 = -.30,
    # and in the end (1, 1, 1, 1, 1, 1) at log(.5 * .9 ** 5) / 6 = -.20 is the best of all.
    table = Table({1: logs(0, 0.9, 0, 0.1), 2: logs(0, 0, 0, 1)})
    found = search([logs(0, 0.5, 0.5, 0)], table, width=2, most=6, ends={3})
    assert [one.tokens for one in found] == [(1,) * 6, (2, 3)]
    assert found[0].score == pytest.approx(math.log(0.5 * 0.9**5) / 6)
    assert table.steps == [2, 1, 1, 1, 1]


def test_of_one_answer_that_ends_in_several_ways_the_best_is_kept_and_leaves_room_for_the_next():
    # 3 and 4 both end; (1, 3) and (1, 4) say the same.
    table = Table({1: logs(0, 0, 0.1, 0.5, 0.4), 2: logs(0, 0, 0, 0.9, 0.1)})
    first, how = [logs(0, 0.7, 0.3, 0, 0)], {"width": 2, "most": 4, "ends": {3, 4}}
    assert [one.tokens for one in search(first, table, **how)] == [(1, 3), (1, 4)]
    limits = Limits(4, frozenset({3, 4}))
    asked = beam_search(
        torch.tensor(first), width=2, limits=limits, rule=Never(), answer_of=lambda one: one.tokens[:-1]
    )
    (found,) = together([asked], table)
    assert [one.tokens for one in found] == [(1, 3), (1, 2, 3)]


def test_equals_go_by_token_ids():
    level = [0.0] * 6
    found = search([level], Table(dict.fromkeys(range(6), level)), width=3, most=2)
    assert [one.tokens for one in found] == [(0, 0), (0, 1), (0, 2)]


def test_of_many_equal_logits_the_lowest_ids_are_taken():
    logits = torch.zeros(2, 5000)
    logits[0, 4000], logits[1, [7, 9]] = 1.0, -1.0
    assert sorted(highest(logits, 3)[0]) == [(0, 0.0), (1, 0.0), (4000, 1.0)]
    assert sorted(highest(logits, 8)[1]) == [(n, 0.0) for n in (0, 1, 2, 3, 4, 5, 6, 8)]
    assert sorted(highest(torch.tensor([[3.0, 1.0]]), 5)[0]) == [(0, 3.0), (1, 1.0)]


def test_the_rule_ends_hypotheses_and_each_has_its_own():
    table = Table({1: logs(0, 0.5, 0.3, 0.2), 2: logs(0, 0.5, 0.2, 0.3)})
    found = search([logs(0, 0.6, 0.4, 0)], table, width=2, most=4, rule=At(3, 2))
    assert all(one.finish == "length" or one.tokens[-1] in (2, 3) for one in found)
    assert all(not {2, 3} & set(one.tokens[:-1]) for one in found)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_give_nothing(bad):
    assert search([[1.0, bad, 0.0]], Table({})) is None
    assert search([[1.0, 0.5, 0.0]], Table({0: [0.0, bad, 1.0], 1: [0.0, 1.0, 1.0]})) is None


def test_what_has_no_probability_is_no_hypothesis():
    found = search([logs(0, 1, 0)], Table({1: logs(0, 0, 1)}), width=4, most=2, ends={2})
    assert [one.tokens for one in found] == [(1, 2)]
