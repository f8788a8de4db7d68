"""Reading the harness's files, and every way in which they can be wrong."""

import json

import pytest
from synthetic import STAMP, Question, pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.coherence import check_coherent
from lm_eval_illusion.report.comparability import check_comparable
from lm_eval_illusion.report.records import find_results, read_run


def samples(run, task="tydiqa_mc_en"):
    return run / "org__model" / f"samples_{task}_{STAMP}.jsonl"


def edit(path, change, line=0):
    lines = path.read_text(encoding="utf-8").split("\n")
    record = json.loads(lines[line])
    change(record)
    lines[line] = json.dumps(record, ensure_ascii=False)
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")


def test_reads_a_run(tmp_path):
    run = read_run(write_run(tmp_path, pattern("brgn"), pruning=receipt()))
    assert set(run.halves) == {"mc", "mc_far", "gen"}
    assert {len(records) for records in run.halves.values()} == {4}
    assert run.facts.receipt["sparsity_reached"] == 0.5
    assert run.facts.model_args == "pretrained=org/model"
    assert run.tasks["tydiqa_gen_en"].num_fewshot == 1
    assert run.documents["tydiqa/en/0001"].question == "Question 1?"
    half = run.halves["mc"]["tydiqa/en/0001"].half
    assert (half.choices[half.gold], half.picked, half.right["chars"]) == ("Paris", 0, True)


def test_lines_end_at_newlines_only(tmp_path):
    answer = "Paris\u2028line\u2029two\u0085three\x0bfour"
    run = read_run(write_run(tmp_path, [Question(0, answer=answer), Question(1)]))
    assert run.halves["gen"]["tydiqa/en/0000"].half.answer == answer
    assert len(run.halves["gen"]) == 2


def test_nan_and_infinity_are_read(tmp_path):
    run = write_run(tmp_path, [Question(0, valid=False, invalid_reason="non_finite"), Question(1)])
    assert "NaN" in samples(run).read_text()
    edit(samples(run), lambda r: r["illusion"].__setitem__("logprobs", [float("-inf"), 1.0, 2.0, None]), line=1)
    halves = read_run(run).halves["mc"]
    assert not halves["tydiqa/en/0000"].half.valid
    assert halves["tydiqa/en/0001"].half.logprobs == [float("-inf"), 1.0, 2.0, None]


def test_results_file_itself_may_be_named(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    file = run / "org__model" / f"results_{STAMP}.json"
    assert find_results(file) == file
    with pytest.raises(IllusionError, match=r"is not a results_\*.json file; give a run folder"):
        find_results(samples(run))


def test_missing_folder(tmp_path):
    with pytest.raises(IllusionError, match=r"no run folder at .*nowhere; expected what `lm_eval --output_path"):
        read_run(tmp_path / "nowhere")


def test_folder_without_results(tmp_path):
    with pytest.raises(IllusionError, match=r"no results_\*.json under .*: the run did not end"):
        read_run(tmp_path)


def test_two_runs_in_a_folder(tmp_path):
    write_run(tmp_path, pattern("bb"))
    write_run(tmp_path, pattern("bb"), stamp="2026-12-01T10-00-00.000000")
    with pytest.raises(IllusionError, match=r"2 runs under .*give each run its own --output_path, or name the results"):
        read_run(tmp_path)
    assert read_run(tmp_path / "org__model" / f"results_{STAMP}.json").tasks


def test_missing_samples_file(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    samples(run, "tydiqa_gen_en").unlink()
    with pytest.raises(IllusionError, match=r"names task tydiqa_gen_en, but samples_tydiqa_gen_en_.* is missing"):
        read_run(run)


def test_results_without_tasks(tmp_path):
    run = write_run(tmp_path, pattern("b"))
    (run / "org__model" / f"results_{STAMP}.json").write_text("{}")
    with pytest.raises(IllusionError, match="lists no tasks"):
        read_run(run)


def test_damaged_results_file(tmp_path):
    run = write_run(tmp_path, pattern("b"))
    (run / "org__model" / f"results_{STAMP}.json").write_text('{"configs": ')
    with pytest.raises(IllusionError, match=r"results_.*\.json is not JSON"):
        read_run(run)


def test_truncated_line_is_named(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    path = samples(run)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(IllusionError, match=r"samples_tydiqa_mc_en_.*jsonl:2 is not JSON"):
        read_run(run)


def test_line_that_is_no_object(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    samples(run).write_text("[1]\n")
    with pytest.raises(IllusionError, match=r"jsonl:1 holds a JSON list, expected an object"):
        read_run(run)


def test_lost_lines_are_noticed(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    path = samples(run)
    path.write_text(path.read_text().split("\n")[0] + "\n")
    with pytest.raises(IllusionError, match=r"holds 1 records where the results file counts 2 items of tydiqa_mc_en"):
        read_run(run)


def test_empty_samples_file(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    samples(run).write_text("")
    with pytest.raises(IllusionError, match="holds no records"):
        read_run(run)


def test_foreign_task(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    edit(samples(run), lambda r: r.pop("illusion"))
    with pytest.raises(IllusionError, match=r"jsonl:1: task tydiqa_mc_en carries no `illusion` metric"):
        read_run(run)


def test_other_schema(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    edit(samples(run), lambda r: r["illusion"].__setitem__("schema", 9))
    with pytest.raises(IllusionError, match=r"`illusion` record of schema 9, expected 1"):
        read_run(run)


def test_unknown_condition(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    edit(samples(run), lambda r: r["illusion"].__setitem__("condition", "beam"))
    with pytest.raises(IllusionError, match=r"unknown condition 'beam' in task tydiqa_mc_en, known: mc, mc_far, gen"):
        read_run(run)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("valid", "perhaps", r"jsonl:1: damaged `illusion` record at mc.valid"),
        ("gold", 7, r"gold 7 does not index 4 choices"),
        ("right", {}, r"needs right.chars"),
        ("item_id", "", r"at mc.item_id"),
    ],
)
def test_damaged_record(tmp_path, field, value, message):
    run = write_run(tmp_path, pattern("bb"))
    edit(samples(run), lambda r: r["illusion"].__setitem__(field, value))
    with pytest.raises(IllusionError, match=message):
        read_run(run)


def test_generation_without_verdict(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    edit(samples(run, "tydiqa_gen_en"), lambda r: r["illusion"].__setitem__("right", {}))
    with pytest.raises(IllusionError, match=r"needs right.standard"):
        read_run(run)


def test_duplicate_item(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    edit(samples(run), lambda r: r["illusion"].__setitem__("item_id", "tydiqa/en/0001"))
    with pytest.raises(IllusionError, match=r"jsonl:2: item tydiqa/en/0001 occurs twice under mc"):
        read_run(run)


def test_record_without_hashes(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    edit(samples(run), lambda r: r.pop("prompt_hash"))
    with pytest.raises(IllusionError, match=r"item tydiqa/en/0000 has no doc_hash or prompt_hash"):
        read_run(run)


def test_halves_with_different_prompts(tmp_path):
    run = write_run(tmp_path, pattern("bb"))
    edit(samples(run, "tydiqa_gen_en"), lambda r: r.__setitem__("prompt_hash", "0" * 64))
    with pytest.raises(
        IllusionError, match=r"item tydiqa/en/0000 saw different prompts in tydiqa_gen_en and tydiqa_mc_en"
    ):
        check_coherent(read_run(run))


DIFFERENT = [
    (
        {"conditions": ("mc", "gen")},
        r"different tasks in .*only in .*a: tydiqa_mc_far_en\); run both with the same --tasks",
    ),
    ({"version": "2.0"}, r"task tydiqa_gen_en has version 1.0 in .*a and 2.0 in .*b"),
    ({"num_fewshot": 0}, r"had 1 demonstrations in .* and 0 in .*same --num_fewshot"),
    ({"results": {"chat_template": "x", "chat_template_sha": "ff" * 32}}, r"chat template differs: none in .*, ffff"),
    ({"results": {"system_instruction": "Be brief."}}, r"system instruction differs: none in .*, Be brief\. in"),
    ({"results": {"fewshot_as_multiturn": False}}, r"few-shot layout differs: True in .*, False in"),
    ({"config": {"gen_kwargs": {"temperature": 1.0}}}, r"generation settings differs: none in .*temperature"),
    (
        {"config": {"illusion": {"receipt": None, "enable_thinking": True}}},
        r"enable_thinking differs: False in .*, True in",
    ),
    ({"prompt_prefix": "Hm. "}, r"task tydiqa_gen_en, item tydiqa/en/0000: the prompt differs .*prompt_hash"),
]


def results_of(run):
    return run / "org__model" / f"results_{STAMP}.json"


def test_generation_arguments_in_effect_are_compared(tmp_path):
    """Those of the task itself, which `--gen_kwargs` changes and another version of the task may."""
    folders = [write_run(tmp_path / name, pattern("brn")) for name in "ab"]
    first = read_run(folders[0])
    results = json.loads(results_of(folders[1]).read_text())
    kwargs = results["configs"]["tydiqa_gen_en"]["generation_kwargs"]
    results["configs"]["tydiqa_gen_en"]["generation_kwargs"] = dict(reversed(kwargs.items()))
    results_of(folders[1]).write_text(json.dumps(results))
    check_comparable(first, read_run(folders[1]))
    kwargs["max_gen_toks"] = 8
    results["configs"]["tydiqa_gen_en"]["generation_kwargs"] = kwargs
    results_of(folders[1]).write_text(json.dumps(results))
    with pytest.raises(
        IllusionError, match=r'task tydiqa_gen_en generated with .*"max_gen_toks": 48.*"max_gen_toks": 8,.*--gen_kwargs'
    ):
        check_comparable(first, read_run(folders[1]))


@pytest.mark.parametrize("args", [{"pretrained": "./pruned", "dtype": "auto"}, "pretrained=./pruned, dtype=auto"])
def test_what_a_plain_run_loaded(tmp_path, args):
    config = {
        "model": "hf",
        "model_args": args,
        "illusion": None,
        "model_dtype": "torch.float16",
        "model_num_parameters": 12,
        "model_revision": "main",
        "device": "cuda:0",
    }
    told = {"max_length": 512, "pretty_env_info": "PyTorch version: 2.9.0+cpu\nIs debug build: False"}
    identity = read_run(write_run(tmp_path, pattern("b"), config=config, results=told)).facts.identity
    assert {name: value for name, value in identity.items() if value is not None} == {
        "pretrained": "./pruned",
        "revision": "main",
        "parameters": "12",
        "dtype": "float16",
        "max_length": "512",
        "torch": "2.9.0+cpu",
    }


def test_a_number_of_the_device_is_no_other_device(tmp_path):
    run = read_run(write_run(tmp_path, pattern("b"), model={"device": "cuda:1", "dtype": "torch.bfloat16"}))
    assert (run.facts.identity["device"], run.facts.identity["dtype"]) == ("cuda", "bfloat16")


@pytest.mark.parametrize(("options", "message"), DIFFERENT)
def test_runs_that_differ_are_refused(tmp_path, options, message):
    first = read_run(write_run(tmp_path / "a", pattern("brn")))
    other = read_run(write_run(tmp_path / "b", pattern("brn"), **options))
    with pytest.raises(IllusionError, match=message):
        check_comparable(first, other)


def test_other_documents_are_refused(tmp_path):
    first = read_run(write_run(tmp_path / "a", pattern("brn")))
    other = read_run(write_run(tmp_path / "b", pattern("brn", passage="Another passage.")))
    with pytest.raises(IllusionError, match=r"item tydiqa/en/0000: the document differs .*doc_hash"):
        check_comparable(first, other)


def test_nan_everywhere_is_refused(tmp_path):
    first = read_run(write_run(tmp_path / "a", pattern("brn")))
    broken = pattern("brn", valid=False, invalid_reason="non_finite")
    other = read_run(write_run(tmp_path / "b", broken))
    with pytest.raises(IllusionError, match=r"all 3 gen scores are NaN \(first task tydiqa_gen_en\)"):
        check_comparable(first, other)


def test_equal_settings_are_accepted(tmp_path):
    first = read_run(write_run(tmp_path / "a", pattern("brn")))
    check_comparable(first, read_run(write_run(tmp_path / "b", pattern("nnn"), pruning=receipt())))


def test_messages_are_one_line():
    assert str(IllusionError("a\n  b")) == "a b"


@pytest.mark.parametrize("key", ["configs", "versions", "n-shot", "config"])
def test_results_of_other_shape(tmp_path, key):
    run = write_run(tmp_path, pattern("b"), results={key: ["x"]})
    with pytest.raises(IllusionError, match=rf"results_.*json: {key} is a list, expected an object"):
        read_run(run)
