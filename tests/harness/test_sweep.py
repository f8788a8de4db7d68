"""A sweep's run folders against separate runs of fresh loads; and when points fail, or it is stopped."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import launch
from lm_eval_illusion.harness.folder_lock import LOCK
from lm_eval_illusion.harness.sweep import resident
from lm_eval_illusion.harness.sweep.conduct import reportable, run_sweep
from lm_eval_illusion.harness.sweep.once import found_out_once
from lm_eval_illusion.harness.sweep.plan import Point, Sweep, plan_sweep
from lm_eval_illusion.harness.sweep.state import FAILED, FINISHED, INTERRUPTED, WAITING, SweepState
from prune_hooks.registry import Group, Method, Outcome
from prune_hooks.statistics import Needs
from tests import families
from tests.harness.test_run_folder import another_process_in

SMALL = {
    "tasks": ["illusion_mini_mc_en", "illusion_mini_mc_far_en", "illusion_mini_gen_en"],
    "items": 2,
    "num_fewshot": 0,
    "chat_template": False,
    "calibration_samples": 4,
    "calibration_length": 24,
    "device": "cpu",
    "batch_size": 2,
}


ALONE = {
    "weight": ("dense", "magnitude-2of4", "wanda-0.6", "wanda-2of4", "sparsegpt-0.6"),
    "block": ("wanda-0.6", "sparsegpt-2of4"),
}
"""Points that are run again on models of their own: where statistics are reused, not those that made them."""


def write(path: Path, **changes) -> Path:
    path.write_text(yaml.safe_dump({**SMALL, **changes}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return str(families.save_tiny("llama", tmp_path_factory.mktemp("sweep") / "llama"))


@pytest.fixture(scope="module", autouse=True)
def once():
    """All runs here share what the harness finds out anew for each: its index of tasks is most of a tiny run."""
    with found_out_once():
        yield


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """The harness configures its handler once, on the stderr of that moment, which pytest replaces for each test."""
    import lm_eval.utils

    monkeypatch.setattr(lm_eval.utils, "_LOGGING_CONFIGURED", False)
    monkeypatch.setattr(logging.getLogger("lm_eval"), "handlers", [])


def swept(file: Path, out: Path) -> tuple[Sweep, object, list[str]]:
    told: list[str] = []
    sweep = plan_sweep(file)
    return sweep, run_sweep(sweep, out, told.append), told


def samples(folder: Path) -> dict[str, list[dict]]:
    """Every sample of a run, whole, by task."""
    found = {}
    for path in folder.rglob("samples_*.jsonl"):
        task = path.name.removeprefix("samples_").rpartition("_")[0]
        found[task] = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return found


def results(folder: Path) -> dict:
    """What a results file says but for times, peak memory, addresses of functions and the machine."""
    (path,) = folder.rglob("results_*.json")
    held = json.loads(re.sub(" at 0x[0-9a-f]+>", ">", path.read_text(encoding="utf-8")))
    illusion = held["config"]["illusion"]
    for key in ("seconds", "peak_memory"):
        illusion["receipt"].pop(key)
    kept = ("results", "groups", "configs", "n-samples", "higher_is_better", "task_hashes", "config", "versions")
    return {key: held.get(key) for key in kept}


def separately(point: Point, folder: Path) -> Path:
    """Run a point on a model of its own, loaded for it alone."""
    return launch.run(point.run.arguments(folder))


@pytest.mark.parametrize("order", ["weight", "block"])
def test_every_point_is_what_a_separate_run_writes(llama, tmp_path, order, monkeypatch):
    file = write(
        tmp_path / "s.yaml",
        models=[llama],
        methods=["magnitude", "wanda", "sparsegpt"] if order == "weight" else ["wanda", "sparsegpt"],
        sparsities=[0.4, 0.6],
        patterns=["unstructured", "2:4"],
        sequential=order,
    )
    made: list[resident.Resident] = []
    monkeypatch.setattr(resident.Resident, "__init__", _noting(made))
    sweep, state, _ = swept(file, tmp_path / "out")
    assert [point.status for point in state.points] == [FINISHED] * len(sweep.points)
    assert [one.loads for one in made] == [1]
    made_by = {point.name: results(point.folder(tmp_path / "out")) for point in sweep.points}
    hashes = {ours["config"]["illusion"]["receipt"]["weights_sha256"] for ours in made_by.values()}
    assert len(hashes) == len(sweep.points)
    for point in sweep.points:
        if point.name in ALONE[order]:
            folder = separately(point, tmp_path / "alone" / point.name)
            assert made_by[point.name] == results(folder), point.name
            assert samples(point.folder(tmp_path / "out")) == samples(folder)


def _noting(made):
    original = resident.Resident.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        made.append(self)

    return init


def test_a_separate_process_writes_the_same_in_half_precision(tmp_path):
    changes = {"methods": ["sparsegpt"], "sparsities": [0.3, 0.5], "model_args": {"dtype": "bfloat16"}}
    model = str(families.save_tiny("gemma3", tmp_path / "gemma"))
    file = write(tmp_path / "s.yaml", models=[model], restore="shards", **changes)
    sweep, state, _ = swept(file, tmp_path / "out")
    assert [point.status for point in state.points] == [FINISHED] * 3
    point = sweep.points[-1]
    words = [sys.executable, "-m", "lm_eval", "run", *point.run.arguments(tmp_path / "alone")]
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    ours, theirs = results(point.folder(tmp_path / "out")), results(tmp_path / "alone")
    assert ours == theirs
    assert samples(point.folder(tmp_path / "out")) == samples(tmp_path / "alone")


def test_one_failing_point_is_named_and_the_others_run(llama, tmp_path):
    file = write(tmp_path / "s.yaml", models=[llama], methods=["magnitude"], patterns=["unstructured", "2:5", "2:4"])
    sweep, state, told = swept(file, tmp_path / "out")
    assert [p.status for p in state.points] == [FINISHED, FINISHED, FAILED, FINISHED]
    (failed,) = state.failed
    assert failed.name == "magnitude-2of5"
    assert "needs a multiple of 5" in failed.error
    assert "\n" not in failed.error
    assert told[-1] == "sweep ended: 3 of 4 points finished, 1 failed"
    ((runs, folder),) = reportable(sweep, state, tmp_path / "out")
    assert [run.name for run in runs] == ["dense", "magnitude-0.5", "magnitude-2of4"]
    assert folder == tmp_path / "out" / "report"
    held = json.loads((tmp_path / "out" / "sweep.json").read_text(encoding="utf-8"))
    assert [p["status"] for p in held["points"]] == [p.status for p in state.points]
    assert held["points"][2]["error"] == failed.error
    assert held["points"][1]["options"]["model_args"] == {"method": "magnitude", "sparsity": 0.5}
    assert held["points"][1]["seconds"] > 0


def test_a_failed_point_shows_in_the_exit_code_and_the_report_is_made(llama, tmp_path, monkeypatch, capsys):
    from lm_eval_illusion.cli import main

    file = write(tmp_path / "s.yaml", models=[llama], methods=["magnitude"], patterns=["2:5", "2:4"])
    monkeypatch.setattr(sys, "argv", ["x", "sweep", str(file), "--out", str(tmp_path / "out"), "--html"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    failed, error = capsys.readouterr().err.strip().splitlines()[-2:]
    assert failed.startswith("failed: llama magnitude-2of5: ")
    assert "needs a multiple of 5" in failed
    assert error.startswith("error: 1 of 3 points failed, each named above and in ")
    assert (tmp_path / "out" / "report" / "report.md").is_file()
    assert (tmp_path / "out" / "report" / "report.html").is_file()


def test_a_report_that_fails_is_counted_apart_and_files_that_are_gone_are_made_again(
    llama, tmp_path, monkeypatch, capsys
):
    from lm_eval_illusion import cli

    file = write(tmp_path / "s.yaml", models=[llama], methods=["magnitude"], sparsities=[0.5])
    monkeypatch.setattr(sys, "argv", ["x", "sweep", str(file), "--out", str(tmp_path / "out")])

    def cannot(*given, **how):
        raise IllusionError("no samples of one run")

    with monkeypatch.context() as patched:
        patched.setattr(cli, "write_and_show", cannot)
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert ended.value.code == 2
    failed, error = capsys.readouterr().err.strip().splitlines()[-2:]
    assert failed == f"failed: report {tmp_path / 'out' / 'report'}: no samples of one run"
    assert error.startswith("error: 1 of 1 reports could not be made, each named above; what is finished is kept: ")
    assert "points failed" not in error
    for path in (tmp_path / "out" / "llama" / "magnitude-0.5").rglob("samples_*"):
        path.unlink()
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "llama" / "dense").rglob("*_*")}
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert re.findall("now llama (.*)", capsys.readouterr().err) == ["magnitude-0.5"]
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert (tmp_path / "out" / "report" / "report.md").is_file()


@pytest.fixture
def stops(monkeypatch):
    """A method that is interrupted the first time it is asked to prune, and prunes by magnitude from then on."""
    from prune_hooks import registry

    asked: list[str] = []

    def stopping(group: Group) -> list[Outcome]:
        asked.append(group.weights[0].name)
        if len(asked) == 2:  # one weight is pruned by now: the model is neither dense nor done
            raise KeyboardInterrupt
        return registry.get_method("magnitude").prune(group)

    monkeypatch.setitem(registry._METHODS, "stopping", Method("stopping", Needs.NOTHING, stopping))
    return asked


def test_an_interrupted_sweep_goes_on_where_it_stopped(llama, tmp_path, stops):
    file = write(tmp_path / "s.yaml", models=[llama], methods=["magnitude", "stopping", "wanda"])
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        swept(file, out)
    held = json.loads((out / "sweep.json").read_text(encoding="utf-8"))
    assert [p["status"] for p in held["points"]] == [FINISHED, FINISHED, INTERRUPTED, WAITING]
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.json*") if path.name != "sweep.json"}
    sweep, state, told = swept(file, out)
    assert [p.status for p in state.points] == [FINISHED] * 4
    kept = [point.folder(out) for point in sweep.points[:2]]
    assert all(path.stat().st_mtime_ns == time for path, time in before.items() if kept[0] in path.parents)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items() if kept[1] in path.parents)
    assert [line.rpartition(" ")[2] for line in told[:-1]] == ["stopping-0.5", "wanda-0.5"]
    folder = separately(sweep.points[3], tmp_path / "alone")
    assert samples(sweep.points[3].folder(out)) == samples(folder)
    assert state.points[0].seconds == held["points"][0]["seconds"]
    _, state, told = swept(file, out)
    assert told == ["sweep ended: 4 of 4 points finished"]
    with pytest.raises(IllusionError, match=r"dense: holds a run with other items; remove that folder"):
        swept(write(file, models=[llama], methods=["magnitude", "wanda"], items=3), out)


def test_weights_that_cannot_be_read_again_fail_after_one_try(llama, tmp_path, monkeypatch):
    from prune_hooks.errors import PruneError

    monkeypatch.setattr(resident, "shard_files", lambda *args, **options: {})
    tried: list[int] = []
    held = resident.Resident("shards")
    model = families.build("llama")
    for message in ("is in no safetensors file", "could not be loaded for an earlier point: restore=shards"):
        with pytest.raises((PruneError, IllusionError), match=message):
            held.model({"pretrained": llama}, lambda: (tried.append(1), model)[1])
    assert tried == [1]


def test_a_model_that_cannot_be_loaded_fails_its_points_after_one_try(llama, tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    families.save_tiny("llama", broken)
    (broken / "model.safetensors").write_bytes(b"nothing")
    tried: list[int] = []
    load = resident.Resident.model

    def counting(self, asked, make):
        return load(self, asked, lambda: (tried.append(1), make())[1])

    monkeypatch.setattr(resident.Resident, "model", counting)
    file = write(tmp_path / "s.yaml", models=[str(broken), llama], methods=["magnitude"])
    sweep, state, _ = swept(file, tmp_path / "out")
    assert [p.status for p in state.points] == [FAILED, FAILED, FINISHED, FINISHED]
    assert len(tried) == 2
    assert "could not be loaded for an earlier point" in state.points[1].error
    ((_, folder),) = reportable(sweep, state, tmp_path / "out")
    assert folder == tmp_path / "out" / "report" / "llama"


def test_a_resident_that_is_not_dense_again_is_loaded_anew(llama, tmp_path, monkeypatch):
    from prune_hooks import restore

    made: list[resident.Resident] = []
    monkeypatch.setattr(resident.Resident, "__init__", _noting(made))
    never = property(lambda self: "another", lambda self, value: None)
    monkeypatch.setattr(restore.DenseWeights, "digest", never, raising=False)
    file = write(tmp_path / "s.yaml", models=[llama], methods=["magnitude"], sparsities=[0.5])
    _, state, _ = swept(file, tmp_path / "out")
    assert [p.status for p in state.points] == [FINISHED] * 2
    assert [one.loads for one in made] == [2]


def test_several_processes_are_refused(llama, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    sweep = Sweep((), "memory")
    with pytest.raises(IllusionError, match="WORLD_SIZE=2: a sweep runs in one process"):
        run_sweep(sweep, tmp_path, print)


def test_a_second_sweep_in_the_same_folder_is_refused_and_disturbs_nothing(llama, tmp_path):
    sweep = plan_sweep(write(tmp_path / "s.yaml", models=[llama], methods=["magnitude"], sparsities=[0.5]))
    with another_process_in(tmp_path / "out"), pytest.raises(IllusionError, match="another process is writing there"):
        run_sweep(sweep, tmp_path / "out", print)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK]


def test_outside_a_sweep_nothing_is_kept(llama):
    from lm_eval_illusion.harness.model import PrunedHFLM

    with resident.lending(resident.Resident()) as held:
        first, second = (PrunedHFLM(pretrained=llama, device="cpu", method="none") for _ in range(2))
        assert first.model is second.model
        assert first.tokenizer is second.tokenizer
        other = PrunedHFLM(pretrained=llama, device="cpu", method="none", dtype="bfloat16")
        assert other.model is not first.model
        assert held.loads == 2
    alone = PrunedHFLM(pretrained=llama, device="cpu", method="none")
    assert alone.model is not other.model
    assert alone.tokenizer is not first.tokenizer


def test_a_model_whose_positions_depend_on_what_it_has_seen_is_loaded_anew(llama, tmp_path):
    import shutil

    from lm_eval_illusion.harness.model import PrunedHFLM

    folder = tmp_path / "dynamic"
    shutil.copytree(llama, folder)
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    (folder / "config.json").write_text(json.dumps(config))
    with resident.lending(resident.Resident()) as held:
        first, second = (PrunedHFLM(pretrained=str(folder), device="cpu", method="none") for _ in range(2))
        assert first.model is not second.model
        assert held.loads == 2


@pytest.mark.parametrize("text", ["", "[]", '{"points": [{"status": "finished"}]}', '{"points": 3}'])
def test_a_state_file_that_is_none_costs_the_estimate_alone(llama, tmp_path, text):
    (tmp_path / "sweep.json").write_text(text)
    state = SweepState.of(Sweep((), "memory"), tmp_path)
    assert state.seconds_left() is None


def test_the_estimate_goes_by_points_like_the_ones_left(tmp_path):
    from lm_eval_illusion.harness.sweep.conduct import _duration
    from lm_eval_illusion.harness.sweep.state import PointState

    def point(method: str, status: str, seconds: float | None = None, model: str = "a") -> PointState:
        return PointState(model, f"{method}{seconds}", method, "", {}, status, seconds)

    waiting = [point("wanda", WAITING), point("magnitude", WAITING), point("wanda", WAITING, model="b")]
    assert SweepState(tmp_path, waiting).seconds_left() is None
    done = [point("none", FINISHED, 10.0), point("wanda", FINISHED, 30.0), point("wanda", FINISHED, 50.0)]
    failed = [point("wanda", FAILED, 1.0)]
    # Like itself 40; of the same model 30; of any 30.
    assert SweepState(tmp_path, [*waiting, *done, *failed]).seconds_left() == pytest.approx(40 + 30 + 30)
    assert [_duration(s) for s in (12, 29, 90, 3600, 5400)] == ["12 s", "29 s", "2 min", "1 h 0 min", "1 h 30 min"]
