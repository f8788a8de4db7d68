"""Second runs from outside: one line and exit code 2 for what cannot be, and a check with probes on a tiny model."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from lm_eval.tasks import _index

from lm_eval_illusion.cli import app
from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import check, probe_runs, run_folder
from lm_eval_illusion.harness.arguments import read_arguments
from lm_eval_illusion.harness.check import CheckPlan, run_check
from lm_eval_illusion.harness.feed import Feeding
from lm_eval_illusion.harness.planned import PlannedRun
from lm_eval_illusion.harness.probe_runs import Probes, tasks_of
from lm_eval_illusion.pairs.own import read_own
from tests import families
from tests.harness.fed_runs import record, write_run
from tests.harness.test_pair import rows, write
from tests.test_cli import inside

__all__ = ["inside"]


@pytest.fixture
def wrong(inside):
    """Return a function: command line -> its last line, once it has ended in exit code 2 without a traceback."""

    def call(*words):
        code, errors = inside(*words)
        assert code == 2
        assert "Traceback" not in errors
        return errors.strip().splitlines()[-1]

    return call


def test_runs_that_cannot_be_end_before_anything_is_loaded(wrong, tmp_path):
    run = ["run", "--model_args", "pretrained=nowhere", "--output_path", str(tmp_path / "out")]
    good = write_run(tmp_path / "good", record("illusion_mini/en/q01", "gen", "Paris", right=True))
    bad = write_run(tmp_path / "bad", record("illusion_mini/en/q01", "gen", "Rome", right=False))
    said = wrong(*run, "--model", "hf", "--tasks", "illusion_mini_beam")
    assert said.startswith("error: --tasks: illusion_mini_beam4_ar and 15 more with --model hf: ")
    assert wrong(*run, "--tasks", "illusion_mini_probes").endswith("--model_args pretrained=MODEL,method=none)")
    run += ["--model", "pruned_hf"]
    assert "feed it a finished run" in wrong(*run, "--tasks", "illusion_mini_revise1")
    assert "--answers: no task among --tasks" in wrong(*run, "--tasks", "illusion_mini_gen", "--answers", bad)
    assert "so there is nothing to probe" in wrong(*run, "--tasks", "illusion_mini_shown", "--probe-failures", good)
    assert "hold nothing for them" in wrong(*run, "--tasks", "illusion_mini_shown_sw", "--probe-failures", bad)
    nowhere = ["--probe-failures", bad, "--probe-failures", str(tmp_path / "nowhere")]
    assert "no run folder at" in wrong(*run, "--tasks", "illusion_mini_shown", *nowhere)
    assert not (tmp_path / "out").exists()


def test_run_hands_the_runs_on(inside, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "lm_eval_illusion.harness.launch.run", lambda argv, feeding: seen.append((argv, feeding)) or "o"
    )
    inside(
        "run", "--tasks", "a", "b", "--answers", "one", "--probe-failures", "two", "-M", "x", "--probe-failures=three"
    )
    inside("run", "--tasks", "a")
    assert seen == [(["--tasks", "a", "b", "-M", "x"], Feeding("one", ("two", "three"))), (["--tasks", "a"], None)]


def test_pair_writes_a_folder_and_says_what_to_run(inside, tmp_path, capsys):
    path = write(tmp_path / "q.jsonl", ({**row, "language": None} for row in rows(3, ("en",))))
    code, _ = inside("pair", str(path), "--name", "mine", "--language", "sw", "--out", str(tmp_path / "sets"))
    assert code == 0
    assert (tmp_path / "sets" / "mine" / "questions.sw.json").is_file()


def test_pair_lists_bad_rows_and_writes_nothing(inside, tmp_path):
    path = write(tmp_path / "q.jsonl", ({**row, "answer": "Tara Nobody"} for row in rows(4, ("en",))))
    code, errors = inside("pair", str(path), "--name", "mine", "--out", str(tmp_path / "sets"))
    lines = errors.strip().splitlines()
    assert code == 2
    assert len(lines) == 22
    assert lines[0].startswith("line 1: the answer 'Tara Nobody' does not occur in the passage")
    assert lines[20] == "... and 12 more"
    assert lines[21].startswith(f"error: {path}: 32 of 32 rows cannot be used, the first: line 1:")
    assert not (tmp_path / "sets").exists()


def test_pair_lists_the_languages_it_knows(wrong, tmp_path):
    path = write(tmp_path / "q.jsonl", rows(3, ("en",)))
    said = wrong("pair", str(path), "--name", "mine", "--language", "tlh", "--out", str(tmp_path))
    assert said.startswith("error: --language 'tlh': no prompt labels for this language; known: ar, bn, de, el, en")


def test_probes_are_asked_where_open_answers_were():
    assert tasks_of(["illusion_mini"], "probes") == ["illusion_mini_probes"]
    assert tasks_of(["illusion_mini_en", "tydiqa_gen"], "revise1") == [
        "illusion_mini_revise1_mc_en",
        "illusion_mini_revise1_gen_en",
        "tydiqa_revise1",
    ]
    assert "illusion_mini_beam8_sw" in tasks_of(["illusion_mini_gen_sw"], "probes")
    assert "illusion_mini_rank_spans_sw" not in tasks_of(["illusion_mini_gen_sw"], "probes")
    with pytest.raises(IllusionError, match=r"--probes: failures are .*--tasks tydiqa_mc does not ask; add its _gen"):
        tasks_of(["tydiqa_mc"], "probes")


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """A tiny model through a check with probes, in this process: (plan, out folder, both models' folders)."""
    root = tmp_path_factory.mktemp("probed")
    asked = PlannedRun(
        pretrained=str(families.save_tiny("llama", root / "model")),
        tasks=("illusion_mini_en",),
        items=1,
        num_fewshot=0,
        chat_template=False,
        device="cpu",
    )
    plan = CheckPlan(asked, {"method": "magnitude", "sparsity": 0.5}, Probes.FAILURES)
    default, walk = Path(_index.__file__).resolve().parent, _index.TaskIndex._iter_yaml_files
    with pytest.MonkeyPatch.context() as patch:  # without the harness's own thousands of task files
        patch.setattr(
            _index.TaskIndex, "_iter_yaml_files", staticmethod(lambda root: () if Path(root) == default else walk(root))
        )
        patch.setattr(probe_runs, "PROBE_GROUPS", ("shown", "rank"))
        yield plan, root / "out", run_check(plan, root / "out", print)


def test_check_probes_both_models_in_folders_of_their_own(probed):
    _, out, models = probed
    parts = ("", "-probes", "-revise1", "-revise2")
    for name, folders in zip(("dense", "pruned"), models, strict=True):
        assert str(folders).split("+") == [str(out / f"{name}{part}") for part in parts]
        assert len(list((out / f"{name}-probes").rglob("samples_*"))) == 2
        told = json.loads((out / f"{name}-revise2" / "fed.json").read_text(encoding="utf-8"))
        assert {condition for given in told["answers"].values() for condition in given} == {
            "revise1_gen",
            "revise1_mc",
        }
    items = json.loads((out / "dense-probes" / "fed.json").read_text(encoding="utf-8"))["items"]
    assert len(items) == 1
    receipts = set()
    for part in parts:
        (results,) = (out / f"pruned{part}").rglob("results_*.json")
        told = json.loads(results.read_text(encoding="utf-8"))["config"]["illusion"]["receipt"]
        receipts.add(told["weights_sha256"])
        assert told["sparsity_reached"] == pytest.approx(0.5, abs=0.02)
    assert len(receipts) == 1


def test_what_is_probed_is_never_probed_twice(probed, monkeypatch):
    plan, out, models = probed
    monkeypatch.setattr(run_folder.launch, "run", lambda *given: pytest.fail("run again"))
    assert run_check(plan, out, print) == models


def test_the_report_takes_a_model_with_its_probes(probed):
    from lm_eval_illusion.report.build import build_report

    made = build_report(list(probed[2])).file
    assert made.comparisons[0].rows[0].joined == 1


def test_without_a_failure_there_is_nothing_to_probe(tmp_path, monkeypatch, caplog):
    def answered(plan, folder):
        return Path(write_run(folder, record("illusion_mini/en/q01", "gen", "Paris", right=True)))

    monkeypatch.setattr(check, "run_once", answered)
    monkeypatch.setattr(probe_runs, "run_once", lambda *given: pytest.fail("probed"))
    asked = PlannedRun(pretrained=str(families.save_tiny("gpt2", tmp_path / "m")), tasks=("illusion_mini_en",))
    made = run_check(CheckPlan(asked, {"method": "random", "sparsity": 0.5}, Probes.FAILURES), tmp_path / "out", print)
    assert made == (tmp_path / "out" / "dense", tmp_path / "out" / "pruned")


def test_all_items_are_probed_where_asked(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(probe_runs, "run_once", lambda plan, folder: asked.append((folder.name, plan)) or folder)
    run = PlannedRun(pretrained="m", tasks=("illusion_mini",))
    probe_runs.run_probes(Probes.ALL, {tmp_path / "pruned": run})
    assert [(name, plan.tasks, plan.feeding) for name, plan in asked] == [
        ("pruned-probes", ("illusion_mini_probes",), None),
        ("pruned-revise1", ("illusion_mini_revise1",), Feeding(str(tmp_path / "pruned"))),
        ("pruned-revise2", ("illusion_mini_revise2",), Feeding(str(tmp_path / "pruned-revise1"))),
    ]


def test_options_name_the_items():
    from lm_eval_illusion.check_commands import _probes

    assert [_probes(*given) for given in ((False, False), (True, False), (True, True), (False, True))] == [
        None,
        Probes.FAILURES,
        Probes.ALL,
        Probes.ALL,
    ]


def test_commands_of_the_docs_are_known(tmp_path):
    docs = Path(__file__).resolve().parent.parent / "docs"
    texts = [(docs / name).read_text(encoding="utf-8") for name in ("own-questions.md", "probes.md")]
    blocks = [block for text in texts for block in re.findall(r"```bash\n(.*?)```", text, re.S)]
    lines = [line for block in blocks for line in block.split("\n")]
    commands = typer.main.get_command(app).commands
    seen = []
    for program, *words in (shlex.split(line) for line in lines if line):
        if program == "lm_eval":
            assert read_arguments(words).tasks
            continue
        context = commands[words[0]].make_context(words[0], words[1:])
        seen.append(words[0])
        if words[0] == "run":
            assert read_arguments(context.args).model == "pruned_hf"
            assert context.params["answers"] or context.params["probe_failures"]
    assert set(seen) == {"pair", "run", "report", "check"}
    (example,) = re.findall(r"```json\n(.*?)```", texts[0], re.S)
    (tmp_path / "q.jsonl").write_text(example, encoding="utf-8")
    assert [q.answers for q in read_own(tmp_path / "q.jsonl", "mine")["en"]] == [("Anna Berg",)]
