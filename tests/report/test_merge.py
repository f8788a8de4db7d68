"""Several folders of one model joined with `+`, and everything that keeps them apart."""

from pathlib import Path

import pytest
from probe_records import beams, samples, writes
from synthetic import Question, pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report import build_report
from lm_eval_illusion.report.comparability import check_comparable
from lm_eval_illusion.report.merge import read_merged, split_path


def probes_of(bits="bbnn", only="n"):
    questions = [q for q, bit in zip(pattern(bits), bits, strict=True) if bit in only]
    for question in questions:
        question.probes = {"beam4": beams(False, True), "shown": writes(True)}
    return questions


def two(tmp_path, **options):
    pruned = {"pruning": receipt()}
    pair = write_run(tmp_path / "pair", pattern("bbnn"), **pruned)
    return pair, write_run(tmp_path / "probes", probes_of(), conditions=(), **{**pruned, **options})


def joined(*paths):
    return Path("+".join(map(str, paths)))


def test_one_run_of_two_folders(tmp_path):
    pair, probes = two(tmp_path)
    run = read_merged(joined(pair, probes))
    assert {name: len(records) for name, records in run.halves.items()} == {
        "mc": 4,
        "mc_far": 4,
        "gen": 4,
        "beam4": 2,
        "shown": 2,
    }
    assert run.path == joined(pair, probes)
    assert set(run.tasks) == {f"tydiqa_{name}_en" for name in run.halves}
    assert run.facts.receipt["weights_sha256"] == "ef" * 32
    assert len(run.documents) == 4


def test_the_order_of_folders_changes_no_figure(tmp_path):
    dense = write_run(tmp_path / "dense", pattern("bbbn"))
    pair, probes = two(tmp_path)
    one, other = (build_report([dense, joined(*paths)]) for paths in ((pair, probes), (probes, pair)))
    assert one.file.comparisons == other.file.comparisons
    assert one.items == other.items


def test_failures_probed_in_parts(tmp_path):
    pair, probes = two(tmp_path)
    more = write_run(tmp_path / "more", probes_of(only="b"), conditions=(), pruning=receipt())
    run = read_merged(joined(pair, probes, more))
    assert len(run.halves["beam4"]) == 4
    assert run.tasks["tydiqa_beam4_en"].records == 4


def test_a_path_that_exists_is_taken_as_it_stands(tmp_path):
    (tmp_path / "a+b").mkdir()
    (tmp_path / "c").mkdir()
    assert split_path(tmp_path / "a+b") == [tmp_path / "a+b"]
    assert split_path(joined(tmp_path / "a+b", tmp_path / "c")) == [tmp_path / "a+b", tmp_path / "c"]
    assert split_path(joined(tmp_path / "c", tmp_path / "a+b")) == [tmp_path / "c", tmp_path / "a+b"]
    assert split_path(tmp_path / "nowhere") == [tmp_path / "nowhere"]


def test_a_missing_part_is_named(tmp_path):
    pair, _ = two(tmp_path)
    with pytest.raises(IllusionError, match=r"no run folder at .*gone; expected"):
        read_merged(joined(pair, tmp_path / "gone"))
    for text in (f"{pair}+", f"+{pair}", f"{pair}++{pair}"):
        with pytest.raises(IllusionError, match=r"a \+ with nothing beside it, expected a run folder on either side"):
            split_path(Path(text))


DIFFERENT = [
    ({"pruning": {**receipt(), "weights_sha256": "aa" * 32}}, r"weights_sha256 differs: (ef)+ and (aa)+"),
    ({"pruning": None}, r"weights_sha256 differs: (ef)+ and None"),
    ({"num_fewshot": 2}, r"--num_fewshot differs: \[1\] and \[2\]"),
    ({"results": {"chat_template": "x", "chat_template_sha": "ff"}}, r"the chat template differs: None and ff"),
    ({"results": {"system_instruction": "Be brief."}}, r"the system instruction differs: None and Be brief"),
    ({"results": {"fewshot_as_multiturn": False}}, r"--fewshot_as_multiturn differs: True and False"),
    ({"config": {"gen_kwargs": {"top_k": 1}}}, r"--gen_kwargs differs: None and \{'top_k': 1\}"),
    ({"config": {"model_args": {"pretrained": "other"}}}, r"the model's pretrained differs: org/model and other"),
]


@pytest.mark.parametrize(("options", "message"), DIFFERENT)
def test_folders_of_different_models_are_refused(tmp_path, options, message):
    pair, probes = two(tmp_path, **options)
    with pytest.raises(IllusionError, match=rf"joined as one model, but {message}.*joined with \+: run the probes"):
        read_merged(joined(pair, probes))


def test_facts_are_compared_where_both_tell_them(tmp_path):
    folders = {
        dtype: write_run(tmp_path / name, probes_of(only=only), conditions=(), model={"dtype": dtype})
        for dtype, name, only in (("float16", "a", "b"), ("bfloat16", "b", "n"), (None, "c", "n"))
    }
    with pytest.raises(IllusionError, match=r"the model's dtype differs: float16 and bfloat16"):
        read_merged(joined(folders["float16"], folders["bfloat16"]))
    assert read_merged(joined(folders["float16"], folders[None])).facts.identity["dtype"] == "float16"


def test_an_item_asked_twice_is_refused(tmp_path):
    pair, probes = two(tmp_path)
    again = write_run(tmp_path / "again", probes_of(), conditions=(), pruning=receipt())
    with pytest.raises(IllusionError, match=r"item tydiqa/en/0002 \(and 1 more\) was asked under beam4 in .*again"):
        read_merged(joined(pair, probes, again))


def test_another_version_of_a_task_is_refused(tmp_path):
    pair, probes = two(tmp_path)
    more = write_run(tmp_path / "more", probes_of(only="b"), conditions=(), pruning=receipt(), version="2.0")
    with pytest.raises(IllusionError, match=r"task tydiqa_beam4_en of .*more has version 2.0.*but version 1.0"):
        read_merged(joined(pair, probes, more))


def test_another_device_is_kept_and_noted(tmp_path):
    dense = write_run(tmp_path / "dense", pattern("bbbb"), model={"device": "cpu"})
    pair = write_run(tmp_path / "pair", pattern("bbnn"), pruning=receipt(), model={"device": "cpu"})
    probes = write_run(tmp_path / "p", probes_of(), conditions=(), pruning=receipt(), model={"device": "cuda:0"})
    report = build_report([dense, joined(pair, probes)])
    assert report.file.runs[1].identity["device"] == "cpu+cuda"
    assert any("device differs: cpu in dense, cpu+cuda in wanda 0.5" in note.text for note in report.file.notes)


def test_prompts_of_the_pair_are_shared_across_folders(tmp_path):
    dense = write_run(tmp_path / "dense", pattern("bbbb"))
    pair, probes = two(tmp_path, prompt_prefix="Hm. ")
    with pytest.raises(IllusionError, match=r"item tydiqa/en/0002 saw different prompts in tydiqa_beam4_en and"):
        build_report([dense, joined(pair, probes)])


def test_probes_alone_are_no_pair(tmp_path):
    dense = write_run(tmp_path / "dense", pattern("bbbb"))
    with pytest.raises(IllusionError, match=r"different tasks in .*only in .*dense: tydiqa_gen_en"):
        build_report([dense, two(tmp_path)[1]])


def test_samples_of_other_settings_are_refused(tmp_path):
    """Temperature and the like stand in the document of the item."""
    runs = []
    for name in ("a", "b"):
        questions = [Question(0, probes={"sample": samples(True, False)})]
        questions[0].question = f"Question of {name}?"
        runs.append(read_merged(write_run(tmp_path / name, questions)))
    with pytest.raises(IllusionError, match=r"task tydiqa_gen_en, item tydiqa/en/0000: the document differs"):
        check_comparable(*runs)
