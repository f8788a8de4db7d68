"""The gold's ranks under teacher forcing, beside a forward over everything; what is read of them, by hand."""

import copy
import math

import pytest
import torch
from transformers import MBartConfig, MBartForConditionalGeneration

from lm_eval_illusion.harness import prefix_check
from lm_eval_illusion.harness.answering import GreedyAnswering
from lm_eval_illusion.harness.branching import Limits
from lm_eval_illusion.harness.ranks import Greedy, answer_tokens, greedy, read_ranks
from lm_eval_illusion.harness.readout import TokenReading, token_reading
from lm_eval_illusion.harness.together import together
from tests import families
from tests.harness.conftest import answer_requests, saved_bart
from tests.harness.probes import At, Never, Table, nan_model, probe_doc, probe_request, pruned, told

NAN, INF = math.nan, math.inf


def read(rank, logprob, is_greedy=False, margin=None):
    return TokenReading(rank, logprob, is_greedy, 0.0 if is_greedy else margin)


def asked(doc=None, **changes):
    return probe_request({**(doc or probe_doc(1, "rank")), **changes})


# ------------------------------------------------------------------ by hand
def test_the_record_by_hand():
    gold = [read(1, -0.1, True), read(3, -2.5, margin=-1.75), read(1, -0.2, True), read(2, -1.0, margin=-0.5)]
    assert read_ranks(gold, [read(1, -0.1, True), read(1, -0.75, True)]) == {
        "ranks": [1, 3, 1, 2],
        "logprobs": [-0.1, -2.5, -0.2, -1.0],
        "leave": 1,
        "margin": -1.75,
        "agreement": 0.5,
        "gold_logprob": pytest.approx(-3.8),
        "greedy_logprob": pytest.approx(-0.85),
        "gold_tokens": 4,
        "greedy_tokens": 2,
    }


def test_a_gold_that_is_the_greedy_answer_is_never_left():
    gold = [read(1, -0.1, True), read(1, -0.2, True)]
    found = read_ranks(gold, gold)
    assert (found["leave"], found["margin"], found["agreement"]) == (None, None, 1.0)


@pytest.mark.parametrize("bad", [read(None, NAN), read(None, -1.0), read(2, -INF)])
def test_what_is_not_finite_is_none(bad):
    assert set(read_ranks([read(1, -0.1, True), bad], [read(1, -0.1, True)]).values()) == {None}
    found = read_ranks([read(1, -0.1, True)], [read(None, NAN)])
    assert (found["ranks"], found["greedy_logprob"]) == ([1], None)


def test_a_token_under_its_logits():
    logits = torch.tensor([1.0, 4.0, 2.5, 4.0])
    assert token_reading(logits, 2, -3.0, False) == TokenReading(3, -3.0, False, -1.5)
    assert token_reading(logits, 3, -1.0, False) == TokenReading(1, -1.0, False, 0.0)
    assert token_reading(torch.tensor([1.0, NAN]), 0, NAN, False).margin is None
    assert token_reading(torch.tensor([1.0, INF]), 0, -INF, False).margin is None


def test_an_end_token_or_a_blank_one_is_no_part_of_the_answer_unless_it_is_all():
    ends = frozenset({9})

    def left(tokens, finish, is_blank):
        return answer_tokens(Greedy(tokens, finish, 0, False), ends, is_blank)

    assert left((4, 5, 9), "stop", False) == (4, 5)
    assert left((4, 5, 6), "stop", True) == (4, 5)
    assert left((4, 5, 6), "stop", False) == (4, 5, 6)
    assert left((4, 5, 6), "length", True) == (4, 5, 6)
    assert left((9,), "stop", False) == (9,)


def test_the_greedy_answer_counts_ties_and_ends_by_rule_end_token_or_limit():
    table = Table({1: [0.0, 0.0, 3.0, 3.0], 2: [0.0, 5.0, 0.0, 0.0], 3: [9.0, 0.0, 0.0, 0.0]})
    first = torch.tensor([[0.0, 4.0, 0.0, 0.0]])

    def answered(rule, ends=(), most=4):
        return together([greedy(first, limits=Limits(most, frozenset(ends)), rule=rule)], table)[0]

    assert answered(Never()) == Greedy((1, 2, 1, 2), "length", 2, False)
    assert answered(At(2)) == Greedy((1, 2), "stop", 1, False)
    assert answered(Never(), ends={1}) == Greedy((1,), "stop", 0, False)
    broken = greedy(torch.tensor([[NAN, 1.0]]), limits=Limits(1, frozenset()), rule=Never())
    assert together([broken], table)[0].non_finite


# ------------------------------------------------------------------ models
@torch.no_grad()
def by_hand(lm, prompt, continuation):
    """Logits before each token of the continuation, from a forward over everything."""
    if lm.model.config.is_encoder_decoder:
        before = torch.tensor([[lm.model.config.decoder_start_token_id, *continuation[:-1]]])
        return lm.model(input_ids=torch.tensor([prompt]), decoder_input_ids=before).logits[0]
    return lm.model(input_ids=torch.tensor([[*prompt, *continuation]])).logits[0, len(prompt) - 1 : -1]


@pytest.mark.parametrize("family", ["llama", "qwen3_hybrid", "gemma3", "phi3", "gpt2", "opt", "t5"])
@pytest.mark.parametrize("shared", [True, False])
def test_ranks_are_those_of_a_forward_over_everything(tiny, family, shared):
    lm = pruned(tiny(family))
    lm._shared_prefix = shared
    request = asked()
    (answer,) = lm.generate_until([request], True)
    prompt, gold = lm._tokens(request.args[0], " 210 kilometres")
    logits = by_hand(lm, prompt, gold).double()
    logprobs = logits.log_softmax(-1)[range(len(gold)), gold].tolist()
    ranks = [int((row > row[token]).sum()) + 1 for row, token in zip(logits, gold, strict=True)]
    found = answer.illusion["ranks"]
    assert found["ranks"] == ranks
    assert found["logprobs"] == pytest.approx(logprobs, abs=1e-4)
    assert found["gold_logprob"] == pytest.approx(sum(logprobs), abs=1e-4)
    assert found["gold_tokens"] == len(gold)
    leave = next(n for n, place in enumerate(ranks) if place > 1)
    assert found["leave"] == leave
    assert found["margin"] == pytest.approx(float(logits[leave, gold[leave]] - logits[leave].max()), abs=1e-4)
    assert found["agreement"] == sum(place == 1 for place in ranks) / len(gold)


@pytest.mark.parametrize("family", ["llama", "gemma3", "t5"])
def test_the_answer_is_that_of_open_generation_and_a_greedy_gold_is_never_left(tiny, family, monkeypatch):
    lm = pruned(tiny(family))
    request = asked()
    (answer,) = lm.generate_until([request], True)
    plain = {name: value for name, value in request.doc.items() if name != "condition"}
    (open_answer,) = lm.generate_until(answer_requests([plain], max_gen_toks=8), True)
    assert str(answer) == str(open_answer)
    for name, value in open_answer.illusion.items():
        assert answer.illusion[name] == value
    # The gold made of the very tokens that greedy search says.
    prompt = lm.tok_batch_encode([request.args[0]])[0][0].tolist()
    said: list[int] = []
    while len(said) < 3:
        said.append(int(by_hand(lm, prompt, [*said, 5])[-1].argmax()))
    real = GreedyAnswering._tokens if hasattr(GreedyAnswering, "_tokens") else type(lm)._tokens
    monkeypatch.setattr(type(lm), "_tokens", lambda self, *pair: (real(self, *pair)[0], said))
    (found,) = [one.illusion["ranks"] for one in lm.generate_until([asked()], True)]
    assert (found["ranks"], found["leave"], found["agreement"]) == ([1, 1, 1], None, 1.0)


def test_the_greedy_answers_own_likelihood(tiny):
    lm = pruned(tiny("llama"))
    request = asked()
    (answer,) = lm.generate_until([request], True)
    found = answer.illusion["ranks"]
    assert answer.illusion["finish"] == "length"
    prompt = lm.tok_batch_encode([request.args[0]])[0][0].tolist()
    said: list[int] = []
    total = 0.0
    while len(said) < found["greedy_tokens"]:
        logits = by_hand(lm, prompt, [*said, 5])[-1].double()
        said.append(int(logits.argmax()))
        total += float(logits.log_softmax(-1)[said[-1]])
    assert found["greedy_tokens"] == request.doc["max_gen_toks"]
    assert found["greedy_logprob"] == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize(
    ("language", "prompt", "context", "between"),
    [
        ("en", "Answer:", "Answer:", " "),
        ("zh", "答案：", "答案：", ""),
        ("en", "Answer:", "<user>Answer:\n<assistant>", ""),
        ("en", "Answer:", "Question: a\nAnswer: b\n\nAnswer:", " "),
    ],
)
def test_between_prompt_and_gold_stands_what_the_harness_puts_there(
    tiny, monkeypatch, language, prompt, context, between
):
    lm, seen = pruned(tiny("gpt2")), []
    real = type(lm)._tokens
    monkeypatch.setattr(type(lm), "_tokens", lambda self, *pair: seen.append(pair) or real(self, *pair))
    request = asked(language=language, prompt=prompt)
    request.arguments = (context, request.args[1])
    lm.generate_until([request], True)
    assert seen == [(context, between + "210 kilometres")]


def test_nan_makes_an_item_invalid_and_raises_nothing(tiny):
    lm = nan_model(pruned(tiny("llama")))
    (answer,) = lm.generate_until([asked()], True)
    assert answer.illusion["non_finite"]
    assert set(answer.illusion["ranks"].values()) == {None}


def test_bfloat16_ranks_are_read_in_float32(tiny):
    lm = pruned(tiny("llama"), dtype="bfloat16")
    (answer,) = lm.generate_until([asked()], True)
    exact = torch.tensor(answer.illusion["ranks"]["logprobs"])
    assert not torch.equal(exact, exact.bfloat16().float())


def test_a_model_that_does_not_go_on_after_a_cached_prompt_is_read_in_one_pass(tiny, monkeypatch):
    expected = told(pruned(tiny("llama")).generate_until([asked()], True))[0][1]["ranks"]
    monkeypatch.setattr(prefix_check, "goes_on", lambda *args, **kwargs: False)
    lm = pruned(tiny("llama"))
    found = told(lm.generate_until([asked()], True))[0][1]["ranks"]
    assert not lm._shared_prefix
    assert found["ranks"] == expected["ranks"]
    assert found["logprobs"] == pytest.approx(expected["logprobs"], abs=1e-4)
    assert copy.deepcopy(found) == found


@pytest.mark.parametrize("way", ["rows", "texts"])
@pytest.mark.parametrize("start", [None, 7])
def test_mbart_is_read_behind_the_token_that_its_answers_begin_with(tmp_path, start, way, monkeypatch):
    """Its labels stand behind their own last one, so as stock it is scored otherwise."""
    changes = {"decoder_start_token_id": start}
    lm = pruned(saved_bart(tmp_path, MBartForConditionalGeneration, MBartConfig, **changes))
    lm.generate_until([asked()], True)
    lm._ways.left = lm._ways.left[lm._ways.left.index(way) :]
    request = asked()
    prompt = lm.tok_batch_encode([request.args[0]])[0]
    with torch.no_grad():
        begun = lm.model.generate(prompt, max_new_tokens=3, do_sample=False, eos_token_id=None)[0].tolist()
    assert begun[0] == (families.BOS if start is None else start)
    monkeypatch.setattr(type(lm), "_tokens", lambda self, *pair: (prompt[0].tolist(), begun[1:]))
    found = lm.generate_until([request], True)[0].illusion["ranks"]
    assert (found["ranks"], found["leave"]) == ([1, 1, 1], None)
    before = torch.tensor([begun[:-1]])
    with torch.no_grad():
        logprobs = lm.model(input_ids=prompt, decoder_input_ids=before).logits[0].log_softmax(-1)
    assert found["logprobs"] == pytest.approx(logprobs[range(3), begun[1:]].tolist(), abs=1e-4)
    monkeypatch.undo()
    found = lm.generate_until([request], True)[0].illusion["ranks"]
    said = greedy_total(lm, prompt, begun[0], found["greedy_tokens"])
    assert found["greedy_logprob"] == pytest.approx(said, abs=1e-3)


def greedy_total(lm, prompt, start, count):
    """The sum of log-probabilities of the greedy tokens behind a start token, by hand."""
    new, total = [start], 0.0
    with torch.no_grad():
        for _ in range(count):
            logprobs = lm.model(input_ids=prompt, decoder_input_ids=torch.tensor([new])).logits[0, -1].log_softmax(-1)
            new.append(int(logprobs.argmax()))
            total += float(logprobs.max())
    return total
