"""Folders of runs: what is finished stays, what was interrupted is made anew, what is another's is left alone."""

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import launch, run_folder
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


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"finished": "yes", "made_from": {}}'])
def test_a_marker_that_says_nothing_is_named(tmp_path, text):
    (tmp_path / run_folder.MARKER).write_text(text)
    with pytest.raises(IllusionError, match=r"illusion_run\.json: does not say.*remove the folder"):
        run_folder.is_finished(tmp_path, {})
