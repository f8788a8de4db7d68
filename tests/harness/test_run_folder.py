"""Folders of runs: what is finished stays, what was interrupted is made anew, what is another's is left alone."""

import subprocess
import sys
from contextlib import contextmanager

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import launch, run_folder
from lm_eval_illusion.harness.folder_lock import LOCK, alone_in
from lm_eval_illusion.harness.planned import PlannedRun
from tests import families


def test_a_finished_run_is_known_by_what_it_was_made_from(tmp_path):
    wanted = {"model_args": {"sparsity": 0.5, "dtype": "float32"}, "version": "x"}
    run_folder.mark(tmp_path / "a", wanted, finished=False)
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
    monkeypatch.setattr(launch, "run", lambda argv, feeding: calls.append(left.exists()))
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
    monkeypatch.setattr(launch, "run", lambda argv, feeding: None)
    run_folder.run_once(PlannedRun(pretrained="some/model"), tmp_path / "run")
    assert run_folder.is_finished(tmp_path / "run", PlannedRun(pretrained="some/model").made_from())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"finished": "yes", "made_from": {}}'])
def test_a_marker_that_says_nothing_is_named(tmp_path, text):
    (tmp_path / run_folder.MARKER).write_text(text)
    with pytest.raises(IllusionError, match=r"illusion_run\.json: does not say.*remove the folder"):
        run_folder.is_finished(tmp_path, {})
