"""What `lm-eval-illusion run` makes sure of before and after the harness."""

import json
import os
import time
from pathlib import Path

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import launch, names


def test_arguments_are_read_as_the_harness_reads_them(tmp_path):
    asked = launch.read_arguments(["--tasks", "a,b", "c", "--metadata", "illusion_data=/d", "n=2", "--output", "x"])
    assert asked.tasks == ("a", "b", "c")
    assert asked.metadata == {"illusion_data": "/d", "n": 2}
    assert (asked.output_path, asked.log_samples, asked.cache_requests) == ("x", False, False)
    json_form = launch.read_arguments(["--tasks", "a", "--metadata", '{"illusion_data": "/d"}'])
    assert json_form.metadata == {"illusion_data": "/d"}
    config = tmp_path / "c.yaml"
    config.write_text("tasks: [tydiqa_mc_sw]\noutput_path: there\nlog_samples: true\n")
    from_file = launch.read_arguments(["--config", str(config), "--output_path", "here"])
    assert (from_file.tasks, from_file.output_path, from_file.log_samples) == (("tydiqa_mc_sw",), "here", True)
    with pytest.raises(IllusionError, match=r"--config .*nowhere.yaml: cannot be read"):
        launch.read_arguments(["--config", "nowhere.yaml"])


def test_samples_and_a_folder_are_added_once():
    words, out = launch.completed(["--tasks", "a"])
    assert words.count("--log_samples") == 1
    assert words[-2:] == ["--output_path", str(out)]
    again, same = launch.completed(words)
    assert (again, same) == (words, out)
    assert launch.completed(["--tasks", "a", "--output_path", "x/results.json"])[1] == Path("x")


def test_request_cache_is_refused():
    with pytest.raises(IllusionError, match="ignores --metadata and the data folder"):
        launch.completed(["--tasks", "a", "--cache_requests", "true"])


def test_missing_data_is_found_before_any_model(tmp_path, monkeypatch):
    monkeypatch.delenv("LM_EVAL_ILLUSION_DATA", raising=False)
    with pytest.raises(IllusionError, match=r"tydiqa-goldp-dev-swahili.json"):
        launch.run(
            [
                "--model",
                "pruned_hf",
                "--tasks",
                "tydiqa_mc_sw",
                "--metadata",
                json.dumps({"illusion_data": str(tmp_path)}),
            ]
        )


def test_a_run_that_saved_nothing_is_no_run(tmp_path):
    with pytest.raises(IllusionError, match="without writing results_"):
        launch.verify_saved(tmp_path, time.time())
    (tmp_path / "results_1.json").write_text("{}")
    with pytest.raises(IllusionError, match="without writing samples_"):
        launch.verify_saved(tmp_path, time.time() - 60)
    (tmp_path / "samples_1.jsonl").write_text("")
    launch.verify_saved(tmp_path, time.time() - 60)
    old = time.time() - 3600
    for path in tmp_path.iterdir():
        os.utime(path, (old, old))
    with pytest.raises(IllusionError, match="without writing results_"):
        launch.verify_saved(tmp_path, time.time() - 60)


def test_names_expand_to_our_tasks():
    assert [t.name for t in names.expand(["tydiqa_mc_sw", "hellaswag"])] == ["tydiqa_mc_sw"]
    languages = [t.language for t in names.expand(["xquad_gen"])]
    assert " ".join(languages) == "ar de el en es hi ro ru th tr vi zh"
    assert len(names.expand(["tydiqa_mc*"])) == 36
    assert names.with_all_halves(["tydiqa_sw", "xquad_mc"]) == [
        "tydiqa_mc_sw",
        "tydiqa_mc_far_sw",
        "tydiqa_gen_sw",
        "xquad_mc",
    ]
    assert names.with_all_halves(["illusion_mini"]) == ["illusion_mini_mc", "illusion_mini_mc_far", "illusion_mini_gen"]
    with pytest.raises(IllusionError, match=r"unknown name 'tydi'.*tydiqa.*lm_eval ls tasks"):
        names.with_all_halves(["tydi"])
