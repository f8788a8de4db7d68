"""Tasks that are none of ours, from local data, through the harness itself: `pruned_hf` gives what stock `hf` gives."""

import json

import pytest
import torch
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from lm_eval_illusion.harness import scoring
from lm_eval_illusion.harness.model import PrunedHFLM
from tests import families
from tests.harness.conftest import choice_requests, paired_doc

TASKS = {
    "endings": """
output_type: multiple_choice
doc_to_text: "{{ctx}}"
doc_to_choice: "{{endings}}"
doc_to_target: label
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "letters": """
output_type: multiple_choice
doc_to_text: "{{ctx}}\\nA. {{endings[0]}}\\nB. {{endings[1]}}\\nC. {{endings[2]}}\\nAnswer:"
doc_to_choice: ["A", "B", "C"]
doc_to_target: label
metric_list: [{metric: acc}]
""",
    "last_word": """
output_type: loglikelihood
doc_to_text: "{{ctx}}"
doc_to_target: " {{endings[0]}}"
metric_list: [{metric: perplexity}, {metric: acc}]
""",
}
ROWS = [
    {
        "ctx": f"A man {verb} the {thing}. " * times + "Then he",
        "endings": ["goes home.", f"{verb} it again and again.", "sleeps"],
        "label": times % 3,
    }
    for times, (verb, thing) in enumerate(
        [("lifts", "box"), ("paints", "old wall"), ("sees", "sea"), ("eats", "pie")], 1
    )
]


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    data = folder / "rows.jsonl"
    data.write_text("\n".join(json.dumps(row) for row in ROWS))
    for name, asked in TASKS.items():
        source = f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\ntest_split: test"
        (folder / f"{name}.yaml").write_text(source + asked)
    return TaskManager(include_path=str(folder), include_defaults=False)


def evaluated(lm, manager):
    out = simple_evaluate(lm, tasks=["endings", "letters", "last_word"], task_manager=manager, bootstrap_iters=0)
    scores = {
        (task, sample["doc_id"], number): response
        for task, samples in out["samples"].items()
        for sample in samples
        for number, (response,) in enumerate(sample["resps"])
    }
    return out["results"], scores


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "t5"])
def test_endings_letters_and_last_words_are_scored_as_stock_does(tiny, manager, family):
    expected, stock_scores = evaluated(HFLM(pretrained=tiny(family), device="cpu", batch_size=1), manager)
    ours = PrunedHFLM(pretrained=tiny(family), device="cpu", batch_size="auto", method="none")
    got, scores = evaluated(ours, manager)
    assert ours._shared_prefix
    assert scores.keys() == stock_scores.keys()
    for key, (logprob, greedy) in scores.items():
        assert logprob == pytest.approx(stock_scores[key][0], abs=1e-3)
        assert greedy == stock_scores[key][1]
    for task, numbers in got.items():
        for name, value in numbers.items():
            if isinstance(value, float):
                assert value == pytest.approx(expected[task][name], rel=1e-3), (task, name)


def test_a_prompt_of_many_tasks_is_encoded_once(tiny, manager, monkeypatch):
    ours = PrunedHFLM(pretrained=tiny("llama"), device="cpu", batch_size=4, method="none")
    prefilled = []
    score = scoring.score

    def counting(model, prompts, **kwargs):
        prefilled.extend(prompt.context for prompt in prompts)
        return score(model, prompts, **kwargs)

    monkeypatch.setattr(scoring, "score", counting)
    evaluated(ours, manager)
    # `endings` and `last_word` ask after the same four prompts, `letters` after four of its own.
    assert len(prefilled) == len(set(prefilled)) == 8


def test_a_batch_that_does_not_fit_in_memory_is_scored_in_halves(tiny, monkeypatch, caplog):
    ours = PrunedHFLM(pretrained=tiny("llama"), device="cpu", batch_size=8, method="none")
    requests = choice_requests([paired_doc(n, "The river runs north. " * 3) for n in range(5)])
    whole = ours.loglikelihood(requests, True)
    score = scoring.score

    def small(model, prompts, **kwargs):
        if len(prompts) > 1:
            raise torch.OutOfMemoryError("too much")
        return score(model, prompts, **kwargs)

    monkeypatch.setattr(scoring, "score", small)
    assert [p[0] for p in ours.loglikelihood(requests, True)] == pytest.approx([p[0] for p in whole], abs=1e-5)
    assert "in two halves" in caplog.text

    def never(model, prompts, **kwargs):
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr(scoring, "score", never)
    with pytest.raises(torch.OutOfMemoryError):
        ours.loglikelihood(requests, True)


@pytest.mark.parametrize("family", ["llama", "gemma3", "t5"])
def test_a_model_spread_by_a_device_map_is_scored_the_same(tiny, family):
    requests = choice_requests([paired_doc(n, "The river runs north. " * (n + 1)) for n in range(3)])
    expected = PrunedHFLM(pretrained=tiny(family), device="cpu", method="none").loglikelihood(requests, True)
    spread = PrunedHFLM(pretrained=tiny(family), device="cpu", method="none", device_map={"": "cpu"})
    got = spread.loglikelihood(requests, True)
    assert spread._shared_prefix
    assert [p[0] for p in got] == pytest.approx([p[0] for p in expected], abs=1e-5)


def test_where_it_cannot_hold_stock_scores_and_one_line_says_so(tiny, caplog, monkeypatch):
    monkeypatch.setattr(scoring, "supports_shared_prefix", lambda model: False)
    ours = PrunedHFLM(pretrained=tiny("llama"), device="cpu", method="none")
    assert [r.message for r in caplog.records if "no shared prefill" in r.message] == [
        "LlamaForCausalLM: no shared prefill, scoring as stock hf: its forward takes no logits_to_keep"
    ]
    requests = choice_requests([paired_doc(0)])
    stock = HFLM(pretrained=tiny("llama"), device="cpu").loglikelihood(requests, True)
    assert [p[0] for p in ours.loglikelihood(requests, True)] == pytest.approx([p[0] for p in stock], abs=1e-5)


def test_bfloat16_scores_stay_nearer_the_float32_model_than_stock_s(tiny):
    """Stock takes the softmax of bfloat16 logits; ours reads float32 logits from the same hidden states."""
    requests = choice_requests([paired_doc(n, "The river runs north. " * (n + 1)) for n in range(6)])
    exact = [p[0] for p in HFLM(pretrained=tiny("llama"), device="cpu", dtype="float32").loglikelihood(requests, True)]
    stock = [p[0] for p in HFLM(pretrained=tiny("llama"), device="cpu", dtype="bfloat16").loglikelihood(requests, True)]
    ours = PrunedHFLM(pretrained=tiny("llama"), device="cpu", dtype="bfloat16", method="none")
    got = [p[0] for p in ours.loglikelihood(requests, True)]
    ours_off = sum(abs(a - b) for a, b in zip(got, exact, strict=True))
    stock_off = sum(abs(a - b) for a, b in zip(stock, exact, strict=True))
    assert ours_off < stock_off


def test_the_record_says_how_the_gold_fares_where_options_part(tiny):
    ours = PrunedHFLM(pretrained=tiny("gemma3"), device="cpu", method="none")
    doc = paired_doc(0)
    requests = choice_requests([doc])
    scored = ours.loglikelihood(requests, True)
    for request, pair in zip(requests, scored, strict=True):
        gold = request.args[1] == " 210 kilometres"
        assert (pair.illusion["parting"] is None) == (gold or not request.args[0])
    told = scored[1].illusion["parting"]
    assert set(told) == {"token", "gold_rank", "margin"}
    assert 1 <= told["gold_rank"] <= families.build("gemma3").config.get_text_config().vocab_size


def test_an_option_asked_twice_is_scored_once(tiny, monkeypatch):
    ours = PrunedHFLM(pretrained=tiny("llama"), device="cpu", method="none")
    seen = []
    score = scoring.score

    def counting(model, prompts, **kwargs):
        seen.extend((prompt.context, continuation) for prompt in prompts for continuation in prompt.continuations)
        return score(model, prompts, **kwargs)

    monkeypatch.setattr(scoring, "score", counting)
    requests = choice_requests([paired_doc(0)])
    scored = ours.loglikelihood(requests, True)
    assert len(seen) == len(set(seen)) == 14  # 16 requests; the gold is asked near and far, with and without the prompt
    by_text = {}
    for request, pair in zip(requests, scored, strict=True):
        assert by_text.setdefault(request.args, tuple(pair)) == tuple(pair)


def test_a_dense_model_is_counted_and_hashed_only_when_its_receipt_is_asked_for(tiny, monkeypatch):
    from lm_eval_illusion.harness import model

    made = []
    prune = model.prune
    monkeypatch.setattr(model, "prune", lambda *args, **kwargs: made.append(1) or prune(*args, **kwargs))
    dense = PrunedHFLM(pretrained=tiny("llama"), device="cpu", method="none")
    assert not made
    assert dense.get_model_info()["illusion"]["receipt"]["sparsity_asked"] == 0
    assert len(dense.receipt["weights_sha256"]) == 64
    assert len(made) == 1
    PrunedHFLM(pretrained=tiny("llama"), device="cpu", method="magnitude")
    assert len(made) == 2
