"""The README's commands run: on a tiny model and the shipped questions where it speaks of the user's own."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lm_eval_illusion.pairs.sources import load_questions
from tests import families

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, flags=re.S)


def commands() -> list[str]:
    lines = "\n".join(blocks("bash")).split("\n")
    return [line.split("  #")[0].strip() for line in lines if line.strip()]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    families.save_tiny("llama", folder / "model")
    (sweep,) = blocks("yaml")
    for asked, here in (("YOUR_MODEL", "model"), ("tydiqa, xquad", "illusion_mini_en"), ("mc4", "builtin")):
        assert asked in sweep
        sweep = sweep.replace(asked, here)
    sweep = sweep.replace("items: 200", "items: 1") + "calibration_samples: 2\ncalibration_length: 64\n"
    (folder / "SWEEP.yaml").write_text(sweep)
    own = [
        {"id": q.source_id, "passage": q.passage, "question": q.question, "answers": list(q.answers)}
        for q in load_questions("illusion_mini", "sw")
    ]
    (folder / "QUESTIONS.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    return folder


def adapted(command: str) -> str:
    """Put the tiny model and a few shipped questions where the README leaves the choice to the reader."""
    command = command.replace("YOUR_MODEL", "model")
    command = command.replace("tydiqa,xquad --items 200", "illusion_mini_en,illusion_mini_zh --items 2")
    command = command.replace("tydiqa_", "illusion_mini_").replace("--num_fewshot 1", "--num_fewshot 1 --limit 1")
    if " check " in command and "--items" not in command:
        command += " --items 1 --tasks illusion_mini_en"
    if "report" not in command and " check " not in command:
        command = re.sub(r"(illusion_mini_\w+)", r"\1_sw", command)
    return command


def test_every_command_of_the_readme_is_known():
    known = ("make ", "python3 -m venv", ".venv/bin/pip", ".venv/bin/lm-eval-illusion demo", "pip install", "lm_eval ")
    known += ("lm-eval-illusion ", "LM_EVAL_ILLUSION_DATA=")
    assert len(commands()) >= 10
    assert [c for c in commands() if not c.startswith(known)] == []


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("make ")])
def test_make_targets_are_there(command):
    shown = subprocess.run(["make", "-n", *command.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith((".venv/bin/pip", "pip install"))])
def test_installed_extras_and_files_are_there(command):
    for word in shlex.split(command):
        if word.startswith((".[", "lm-eval-illusion[")):
            extra = word.split("[")[1].rstrip("]")
            assert f"\n{extra} =" in (ROOT / "setup.cfg").read_text(encoding="utf-8")
        if word.endswith(".txt"):
            assert (ROOT / word).is_file()


RUNNABLE = [c for c in commands() if re.match(r"(LM_EVAL_ILLUSION_DATA=\S+ )?(lm_eval|lm-eval-illusion) ", c)]


@pytest.mark.parametrize("command", RUNNABLE, ids=lambda c: c[:60])
def test_commands_run_as_written(command, workplace):
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "160"}
    done = subprocess.run(
        adapted(command), shell=True, cwd=workplace, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    out = re.search(r"--out(?:put_path)? (\S+)", command)
    if out:
        kinds = {" export ": "*.safetensors", " pair ": "*_gen_sw.yaml", "--out ": "report.md"}
        written = next((names for word, names in kinds.items() if word in command), "samples_*.jsonl")
        assert list((workplace / out[1]).rglob(written))


def test_python_example_prunes(workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    (example,) = [block for block in blocks("python") if "PruneSpec" in block]
    scope: dict = {}
    exec(example.replace("YOUR_MODEL", "model"), scope)
    assert scope["receipt"].to_dict()["sparsity_reached"] == pytest.approx(0.5, abs=0.02)
    assert "sparsegpt" in capsys.readouterr().out


def test_own_method_example_prunes(workplace, monkeypatch):
    from transformers import AutoModelForCausalLM

    from prune_hooks import PruneSpec, method_names, prune, registry

    (example,) = [block for block in blocks("python") if "register_method" in block]
    package = workplace / "my_pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "my_module.py").write_text(example)
    assert len([line for line in example.split("\n") if line.strip()]) < 25
    monkeypatch.syspath_prepend(str(workplace))
    method_names()  # loads the built-in ones; what the example adds is taken back
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    model = AutoModelForCausalLM.from_pretrained(workplace / "model")
    spec = PruneSpec(method="my_pkg.my_module:root_wanda", sparsity=0.5, calibration=families.token_rows())
    assert prune(model, None, spec).to_dict()["sparsity_reached"] == pytest.approx(0.5, abs=0.02)


def test_option_table_names_every_option():
    from prune_hooks import PruneSpec, method_names

    for name in PruneSpec.option_names():
        assert f"`{name}`" in TEXT, f"README does not name the option {name}"
    for name in method_names():
        assert f"`{name}`" in TEXT, f"README does not name the method {name}"


def test_report_schema_is_what_the_readme_promises(workplace):
    made = sorted(workplace.rglob("report.json"))
    assert made, "the commands above wrote no report"
    assert all(json.loads(path.read_text(encoding="utf-8"))["schema_version"] == 6 for path in made)
