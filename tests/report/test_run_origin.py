"""Runs of checkpoints from anywhere: what each backend's results file tells of them, and what the report says."""

from pathlib import Path

import pytest
from synthetic import pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report import build_report
from lm_eval_illusion.report.merge import read_merged
from lm_eval_illusion.report.records import read_run

VLLM_ARGS = {"pretrained": "./packed", "dtype": "auto", "quantization": "gptq", "revision": "v2", "max_model_len": 4096}
HF = {"model_num_parameters": 5, "model_dtype": "torch.float32", "model_revision": "main", "model_sha": ""}


def backend(folder, model, args, bits="br", told=None, **options):
    """Write a run as `lm_eval --model hf` or `vllm` does: `get_model_info` is HFLM's alone, and nothing of ours."""
    config = {"model": model, "model_args": args, "illusion": None, "device": "cuda:0", **(told or {})}
    tokenizer = {"tokenizer_pad_token": ["<pad>", "0"], "eot_token_id": 2, "max_length": 4096}
    return write_run(folder, pattern(bits, fits=None, rank=None), config=config, results=tokenizer, **options)


def dense(folder, bits="bb", **model):
    told = {"pretrained": "org/model", "revision": "main", "model_type": "llama", "class": "LlamaForCausalLM", **model}
    config = {"model_num_parameters": 5}
    return write_run(folder, pattern(bits), model=told, pruning=receipt("none", 0.0), config=config)


def ours(folder, method="none", bits="br", parameters=5, **model):
    """Write a run of `pruned_hf` on another checkpoint."""
    told = {"pretrained": "./other", "revision": "main", "model_type": "llama", "class": "LlamaForCausalLM", **model}
    pruning = receipt(method, 0.0 if method == "none" else 0.5)
    return write_run(folder, pattern(bits), model=told, pruning=pruning, config={"model_num_parameters": parameters})


def texts(report, level):
    return [note.text for note in report.file.notes if note.level == level]


def known(identity):
    return {name: value for name, value in identity.items() if value is not None}


# ------------------------------------------------------------------ what results files tell
def test_vllm_tells_what_it_was_asked_for(tmp_path):
    facts = read_run(backend(tmp_path, "vllm", VLLM_ARGS)).facts
    assert known(facts.identity) == {
        "pretrained": "./packed",
        "revision": "v2",
        "quantization": "quantization=gptq",
        "max_length": "4096",
    }
    assert facts.receipt is None


def test_arguments_as_text_tell_the_same(tmp_path):
    text = ",".join(f"{name}={value}" for name, value in VLLM_ARGS.items())
    one = read_run(backend(tmp_path / "a", "vllm", VLLM_ARGS)).facts.identity
    assert read_run(backend(tmp_path / "b", "vllm", text)).facts.identity == one


def test_a_dtype_that_was_asked_for_is_told(tmp_path):
    args = {"pretrained": "./packed", "dtype": "float16"}
    assert read_run(backend(tmp_path, "vllm", args)).facts.identity["dtype"] == "float16"


@pytest.mark.parametrize(
    ("args", "name", "told"),
    [
        ({"load_in_4bit": True}, "quantization", "load_in_4bit=True"),
        ({"load_in_8bit": False}, "quantization", None),
        ({"gguf_file": "m.gguf"}, "quantization", "gguf_file=m.gguf"),
        ({"autogptq": True, "gptqmodel": "False"}, "quantization", "autogptq=True"),
        ({"peft": "./lora"}, "adapter", "peft=./lora"),
        ({"lora_local_path": "./lora"}, "adapter", "lora_local_path=./lora"),
        ({}, "quantization", None),
    ],
)
def test_packing_and_adapters_that_hf_was_asked_for(tmp_path, args, name, told):
    run = read_run(backend(tmp_path, "hf", {"pretrained": "org/model", **args}, told=HF))
    assert run.facts.identity.get(name) == told
    assert known(run.facts.identity)["parameters"] == "5"


def test_a_backend_that_says_model_instead_of_pretrained(tmp_path):
    run = read_run(backend(tmp_path, "local-completions", {"model": "served", "base_url": "http://localhost"}))
    assert run.facts.identity["pretrained"] == "served"


def test_pruned_hf_tells_the_packing_and_the_base(tmp_path):
    told = {"quantization": "GPTQ, bits 4", "base": "org/model", "base_revision": None}
    identity = read_run(ours(tmp_path, **told)).facts.identity
    assert (identity["quantization"], identity["base"]) == ("GPTQ, bits 4", "org/model")
    assert "base_revision" not in identity
    assert "adapter" not in identity


# ------------------------------------------------------------------ joined as one model
def test_runs_of_one_packed_checkpoint_are_joined(tmp_path):
    backend(tmp_path / "a", "vllm", VLLM_ARGS, conditions=("mc", "mc_far"))
    two = backend(tmp_path / "b", "vllm", VLLM_ARGS, conditions=("gen",))
    run = read_merged(Path(f"{tmp_path / 'a'}+{two}"))
    assert run.halves.keys() == {"mc", "mc_far", "gen"}
    assert run.facts.identity["quantization"] == "quantization=gptq"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quantization": None}, r"the model's quantization differs: quantization=gptq and None"),
        ({"quantization": "awq"}, r"the model's quantization differs: quantization=gptq and quantization=awq"),
        ({"lora_local_path": "./lora"}, r"the model's adapter differs: None and lora_local_path=./lora"),
        ({"pretrained": "./else"}, r"the model's pretrained differs: ./packed and ./else"),
    ],
)
def test_runs_of_differently_packed_checkpoints_are_not_one_model(tmp_path, change, words):
    backend(tmp_path / "a", "vllm", VLLM_ARGS, conditions=("mc", "mc_far"))
    two = backend(tmp_path / "b", "vllm", {**VLLM_ARGS, **change}, conditions=("gen",))
    with pytest.raises(IllusionError, match=words):
        read_merged(Path(f"{tmp_path / 'a'}+{two}"))


# ------------------------------------------------------------------ compared with the dense run
def test_a_packed_checkpoint_is_compared_and_its_fewer_parameters_are_no_alarm(tmp_path):
    told = {**HF, "model_num_parameters": 2}
    one, two = dense(tmp_path / "dense"), backend(tmp_path / "packed", "hf", {"pretrained": "./packed"}, told=told)
    report = build_report([one, two])
    assert texts(report, "alarm") == []
    (warned,) = [text for text in texts(report, "warning") if "parameters" in text]
    assert warned.startswith(
        "packed counts 2 parameters, dense 5: packed or removed weights count as fewer. If it is no"
    )
    assert report.file.comparisons[0].rows[0].joined == 2


def test_more_parameters_are_another_model(tmp_path):
    told = {**HF, "model_num_parameters": 7}
    two = backend(tmp_path / "b", "hf", {"pretrained": "./b"}, told=told)
    (alarm,) = texts(build_report([dense(tmp_path / "a"), two]), "alarm")
    assert alarm.startswith("b is another model than dense: parameters 7 against 5. Compare a pruned model")


def test_structures_that_a_receipt_removed_need_no_word(tmp_path):
    two = ours(tmp_path / "b", method="heads", pretrained="org/model", parameters=3)
    report = build_report([dense(tmp_path / "a"), two])
    assert [text for level in ("alarm", "warning") for text in texts(report, level) if "parameters" in text] == []


def test_vllm_is_compared_with_pruned_hf(tmp_path):
    report = build_report([dense(tmp_path / "dense"), backend(tmp_path / "served", "vllm", VLLM_ARGS)])
    assert texts(report, "alarm") == []
    assert report.file.runs[1].label == "served"
    assert report.file.runs[1].identity["quantization"] == "quantization=gptq"
    assert "Truncation unchecked in served: the backend does not say whether prompts fitted." in texts(
        report, "warning"
    )


def test_a_checkpoint_left_as_it_is_may_be_of_anywhere_and_a_note_says_so(tmp_path):
    report = build_report([dense(tmp_path / "a"), ours(tmp_path / "b")])
    assert report.file.runs[1].label == "b"
    assert any(
        text.startswith("b is the checkpoint ./other, left as it is: nothing tells what was done to it")
        for text in texts(report, "warning")
    )


def test_the_same_checkpoint_left_as_it_is_is_a_comparison_with_itself(tmp_path):
    report = build_report([dense(tmp_path / "a"), ours(tmp_path / "b", pretrained="org/model")])
    assert report.file.runs[1].label == "dense #2"
    assert "dense #2 was not pruned (method none): a comparison of a model with itself." in texts(report, "info")


def test_an_export_is_of_the_checkpoint_it_was_made_from(tmp_path):
    two = ours(tmp_path / "b", method="wanda", base="org/model", base_revision="main")
    report = build_report([dense(tmp_path / "a"), two])
    assert report.file.runs[1].label == "wanda 0.5"
    assert any("is the checkpoint ./other, exported from org/model" in text for text in texts(report, "info"))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"base": "org/else"}, r"the model's pretrained differs: org/model in .*, org/else in .*method=none, or with"),
        ({"base": "org/model", "base_revision": "v2"}, r"the model's revision differs: main in .*, v2 in "),
        ({}, r"the model's pretrained differs: org/model in .*, ./other in "),
    ],
)
def test_an_export_or_pruning_of_another_checkpoint_is_refused(tmp_path, model, words):
    two = ours(tmp_path / "b", method="wanda", **model)
    with pytest.raises(IllusionError, match=words):
        build_report([dense(tmp_path / "a"), two])


def test_another_architecture_is_refused_whatever_it_was_left_as(tmp_path):
    with pytest.raises(IllusionError, match=r"the model's model_type differs: llama in .*, gpt2 in "):
        build_report([dense(tmp_path / "a"), ours(tmp_path / "b", model_type="gpt2")])


# ------------------------------------------------------------------ which run comes first
def test_a_pruned_run_before_its_own_dense_model_is_refused(tmp_path):
    model = {"pretrained": "org/model"}
    pruned, plain = ours(tmp_path / "pruned", "wanda", **model), dense(tmp_path / "dense")
    with pytest.raises(IllusionError, match=r"pruned was pruned and stands first.*give the dense one first: .*dense "):
        build_report([pruned, plain])
    assert build_report([plain, pruned]).file.runs[1].label == "wanda 0.5"


def test_two_pruned_runs_may_be_compared(tmp_path):
    runs = [ours(tmp_path / method, method) for method in ("wanda", "ria")]
    assert any("is the reference, yet" in text for text in texts(build_report(runs), "warning"))


def test_a_method_of_the_users_own_is_named_without_its_module(tmp_path):
    runs = [dense(tmp_path / "dense")]
    model = {"pretrained": "org/model"}
    runs += [ours(tmp_path / "one", "my_pkg.my_module:Mine", **model)]
    assert [run.label for run in build_report(runs).file.runs] == ["dense", "Mine 0.5"]
    assert build_report(runs).file.runs[1].pruning.method == "my_pkg.my_module:Mine"
    runs += [ours(tmp_path / "two", "other:Mine", **model)]
    labels = [run.label for run in build_report(runs).file.runs]
    assert labels == ["dense", "Mine 0.5 method my_pkg.my_module:Mine", "Mine 0.5 method other:Mine"]
