"""Folders of runs: what is finished stays, what was interrupted is made anew, what is another's is left alone."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import launch, run_folder
from lm_eval_illusion.harness.folder_lock import LOCK, alone_in
from lm_eval_illusion.harness.planned import PlannedRun
from tests import families

NAMES = ("m/results_now.json", "m/samples_a_now.jsonl", "m/samples_b_now.jsonl")


def write(folder):
    """Write what the harness writes."""
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")


def test_a_finished_run_is_known_by_what_it_was_made_from(tmp_path):
    wanted = {"model_args": {"sparsity": 0.5, "dtype": "float32"}, "version": "x"}
    run_folder.mark(tmp_path / "a", wanted, finished=False)
    write(tmp_path / "a")
    assert run_folder.is_finished(tmp_path / "a", wanted) is False
    run_folder.mark(tmp_path / "a", wanted, finished=True)
    assert run_folder.is_finished(tmp_path / "a", wanted) is True
    with pytest.raises(IllusionError, match="holds a run with other version; remove that folder"):
        run_folder.is_finished(tmp_path / "a", {**wanted, "version": "y"})
    other = {**wanted, "model_args": {"sparsity": 0.6, "device_map": "auto"}}
    with pytest.raises(IllusionError, match=r"other model_args\.device_map, model_args\.dtype, model_args\.sparsity;"):
        run_folder.is_finished(tmp_path / "a", other)


def test_a_changed_checkpoint_is_another_run(tmp_path):
    model = families.save_tiny("gpt2", tmp_path / "model")
    plan = PlannedRun(pretrained=str(model))
    before = plan.made_from()
    assert plan.made_from() == before
    (model / "model.safetensors").touch()
    assert plan.made_from() != before


def test_an_interrupted_run_is_cleared_and_made_anew(tmp_path, monkeypatch):
    plan, folder = PlannedRun(pretrained="some/model"), tmp_path / "run"
    left = folder / "m" / "samples_old.jsonl"

    def interrupted(argv, feeding):
        left.parent.mkdir(parents=True)
        left.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_folder.run_once(plan, folder)
    calls = []
    monkeypatch.setattr(launch, "run", lambda argv, feeding: (calls.append(left.exists()), write(folder)))
    run_folder.run_once(plan, folder)
    run_folder.run_once(plan, folder)
    assert calls == [False]


HOLDER = """
import sys
from pathlib import Path
from lm_eval_illusion.harness.folder_lock import alone_in
with alone_in(Path(sys.argv[1])):
    print("here", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_in(folder):
    words = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "here\n"
        yield holder
        holder.kill()


def test_a_run_that_another_process_is_making_is_not_cleared_away(tmp_path, monkeypatch):
    plan, folder = PlannedRun(pretrained="some/model"), tmp_path / "run"
    monkeypatch.setattr(launch, "run", lambda argv, feeding: None)
    with another_process_in(folder):
        run_folder.mark(folder, plan.made_from(), finished=False)
        (folder / "samples_half.jsonl").write_text("half")
        with pytest.raises(IllusionError, match=r"run: another process is writing there .*wait for its end, or choose"):
            run_folder.run_once(plan, folder)
        assert (folder / "samples_half.jsonl").read_text() == "half"
        monkeypatch.setenv("RANK", "1")  # the others of torchrun stand behind the first
        with alone_in(folder):
            monkeypatch.delenv("RANK")
    run_folder.run_once(plan, folder)  # the process is gone, however it ended
    assert not (folder / "samples_half.jsonl").exists()


def test_a_lock_that_was_left_before_anything_was_written_is_no_foreign_file(tmp_path, monkeypatch):
    with another_process_in(tmp_path / "run"):
        pass
    assert [path.name for path in (tmp_path / "run").iterdir()] == [LOCK]
    monkeypatch.setattr(launch, "run", lambda argv, feeding: write(tmp_path / "run"))
    run_folder.run_once(PlannedRun(pretrained="some/model"), tmp_path / "run")
    assert run_folder.is_finished(tmp_path / "run", PlannedRun(pretrained="some/model").made_from())


def test_a_process_killed_before_the_first_marker_had_its_name_leaves_no_foreign_folder(tmp_path, monkeypatch):
    plan, folder = PlannedRun(pretrained="some/model"), tmp_path / "run"

    def killed(*names):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run_folder.os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            run_folder.run_once(plan, folder)
    assert sorted(path.name for path in folder.iterdir()) == [LOCK, f"{run_folder.MARKER}.tmp"]
    monkeypatch.setattr(launch, "run", lambda argv, feeding: write(folder))
    run_folder.run_once(plan, folder)
    assert run_folder.is_finished(folder, plan.made_from())
    assert not (folder / f"{run_folder.MARKER}.tmp").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.tmp").touch()
    with pytest.raises(IllusionError, match="not empty and not written by this command"):
        run_folder.is_finished(tmp_path / "other", {})


@pytest.mark.parametrize("gone", [NAMES[:1], NAMES[1:2], NAMES[1:], NAMES])
@pytest.mark.parametrize("told", [True, False])
def test_a_finished_run_whose_files_were_removed_is_made_again(tmp_path, monkeypatch, caplog, gone, told):
    plan, folder, calls = PlannedRun(pretrained="some/model"), tmp_path / "run", []
    monkeypatch.setattr(launch, "run", lambda argv, feeding: (calls.append(1), write(folder)))
    run_folder.run_once(plan, folder)
    if not told:  # a marker of an earlier version names no files: one of each kind has to be there
        marker = folder / run_folder.MARKER
        held = json.loads(marker.read_text())
        del held["files"]
        marker.write_text(json.dumps(held))
    for name in gone:
        (folder / name).unlink()
    noticed = told or gone != NAMES[1:2]
    assert run_folder.is_finished(folder, plan.made_from()) != noticed
    run_folder.run_once(plan, folder)
    assert len(calls) == (2 if noticed else 1)
    assert run_folder.is_finished(folder, plan.made_from())
    lines = [record.message for record in caplog.records if "is gone: run again" in record.message]
    assert len(lines) == noticed
    if told:
        assert all(name in lines[0] for name in gone)


def test_under_torchrun_the_first_process_alone_clears_and_marks(tmp_path, monkeypatch):
    plan, folder = PlannedRun(pretrained="some/model"), tmp_path / "run"
    run_folder.mark(folder, plan.made_from(), finished=False)
    write(folder)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(launch, "run", lambda argv, feeding: None)
    run_folder.run_once(plan, folder)
    assert (folder / NAMES[0]).exists()
    assert not run_folder.is_finished(folder, plan.made_from())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"finished": "yes", "made_from": {}}'])
def test_a_marker_that_says_nothing_is_named(tmp_path, text):
    (tmp_path / run_folder.MARKER).write_text(text)
    with pytest.raises(IllusionError, match=r"illusion_run\.json: does not say.*remove the folder"):
        run_folder.is_finished(tmp_path, {})
