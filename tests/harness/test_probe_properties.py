"""Any probe's output is the same for every batch size, company, order and number of processes, and with one seed."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lm_eval.api.instance import Instance

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import branch_tree, generation_cache
from lm_eval_illusion.harness.generation_cache import CannotRunError
from lm_eval_illusion.harness.model import PrunedHFLM
from lm_eval_illusion.pairs.reading import line_complete
from tests import families
from tests.harness.conftest import answer_requests, choice_requests, paired_doc
from tests.harness.probes import CONDITIONS, every_probe, nan_model, probe_doc, probe_request, pruned, told
from tests.harness.test_generation_batch import linear_attention

FAMILIES = ["llama", "qwen3_hybrid", "gemma3", "phi3", "gpt2", "opt", "t5"]


@pytest.fixture(scope="session")
def talker(tmp_path_factory):
    """Return a function: family -> a tiny model that says something (T5 of seed 0 says padding alone)."""
    root, made = tmp_path_factory.mktemp("probe_talkers"), {}

    def load(family: str) -> PrunedHFLM:
        if family not in made:
            made[family] = pruned(str(families.save_tiny(family, root / family, seed=1)))
        return made[family]

    return load


def outcome(text, illusion):
    """Text and words, which must be the same, and numbers, which may be rounded otherwise."""
    found, ranks = illusion.get("hypotheses"), illusion.get("ranks")
    words = [(one["text"], one["finish"]) for one in found] if found is not None else (ranks["ranks"], ranks["leave"])
    numbers = [one["logprob"] for one in found] if found is not None else ranks["logprobs"]
    return text, words, numbers


def assert_alike(found, expected):
    """The same words, and numbers but for rounding: other probes of a prompt share its forwards."""
    for answer, other in zip(found, expected, strict=True):
        (text, words, numbers), (*same, beside) = outcome(*answer), outcome(*other)
        assert [text, words] == same
        assert numbers == pytest.approx(beside, abs=1e-4)


# ------------------------------------------------------------------ company
@pytest.mark.parametrize("family", FAMILIES)
def test_batch_size_order_and_company_change_nothing(talker, family):
    lm = talker(family)
    asked = every_probe()
    lm.batch_size_per_gpu = 1
    expected = told(lm.generate_until(asked, True))
    assert len({text for text, _ in expected}) > 2
    lm.batch_size_per_gpu = 4
    assert told(lm.generate_until(asked[::-1], True))[::-1] == expected
    lm.batch_size_per_gpu = 16
    open_ones = answer_requests([paired_doc(number) for number in range(3)])
    assert told(lm.generate_until([*open_ones[:2], *asked, open_ones[2]], True))[2:-1] == expected
    for number in range(3):  # an item alone, under every probe
        assert told(lm.generate_until(asked[number::3], True)) == expected[number::3]
    for number in (0, 4, 8, 9):  # one of each probe alone
        assert_alike(told(lm.generate_until([asked[number]], True)), [expected[number]])


@settings(max_examples=8, deadline=None)
@given(chosen=st.lists(st.integers(0, 11), min_size=1, max_size=6), size=st.sampled_from([1, 4, 16, "auto"]))
def test_any_selection_at_any_batch_size_gives_what_the_full_run_gives(talker_once, chosen, size):
    lm, expected = talker_once
    lm.batch_size_per_gpu = size
    asked = every_probe()
    found = told(lm.generate_until([asked[number] for number in chosen], True))
    assert_alike(found, [expected[number] for number in chosen])


@pytest.fixture(scope="session")
def talker_once(talker):
    lm = talker("gemma3")
    return lm, told(lm.generate_until(every_probe(), True))


PROCESS = """
import json, sys
from lm_eval_illusion.harness.model import PrunedHFLM
from tests.harness.probes import every_probe, told
lm = PrunedHFLM(pretrained=sys.argv[1], device="cpu", method="none")
mine = every_probe()[lm.rank :: lm.world_size]
numbers = list(range(12))[lm.rank :: lm.world_size]
answers = told(lm.generate_until(mine, True))
with open(f"{sys.argv[2]}/{lm.rank}.json", "w") as file:
    json.dump(list(zip(numbers, answers)), file)
"""


def test_two_processes_give_what_one_gives(tiny, tmp_path):
    script = tmp_path / "probe.py"
    script.write_text(PROCESS)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    root = str(Path(__file__).parents[2])
    words = [sys.executable, *torchrun, str(script), tiny("llama"), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    one = dict(enumerate(told(pruned(tiny("llama")).generate_until(every_probe(), True))))
    two = dict(found for rank in range(2) for found in json.loads((tmp_path / f"{rank}.json").read_text()))
    assert sorted(two) == list(range(12))
    for number, (text, illusion) in one.items():
        found, expected = (outcome(*answer) for answer in (two[number], (text, illusion)))
        assert found[:2] == expected[:2]
        assert found[2] == pytest.approx(expected[2], abs=1e-4)  # processes round differently


# ------------------------------------------------------------------ seeds
def test_samples_reproduce_with_their_seed_and_differ_with_another(talker):
    lm = talker("llama")

    def samples(**changes):
        return told(lm.generate_until([probe_request(probe_doc(n, "sample", **changes)) for n in range(3)], True))

    base = samples()
    torch.manual_seed(99)
    assert samples() == base
    other = samples(sample_seed=1)
    assert all(a[1]["hypotheses"] != b[1]["hypotheses"] for a, b in zip(base, other, strict=True))
    fewer = samples(samples=3)
    for (_, more), (_, less) in zip(base, fewer, strict=True):
        assert [one["text"] for one in less["hypotheses"]] == [one["text"] for one in more["hypotheses"][:3]]
    assert [one["text"] for one in samples(temperature=3.0)[0][1]["hypotheses"]] != [
        one["text"] for one in base[0][1]["hypotheses"]
    ]


# ------------------------------------------------------------------ form
@pytest.mark.parametrize("family", FAMILIES)
def test_answers_have_the_agreed_form(talker, family):
    asked = every_probe()
    for request, answer in zip(asked, talker(family).generate_until(asked, True), strict=True):
        doc, illusion = request.doc, answer.illusion
        assert (illusion["fits"], illusion["non_finite"]) == (True, False)
        json.dumps(illusion)
        if doc["condition"] == "rank":
            assert list(illusion["ranks"]) == [
                *("ranks", "logprobs", "leave", "margin", "agreement"),
                *("gold_logprob", "greedy_logprob", "gold_tokens", "greedy_tokens"),
            ]
            continue
        found = illusion["hypotheses"]
        assert len(found) == doc["samples"] if "samples" in doc else 1 <= len(found) <= doc["beams"]
        answers = {one["text"].strip() for one in found}
        assert "samples" in doc or len(answers) == len(found)
        assert illusion["tied_steps"] is None
        assert (str(answer), illusion["finish"]) == (found[0]["text"], found[0]["finish"])
        assert all(math.isfinite(one["logprob"]) and one["finish"] in ("stop", "length") for one in found)


def test_every_hypothesis_ends_with_its_first_line(tiny, monkeypatch):
    lm = pruned(tiny("gpt2"))
    newline = lm.tokenizer.convert_tokens_to_ids("Ċ")
    real = type(lm.model).forward

    def forward(self, *args, **kwargs):
        out = real(self, *args, **kwargs)
        out.logits[..., newline] = out.logits.amax(-1) - 1.0
        return out

    forward.__signature__ = __import__("inspect").signature(real)
    monkeypatch.setattr(type(lm.model), "forward", forward)
    asked = [probe_request(probe_doc(n, condition, max_gen_toks=14)) for n in range(3) for condition in CONDITIONS]
    asked = [request for request in asked if request.doc["condition"] != "rank"]
    found = [one for answer in lm.generate_until(asked, True) for one in answer.illusion["hypotheses"]]
    stopped = [one["text"] for one in found if one["finish"] == "stop"]
    assert len(stopped) > 10
    assert all(line_complete(text) and not line_complete(text[:-1]) for text in stopped if text.endswith("\n"))
    assert not any(line_complete(one["text"]) for one in found if one["finish"] == "length")


def test_other_conditions_and_a_bent_checkpoint_change_nothing(talker):
    lm = talker("llama")
    expected = told(lm.generate_until(every_probe(), True))
    doc = {**paired_doc(0), "condition": "shown"}
    (shown,) = lm.generate_until(answer_requests([doc]), True)
    assert told([shown]) == told(lm.generate_until(answer_requests([paired_doc(0)]), True))
    config = lm.model.generation_config
    bent = {"repetition_penalty": 3.0, "suppress_tokens": [5, 6, 7], "min_new_tokens": 9, "do_sample": True, "top_k": 3}
    before = {name: getattr(config, name, None) for name in (*bent, "num_beams", "temperature")}
    try:
        for name, value in {**bent, "num_beams": 3, "temperature": 0.1}.items():
            setattr(config, name, value)
        assert told(lm.generate_until(every_probe(), True)) == expected
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def test_an_item_that_does_not_fit_is_not_asked(tiny):
    lm = pruned(tiny("llama"), max_length=40)
    for request, answer in zip(every_probe(), lm.generate_until(every_probe(), True), strict=True):
        illusion = answer.illusion
        assert (str(answer), illusion["fits"]) == ("", False)
        if request.doc["condition"] == "rank":
            assert set(illusion["ranks"].values()) == {None}
        else:
            assert illusion["hypotheses"] == []


def test_nan_makes_an_item_invalid_and_raises_nothing(tiny):
    lm = nan_model(pruned(tiny("llama")))
    assert [answer.illusion["non_finite"] for answer in lm.generate_until(every_probe(), True)] == [True] * 12


# ------------------------------------------------------------------ how a prompt is gone on from
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", [*FAMILIES, "qwen3", "mistral", "mixtral"])
def test_no_family_promised_leaves_the_quickest_way(tiny, family, attention, caplog):
    lm = pruned(tiny(family), attn_implementation=attention)
    lm.generate_until(every_probe(), True)
    assert lm._ways.left[0] == ("rows" if family == "t5" else "tree")
    assert "beams, samples and ranks" not in caplog.text


def test_a_model_that_is_led_astray_by_a_mask_is_given_rows(tiny, monkeypatch, caplog):
    expected = [outcome(*answer) for answer in told(pruned(tiny("llama")).generate_until(every_probe(), True))]
    monkeypatch.setattr(branch_tree.Tree, "_masks", lambda self: None)  # each token sees those of the others
    lm = pruned(tiny("llama"))
    with caplog.at_level("WARNING", logger="lm_eval.illusion"):
        found = [outcome(*answer) for answer in told(lm.generate_until(every_probe(), True))]
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    (line,) = [record.message for record in caplog.records if "beams, samples and ranks" in record.message]
    assert re.fullmatch(r"LlamaForCausalLM: a cache a row for .*: under a mask of its own it is [\d.]+ nats off", line)


# ------------------------------------------------------------------ models without rows
def test_a_cache_that_cannot_be_taken_apart_costs_one_line_of_log_and_no_number(tiny, monkeypatch, caplog):
    expected = [outcome(*answer) for answer in told(pruned(tiny("gemma3")).generate_until(every_probe(), True))]

    def refuse(cache):
        raise CannotRunError("its cache is a Foreign")

    monkeypatch.setattr(generation_cache, "require_rows", refuse)
    monkeypatch.setattr(branch_tree, "_windows", refuse)
    lm = pruned(tiny("gemma3"))
    with caplog.at_level("WARNING", logger="lm_eval.illusion"):
        found = [outcome(*answer) for answer in told(lm.generate_until(every_probe(), True))]
    for (text, words, numbers), (other_text, other_words, other_numbers) in zip(found, expected, strict=True):
        assert (text, words) == (other_text, other_words)
        assert numbers == pytest.approx(other_numbers, abs=1e-3)
    (line,) = [record.message for record in caplog.records if "no cache" in record.message]
    assert line.startswith("Gemma3ForCausalLM: no cache for beams, samples and ranks, each step runs the whole text: ")
    assert line.endswith("its cache is a Foreign")


def test_linear_attention_is_searched_by_running_the_whole_text(tmp_path, caplog):
    linear_attention().save_pretrained(tmp_path)
    families.tiny_tokenizer().save_pretrained(tmp_path)
    lm = pruned(str(tmp_path))
    doc = probe_doc(0, "beam4", max_gen_toks=5)
    (answer,) = lm.generate_until([probe_request(doc)], True)
    ids = lm.tok_batch_encode([doc["prompt"]])[0]
    with torch.no_grad():
        out = lm.model.generate(
            ids, attention_mask=torch.ones_like(ids), num_beams=4, num_return_sequences=4, max_new_tokens=5,
            do_sample=False, pad_token_id=0, use_cache=False,
        )  # fmt: skip
    texts = [lm.tokenizer.decode(row[ids.shape[1] :], skip_special_tokens=True) for row in out]
    assert not any("\n" in text for text in texts)
    assert [one["text"] for one in answer.illusion["hypotheses"]] == list(dict.fromkeys(texts))
    assert "Qwen3NextForCausalLM: no cache for beams, samples and ranks" in caplog.text


# ------------------------------------------------------------------ what cannot be asked
@pytest.mark.parametrize("changed", [{"repetition_penalty": 1.5}, {"do_sample": True}, {"num_beams": 3}])
@pytest.mark.parametrize("condition", sorted(CONDITIONS))
def test_arguments_that_a_probe_would_not_follow_are_refused(tiny, changed, condition):
    (name,) = changed
    with pytest.raises(
        IllusionError, match=rf"--gen_kwargs: hand/en/0 was given {name}=.*leave it out of --gen_kwargs"
    ):
        pruned(tiny("llama")).generate_until([probe_request(probe_doc(0, condition), **changed)], True)


def test_a_shared_cache_of_requests_is_refused(tiny, tmp_path):
    from lm_eval.api.model import CachingLM

    cached = CachingLM(pruned(tiny("llama")), str(tmp_path / "cache.db"))
    with pytest.raises(IllusionError, match=r"--use_cache: beam4 has the prompt.*ask beams.*without --use_cache"):
        cached.generate_until(every_probe())


def test_a_thought_that_the_prompt_opens_is_refused(tiny):
    with pytest.raises(IllusionError, match=r"think_end_token='e'.*leave out think_end_token"):
        pruned(tiny("llama"), think_end_token="e").generate_until(every_probe(), True)


def test_a_model_in_parts_over_processes_is_refused(tiny, monkeypatch):
    monkeypatch.setattr("lm_eval_illusion.harness.probing.is_sharded", lambda model: True)
    with pytest.raises(IllusionError, match=r"several processes hold parts of the model.*whole models, one a process"):
        pruned(tiny("llama")).generate_until(every_probe(), True)


# ------------------------------------------------------------------ the budget, and the gold of a choice
@pytest.mark.parametrize("column", ["choices_spans", "choices_graded", "choices_both"])
def test_the_budget_counts_every_option_of_the_row(tiny, column):
    long = "one option that is far longer than all of the others put together, " * 2
    plain, doc = paired_doc(0), {**paired_doc(0), "condition": "rank_spans", column: ["a", long]}
    lm = pruned(tiny("llama"))
    needed = len(lm.tok_encode(doc["prompt"])) + len(lm.tok_encode(" " + long, add_special_tokens=False))
    for window, fits in ((needed, True), (needed - 1, False)):
        lm = pruned(tiny("llama"), max_length=window)
        assert [lm._fit.fits(one, one["prompt"]) for one in (plain, doc, plain)] == [True, fits, True]


def test_the_budget_puts_the_languages_delimiter_before_an_option(tiny):
    lm = pruned(tiny("llama"))
    seen: list[str] = []
    lm._fit._count_option = lambda option: seen.append(option) or 1
    for language in ("en", "zh"):
        lm._fit.fits({**paired_doc(0), "item_id": language, "language": language}, "x")
    assert " north" in seen
    assert "north" in seen


@pytest.mark.parametrize(("language", "delimiter"), [("en", " "), ("zh", ""), ("ja", ""), ("en", ""), ("zh", " ")])
def test_parting_is_read_whatever_stands_before_the_options(tiny, language, delimiter):
    doc = {**paired_doc(0), "language": language}
    requests = [
        Instance("loglikelihood", doc, (doc["prompt"], delimiter + choice), n, metadata=("x", 0, 1))
        for n, choice in enumerate(doc["choices_near"])
    ]
    scored = pruned(tiny("llama")).loglikelihood(requests, True)
    assert [pair.illusion["parting"] is None for pair in scored] == [True, False, False, False]


def test_a_row_with_a_condition_is_scored_like_the_pairs(tiny):
    lm = pruned(tiny("llama"))
    base = choice_requests([paired_doc(0)])
    probe = choice_requests([{**paired_doc(0), "condition": "mc_graded"}])
    assert [tuple(pair) for pair in lm.loglikelihood(probe, True)] == [
        tuple(pair) for pair in lm.loglikelihood(base, True)
    ]
