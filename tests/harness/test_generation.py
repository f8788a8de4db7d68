"""`generate_until` of `pruned_hf` against stock HFLM: the same bytes for any greedy request, our rule for our items."""

import logging

import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import BartConfig, BartForCausalLM, MBartConfig, MBartForConditionalGeneration

from lm_eval_illusion.harness import generation, generation_batch, generation_stock
from lm_eval_illusion.harness.answers import AnswerText
from lm_eval_illusion.harness.generation_cache import CannotRunError
from lm_eval_illusion.harness.model import PrunedHFLM
from lm_eval_illusion.pairs.reading import line_complete
from tests import families
from tests.harness.conftest import answer_requests, paired_doc, saved_bart

NAN = float("nan")
TEXTS = [
    "The river Nile",
    "Question: Who wrote the letter? Answer:",
    "यह नदी उत्तर में शुरू होती",
    "这条河发源于",
    "이 강은 북쪽에서",
    "Der Fluss entspringt im Norden und mündet nach 210 Kilometern ins Meer. " * 3,
    "x",
    "a b c d e f " * 12,
]
UNTIL = [[], ["\n"], ["e", " a", "in"], ["ri", "", "x"], "th", ["्", "的", "은"]]
DOCS = [paired_doc(n, "The river runs north. " * (1 + 3 * n)) for n in range(4)]


def plain(until=("\n",), texts=TEXTS, limits=(3, 14, 8), **arguments):
    made = []
    for n, text in enumerate(texts):
        asked = {"until": until if isinstance(until, str) else list(until), "do_sample": False, **arguments}
        asked.setdefault("max_gen_toks", limits[n % len(limits)])
        made.append(Instance("generate_until", {}, (text, asked), 0, metadata=("other", n, 1)))
    return made


def pruned(folder, **options) -> PrunedHFLM:
    return PrunedHFLM(pretrained=folder, device="cpu", **{"method": "none", **options})


@pytest.fixture
def no_stock(monkeypatch):
    """Fail where anything falls back to `model.generate`'s own loop."""

    def refuse(*args, **kwargs):
        raise AssertionError("the fallback ran")

    def forbid(lm):
        monkeypatch.setattr(type(lm.model), "_sample", refuse)
        return lm

    return forbid


@pytest.fixture(scope="session")
def talker(tmp_path_factory):
    """Return a function: family -> folder of a tiny model that says something (T5 of seed 0 says padding alone)."""
    root, made = tmp_path_factory.mktemp("talkers"), {}

    def folder(family: str) -> str:
        if family not in made:
            made[family] = str(families.save_tiny(family, root / family, seed=1))
        return made[family]

    return folder


def mixed():
    """Every stop list with every third text, all in one call."""
    asked = [request for n, until in enumerate(UNTIL) for request in plain(until)[n % 3 :: 3]]
    return [Instance("generate_until", {}, request.args, n, metadata=("m", n, 1)) for n, request in enumerate(asked)]


@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_any_greedy_request_gets_stocks_text_at_any_batch_size(talker, family, no_stock):
    stock = HFLM(pretrained=talker(family), device="cpu", batch_size=1)
    expected = stock.generate_until(mixed(), True)
    assert len(set(expected)) > len(UNTIL)
    ours = no_stock(pruned(talker(family)))
    for size in (1, 3, "auto"):
        ours.batch_size_per_gpu = size
        assert ours.generate_until(mixed(), True) == expected
    assert not ours._loop_refused


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_hybrid", "t5"])
def test_bfloat16_at_batch_size_1_is_stocks(talker, family, no_stock):
    stock = HFLM(pretrained=talker(family), device="cpu", batch_size=1, dtype="bfloat16")
    expected = stock.generate_until(plain(["e"]), True)
    assert len(set(expected)) > 3
    ours = no_stock(pruned(talker(family), dtype="bfloat16", batch_size=1))
    assert ours.generate_until(plain(["e"]), True) == expected


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_longer_than_the_window_is_cut_from_the_left_as_stock_does(talker, family, no_stock):
    stock = HFLM(pretrained=talker(family), device="cpu", batch_size=1, max_length=24)
    expected = stock.generate_until(plain(), True)
    ours = no_stock(pruned(talker(family), batch_size=3, max_length=24))
    assert ours.generate_until(plain(), True) == expected


@pytest.mark.parametrize(
    "options",
    [{"mixed_precision_dtype": "bfloat16"}, {"parallelize": True}, {"device_map": "cpu"}, {"add_bos_token": True}],
)
def test_options_of_the_model_do_what_they_do_in_stock(tiny, options, no_stock):
    expected = HFLM(pretrained=tiny("llama"), device="cpu", batch_size=1, **options).generate_until(plain(), True)
    assert no_stock(pruned(tiny("llama"), batch_size=1, **options)).generate_until(plain(), True) == expected


def test_a_request_that_begins_with_the_bos_token_gets_no_second_one_whoever_stands_beside_it(tiny):
    texts = ["The river Nile flows", "<s>The river Nile flows", "x"]
    stock = HFLM(pretrained=tiny("llama"), device="cpu", batch_size=1)
    ours = pruned(tiny("llama"), batch_size=3)
    assert ours.generate_until(plain(texts=texts), True) == stock.generate_until(plain(texts=texts), True)


# ------------------------------------------------------------------ what stock keeps
@pytest.mark.parametrize(
    "arguments",
    [{"repetition_penalty": 1.4}, {"num_beams": 2}, {"no_repeat_ngram_size": 2}, {"max_length": 60}],
)
def test_arguments_that_bend_the_logits_go_stocks_way(tiny, arguments, monkeypatch):
    ours = pruned(tiny("llama"), batch_size=1)
    monkeypatch.setattr(generation, "begin", None)  # the loop would break here
    stock = HFLM(pretrained=tiny("llama"), device="cpu", batch_size=1)
    texts = TEXTS[:2]
    assert ours.generate_until(plain(texts=texts, **arguments), True) == stock.generate_until(
        plain(texts=texts, **arguments), True
    )


def test_sampling_goes_stocks_way(tiny):
    ours, stock = pruned(tiny("llama")), HFLM(pretrained=tiny("llama"), device="cpu")
    asked = plain(texts=TEXTS[:2], do_sample=True, temperature=0.9)
    torch.manual_seed(0)
    expected = stock.generate_until(asked, True)
    torch.manual_seed(0)
    assert ours.generate_until(asked, True) == expected


@pytest.mark.parametrize(
    "bent",
    [{"repetition_penalty": 1.5}, {"min_new_tokens": 9}, {"suppress_tokens": [5]}, {"forced_bos_token_id": 0}],
)
def test_a_bent_checkpoint_bends_other_tasks_as_in_stock_and_never_ours(tiny, bent):
    ours = pruned(tiny("llama"), batch_size=1)
    stock = HFLM(pretrained=tiny("llama"), device="cpu", batch_size=1)
    before = ours.generate_until(answer_requests(DOCS), True)
    for lm in (ours, stock):
        for name, value in bent.items():
            setattr(lm.model.generation_config, name, value)
    assert not ours._is_neutral()
    assert ours.generate_until(plain(), True) == stock.generate_until(plain(), True)
    assert ours.generate_until(answer_requests(DOCS), True) == before


# ------------------------------------------------------------------ paired items
@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_paired_items_are_the_greedy_text_up_to_the_first_line(talker, family, no_stock):
    ours = no_stock(pruned(talker(family), batch_size=3))
    asked = answer_requests(DOCS)
    answers = ours.generate_until(asked, True)
    for answer, request in zip(answers, asked, strict=True):
        whole = expected_text(ours, *ours.tok_batch_encode([request.args[0]]))
        assert whole.startswith(answer)
        assert answer == whole or line_complete(answer)
        assert answer.illusion == {
            "fits": True,
            "finish": answer.illusion["finish"],
            "non_finite": False,
            "tied_steps": 0,
        }


def expected_text(lm, ids, mask, limit=12) -> str:
    """Greedy search by hand: the whole sequence again for each token."""
    model, new = lm.model, []
    ends = generation_stock.end_tokens(model, lm.tokenizer)
    with torch.no_grad():
        while len(new) < limit:
            if model.config.is_encoder_decoder:
                logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=torch.tensor([[0, *new]])).logits
            else:
                logits = model(input_ids=torch.cat([ids, torch.tensor([new], dtype=torch.long)], 1)).logits
            token = int(logits[0, -1].argmax())
            if token in ends:
                break
            new.append(token)
    return str(lm.tokenizer.decode(new, skip_special_tokens=True))


def say(monkeypatch, lm, chain: dict[int, int]):
    """Let a model say one given token after another: {token: what follows it}."""
    real = type(lm.model).forward

    def forward(self, input_ids=None, **kwargs):
        out = real(self, input_ids=input_ids, **kwargs)
        out.logits = torch.zeros_like(out.logits)
        for row, token in enumerate(input_ids[:, -1].tolist()):
            out.logits[row, -1, chain.get(token, families.EOS)] = 9.0
        return out

    forward.__signature__ = __import__("inspect").signature(real)
    monkeypatch.setattr(type(lm.model), "forward", forward)


@pytest.mark.parametrize("loop", [True, False])
def test_rows_end_by_line_by_end_token_or_by_the_limit(tiny, monkeypatch, loop):
    lm = pruned(tiny("gpt2"), batch_size=4)
    lm._loop_refused = not loop
    token = {piece: lm.tokenizer.convert_tokens_to_ids(piece) for piece in "ABCDEFGĊxyz"}
    docs = [{**paired_doc(n), "prompt": text, "max_gen_toks": 4} for n, text in enumerate("ADFx")]
    follow = {"A": "B", "B": "Ċ", "D": "E", "F": "G", "G": "F", "x": "Ċ", "Ċ": "y", "y": "Ċ"}
    say(monkeypatch, lm, {token[a]: token[b] for a, b in follow.items()})
    said = lm.generate_until(answer_requests(docs, max_gen_toks=4), True)
    assert list(said) == ["B\n", "E", "GFGF", "\ny\n"]
    assert [answer.illusion["finish"] for answer in said] == ["stop", "stop", "length", "stop"]
    assert all(answer.illusion["tied_steps"] == 0 and not answer.illusion["non_finite"] for answer in said)


@pytest.mark.parametrize("loop", [True, False])
@pytest.mark.parametrize(("value", "told"), [(7.0, (3, False)), (NAN, (0, True)), (3.0, (0, False))])
def test_ties_and_nan_are_told(tiny, monkeypatch, loop, value, told):
    lm = pruned(tiny("gpt2"), batch_size=2)
    lm._loop_refused = not loop
    real = type(lm.model).forward

    def forward(self, input_ids=None, **kwargs):
        out = real(self, input_ids=input_ids, **kwargs)
        out.logits = torch.zeros_like(out.logits)
        out.logits[..., 40], out.logits[..., 41] = 7.0, value
        return out

    forward.__signature__ = __import__("inspect").signature(real)
    monkeypatch.setattr(type(lm.model), "forward", forward)
    docs = [{**doc, "max_gen_toks": 3} for doc in DOCS[:3]]
    for answer in lm.generate_until(answer_requests(docs, max_gen_toks=3), True):
        assert (answer.illusion["tied_steps"], answer.illusion["non_finite"]) == told


def test_steps_after_the_line_do_not_count_as_ties_in_the_fallback(tiny, monkeypatch):
    lm = pruned(tiny("gpt2"), batch_size=2)
    newline, a = (lm.tokenizer.convert_tokens_to_ids(piece) for piece in "Ċa")
    pad = lm.tokenizer.pad_token_id
    docs = [{**paired_doc(n), "prompt": text, "max_gen_toks": 5} for n, text in enumerate("ab")]
    b = lm.tokenizer.convert_tokens_to_ids("b")
    told = {}
    for loop in (True, False):
        lm._loop_refused = not loop
        with monkeypatch.context() as patched:
            say(patched, lm, {a: b, b: newline, newline: b, pad: b})
            told[loop] = [(str(t), t.illusion) for t in lm.generate_until(answer_requests(docs, max_gen_toks=5), True)]
    assert told[True] == told[False]


def test_extra_arguments_bend_paired_items_and_leave_ties_uncounted(tiny):
    lm = pruned(tiny("llama"), batch_size=2)
    plain_answers = lm.generate_until(answer_requests(DOCS), True)
    bent = lm.generate_until(answer_requests(DOCS, repetition_penalty=3.0), True)
    assert list(bent) != list(plain_answers)
    assert {answer.illusion["tied_steps"] for answer in bent} == {None}
    assert all(answer.illusion["fits"] for answer in bent)


def test_paired_and_other_requests_may_be_mixed_and_keep_their_order(tiny):
    lm = pruned(tiny("llama"), batch_size=3)
    ours, others = answer_requests(DOCS), plain(texts=TEXTS[:4])
    apart = lm.generate_until(ours, True), lm.generate_until(others, True)
    expected = [text for pair in zip(*apart, strict=True) for text in pair]
    mixed = [request for pair in zip(ours, others, strict=True) for request in pair]
    assert lm.generate_until(mixed, True) == expected
    assert [isinstance(text, AnswerText) for text in lm.generate_until(mixed, True)] == [True, False] * 4


@pytest.mark.parametrize("way", ["loop", "stock", "extra arguments"])
def test_learned_positions_that_count_the_padding_change_no_answer_with_the_batch_size(tmp_path, way):
    folder = saved_bart(tmp_path, BartForCausalLM, BartConfig, is_decoder=True, is_encoder_decoder=False)
    extra = {"repetition_penalty": 1.3} if way == "extra arguments" else {}
    said = {}
    for size in (1, 3):
        lm = pruned(folder, backend="causal", batch_size=size)
        lm._loop_refused = way == "stock"
        said[size] = [(str(a), a.illusion) for a in lm.generate_until(answer_requests(DOCS, **extra), True)]
        assert lm._loop_refused == (way == "stock")
    assert len({text for text, _ in said[1]}) > 1
    assert said[3] == said[1]


@pytest.mark.parametrize("start", [None, 7])
def test_mbart_begins_its_answers_as_generate_does(tmp_path, start, no_stock):
    changes = {"decoder_start_token_id": start}
    folder = saved_bart(tmp_path, MBartForConditionalGeneration, MBartConfig, **changes)
    expected = HFLM(pretrained=folder, device="cpu", batch_size=1).generate_until(plain(), True)
    assert len(set(expected)) > 3
    for size in (1, 3):
        assert no_stock(pruned(folder, batch_size=size)).generate_until(plain(), True) == expected


# ------------------------------------------------------------------ the fallback
def test_what_the_loop_cannot_run_is_generated_as_stock_with_one_line_of_log(tiny, monkeypatch, caplog):
    lm, stock = pruned(tiny("llama"), batch_size=2), HFLM(pretrained=tiny("llama"), device="cpu", batch_size=1)
    looped = [lm.generate_until(asked, True) for asked in (plain(), answer_requests(DOCS))]

    def refuse(cache):
        raise CannotRunError("its cache is a Foreign")

    monkeypatch.setattr("lm_eval_illusion.harness.generation_cache.require_rows", refuse)
    with caplog.at_level(logging.WARNING, logger="lm_eval.illusion"):
        fallen = [lm.generate_until(asked, True) for asked in (plain(), answer_requests(DOCS))]
    assert fallen == looped
    assert fallen[0] == stock.generate_until(plain(), True)
    assert [answer.illusion for answer in fallen[1]] == [answer.illusion for answer in looped[1]]
    lines = [record.message for record in caplog.records if "decode loop" in record.message]
    assert lines == ["LlamaForCausalLM: no decode loop, generating as stock hf: its cache is a Foreign"]


def test_an_error_halfway_leaves_nothing_out(tiny, monkeypatch):
    lm = pruned(tiny("llama"), batch_size=2)
    expected = lm.generate_until(answer_requests(DOCS), True)
    real, calls = generation_batch.Batch.step, []

    def step(self):
        calls.append(1)
        if len(calls) == 9:
            raise CannotRunError("for this test")
        return real(self)

    monkeypatch.setattr(generation_batch.Batch, "step", step)
    fallen = lm.generate_until(answer_requests(DOCS), True)
    assert lm._loop_refused
    assert [(str(a), a.illusion) for a in fallen] == [(str(a), a.illusion) for a in expected]
