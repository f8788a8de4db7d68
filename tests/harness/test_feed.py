"""What finished runs hand on to a second one, and which tasks are left to ask."""

import hashlib
import json

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import feed
from lm_eval_illusion.harness.arguments import read_arguments
from lm_eval_illusion.harness.askable import check_answers, check_model, with_feed
from lm_eval_illusion.harness.feed import Feeding
from lm_eval_illusion.harness.names import PairedTask
from lm_eval_illusion.pairs.fed import read_fed
from tests.harness.fed_runs import record, write_run


def task(name: str) -> PairedTask:
    dataset, condition, language = name.split(":")
    return PairedTask(f"{dataset}_{condition}_{language}", dataset, condition, language)


@pytest.fixture
def runs(tmp_path):
    """Two runs of one model dense and pruned: the folders of both."""
    dense = write_run(
        tmp_path / "dense",
        record("tydiqa/sw/1", "gen", "Paris", right=True),
        record("tydiqa/sw/2", "gen", "", right=False),
        record("tydiqa/te/3", "gen", "Paris", right=True),
        record("tydiqa/te/4", "gen", "Rome", right=False, valid=False),
        record("tydiqa/sw/1", "mc", "Paris", right=True),
        record("tydiqa/sw/2", "mc", None, right=False),
    )
    pruned = write_run(
        tmp_path / "pruned",
        record("tydiqa/sw/1", "gen", "Rom\u2028e", right=False),
        record("tydiqa/sw/2", "gen", "Paris", right=True),
        record("tydiqa/te/3", "gen", "Paris", right=True),
    )
    return dense, pruned


def test_failures_of_any_run_are_asked_and_invalid_items_are_none(runs):
    dense, pruned = runs
    assert feed.gather(Feeding(failures=(dense,))).items == ("tydiqa/sw/2",)
    both = feed.gather(Feeding(failures=(dense, pruned)))
    assert both.items == ("tydiqa/sw/1", "tydiqa/sw/2")
    assert both.answers is None
    assert [name for name, _ in both.sources] == ["results_T.json", "results_T.json"]


def test_answers_are_texts_written_and_options_picked(runs):
    told = feed.gather(Feeding(answers=runs[0]))
    assert told.items is None
    assert told.answers == {
        "tydiqa/sw/1": {"gen": "Paris", "mc": "Paris"},
        "tydiqa/sw/2": {"gen": ""},  # it said nothing; its choice was a tie
        "tydiqa/te/3": {"gen": "Paris"},
    }


def test_the_first_round_is_fed_to_the_second(tmp_path):
    folder = write_run(
        tmp_path / "r", record("x/en/1", "revise1_gen", "b", right=False), record("x/en/1", "revise1_mc", "Rome", False)
    )
    assert feed.gather(Feeding(answers=folder)).answers == {"x/en/1": {"revise1_gen": "b", "revise1_mc": "Rome"}}


def test_the_file_is_what_the_tasks_read(runs, tmp_path):
    told = feed.gather(Feeding(answers=runs[1], failures=runs))
    path, digest = feed.write(told, tmp_path / "out")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert [p.name for p in path.parent.iterdir()] == ["fed.json"]
    read = read_fed(str(path))
    assert read.items == {"tydiqa/sw/1", "tydiqa/sw/2"}
    assert read.answer("tydiqa/sw/1", "gen") == "Rom\u2028e"
    assert feed.write(told, tmp_path / "out") == (path, digest)
    assert {origin["results"] for origin in json.loads(path.read_text(encoding="utf-8"))["from"]} == {"results_T.json"}


def test_languages_without_items_are_not_asked(runs):
    told = feed.gather(Feeding(failures=runs))
    asked = [task("tydiqa:shown:sw"), task("tydiqa:shown:te"), task("xquad:shown:en"), task("tydiqa:rank:sw")]
    assert feed.narrow(told, asked) == [asked[0], asked[3]]
    with pytest.raises(IllusionError, match=r"--tasks tydiqa_shown_te: .* hold nothing for them; they hold tydiqa sw"):
        feed.narrow(told, [task("tydiqa:shown:te")])


def test_rounds_are_asked_where_the_answer_they_show_is_known(runs):
    asked = [task(f"tydiqa:revise1_{half}:{code}") for half in ("mc", "gen") for code in ("sw", "te")]
    assert feed.narrow(feed.gather(Feeding(answers=runs[0])), asked) == [asked[0], asked[2], asked[3]]
    both = feed.gather(Feeding(answers=runs[0], failures=(runs[0],)))  # sw/2 alone, whose choice was a tie
    assert feed.narrow(both, asked) == [asked[2]]


def test_what_is_left_out_is_logged(runs, caplog):
    told = feed.gather(Feeding(failures=(runs[0],)))
    feed.narrow(told, [task("tydiqa:beam4:sw"), task("tydiqa:beam4:te")])
    assert "left out, since the runs that are fed hold no item for them: tydiqa_beam4_te" in caplog.text
    caplog.clear()
    feed.narrow(told, [task("tydiqa:beam4:sw")])
    assert caplog.text == ""


def test_a_round_about_answers_that_nobody_gave_is_refused(tmp_path):
    told = feed.gather(Feeding(answers=write_run(tmp_path / "a", record("tydiqa/sw/1", "gen", "Paris", right=True))))
    with pytest.raises(IllusionError, match=r"--tasks tydiqa_revise1_mc_sw: it shows the mc answers again, and") as why:
        feed.narrow(told, [task("tydiqa:revise1_gen:sw"), task("tydiqa:revise1_mc:sw")])
    assert "holds those of gen alone; ask the mc tasks first, or leave revise1_mc out" in str(why.value)


def test_runs_that_hold_nothing_to_feed_are_named(runs, tmp_path):
    good = write_run(tmp_path / "good", record("x/en/1", "gen", "Paris", right=True))
    with pytest.raises(IllusionError, match=r"--probe-failures .*good: every valid open answer there is right"):
        feed.gather(Feeding(failures=(good,)))
    choices = write_run(tmp_path / "mc", record("x/en/1", "mc_far", "Rome", right=False))
    with pytest.raises(
        IllusionError, match=r"mc: no open answers \(gen\) there, it holds mc_far; .*run the _gen tasks"
    ):
        feed.gather(Feeding(failures=(choices,)))
    with pytest.raises(
        IllusionError, match=r"--answers .*mc: no answers to show again, it holds mc_far; expected a run"
    ):
        feed.gather(Feeding(answers=choices))
    with pytest.raises(IllusionError, match=r"no run folder at .*nowhere"):
        feed.gather(Feeding(failures=(str(tmp_path / "nowhere"),)))


def test_the_arguments_pass_the_file_on(runs, tmp_path):
    words = ["-t", "tydiqa_gen", "tydiqa_mc_te", "--model", "pruned_hf", "--metadata", "illusion_data=here", "n=2"]
    made = with_feed([*words, "--seed", "-1"], Feeding(failures=runs), tmp_path / "out")
    asked = read_arguments(made)
    assert asked.tasks == ("tydiqa_gen_sw",)
    assert asked.metadata.pop("fed")["sha256"] == hashlib.sha256((tmp_path / "out/fed.json").read_bytes()).hexdigest()
    assert asked.metadata == {"illusion_data": "here", "n": 2, "illusion_items": str(tmp_path / "out" / "fed.json")}
    assert made[:2] == ["--model", "pruned_hf"]
    assert "-1" in made


@pytest.mark.parametrize("option", [["--tasks", "tydiqa_gen_sw"], ["--task=tydiqa_gen_sw"], ["-ttydiqa_gen_sw"]])
def test_groups_stay_where_nothing_is_left_out(option, runs, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("tasks: [tydiqa_gen_te]\nmetadata: {illusion_data: there}\n", encoding="utf-8")
    made = with_feed([*option, "--config", str(config)], Feeding(answers=runs[0], failures=runs), tmp_path / "out")
    asked = read_arguments(made)
    assert asked.tasks == ("tydiqa_gen_sw",)
    assert asked.metadata["illusion_data"] == "there"
    assert asked.metadata["illusion_items"] == asked.metadata["illusion_answers"] == str(tmp_path / "out/fed.json")


def test_tasks_of_others_cannot_be_fed(runs, tmp_path):
    with pytest.raises(IllusionError, match=r"'hellaswag' is no task of paired questions"):
        with_feed(["--tasks", "tydiqa_gen,hellaswag"], Feeding(failures=runs), tmp_path)


def test_a_users_own_tasks_are_known_by_what_their_files_say(tmp_path):
    from lm_eval_illusion.harness.resolve import resolve
    from lm_eval_illusion.harness.task_files import task_files

    for name, text in task_files("mine", ["en", "sw"], ["gen", "beam4", "beam8"], templates=".").items():
        (tmp_path / name).write_text(text.replace("include: ./", "task_alias: "), encoding="utf-8")
    (tmp_path / "other.yaml").write_text("task: other\noutput_type: generate_until\n", encoding="utf-8")
    found = resolve(["mine_gen", "mine_beam4_*", "mine_probes", "other", "tydiqa_gen_sw", "none"], str(tmp_path))
    beams = [task(f"mine:beam{width}:{code}") for width in (4, 8) for code in ("en", "sw")]
    assert found["mine_gen"] == [task("mine:gen:en"), task("mine:gen:sw")]
    assert found["mine_beam4_*"] == beams[:2]
    assert found["mine_probes"] == beams
    assert found["tydiqa_gen_sw"] == [task("tydiqa:gen:sw")]
    assert found["other"] == found["none"] == []


def test_beams_samples_and_ranks_want_our_model():
    check_model([task("tydiqa:shown:sw"), task("tydiqa:rank_spans:sw")], "hf")
    check_model([task("tydiqa:beam4:sw")], "pruned_hf")
    for condition in ("beam4", "beam8", "sample", "rank"):
        with pytest.raises(IllusionError, match=rf"tydiqa_{condition}_sw with --model vllm: .*--model pruned_hf"):
            check_model([task("tydiqa:gen:sw"), task(f"tydiqa:{condition}:sw")], "vllm")
    with pytest.raises(IllusionError, match="tydiqa_beam4_sw and 1 more with --model hf"):
        check_model([task("tydiqa:rank:sw"), task("tydiqa:beam4:sw")], "hf")


def test_rounds_want_answers_and_answers_want_rounds():
    check_answers([task("x:gen:en")], fed=False)
    check_answers([task("x:gen:en"), task("x:revise1_gen:en")], fed=True)
    with pytest.raises(IllusionError, match=r"x_revise2_mc_en shows .*: lm-eval-illusion run --answers RUN"):
        check_answers([task("x:revise2_mc:en")], fed=False)
    with pytest.raises(IllusionError, match=r"--answers: no task among --tasks shows earlier answers"):
        check_answers([task("x:gen:en")], fed=True)
