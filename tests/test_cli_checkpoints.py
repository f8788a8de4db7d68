"""`export` and `inspect` from outside, and what docs/export.md shows, run as it stands there."""

import inspect as signatures
import json
import re
import shlex
import subprocess
import sys

import pytest

from lm_eval_illusion import checkpoint_commands
from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.checkpoint.formats import METHODS
from lm_eval_illusion.model_words import key_values
from prune_hooks import PruneSpec
from tests import families
from tests.test_cli import ROOT, cli

PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A tiny Gemma, exported: (folder, what the command said)."""
    root = tmp_path_factory.mktemp("export")
    source = families.save_tiny("gemma3", root / "model")
    words = ["export", "--pretrained", str(source), "--method", "magnitude", "--pattern", "2:4", "--device", "cpu"]
    return root / "out", cli(*words, "--model_args", "dtype=bfloat16", "--out", str(root / "out"))


def test_export_says_what_it_reached_and_where_it_is(exported):
    folder, done = exported
    assert done.returncode == 0, done.stderr[-3000:]
    held = json.loads((folder / "receipt.json").read_text(encoding="utf-8"))
    assert done.stdout.splitlines() == [
        "sparsity: 0.5000 of block weights (asked 0.5000)",
        f"weights sha256: {held['receipt']['weights_sha256']}",
        f"exported: {folder} (from_pretrained loads it: see README.md there)",
    ]


def test_inspect_in_words_and_as_json(exported):
    folder, _ = exported
    shown, told = cli("inspect", str(folder)), cli("inspect", str(folder), "--json")
    assert "2:4 exactly in 21 of 21" in shown.stdout
    found = json.loads(told.stdout)
    assert found["schema"] == 1
    assert found["blocks"]["sparsity"] == 0.5
    assert found["dtypes"] == {"BF16": found["whole"]["weights"]}
    assert found["tied"]["state"] == "tied"
    assert (found["receipt"]["found"], found["receipt"]["differing"]) == (21, [])
    assert {matrix["zeros"] for matrix in found["matrices"] if matrix["block"]} == {512, 768, 256}
    assert (shown.stderr, told.stderr) == ("", "")


def test_errors_are_one_line_and_exit_code_2(exported, tmp_path):
    folder, _ = exported
    for words, message in (
        (["export", "--pretrained", str(folder), "--out", str(folder)], "is a folder with files in it; expected a new"),
        (
            ["export", "--pretrained", "x", "--method", "wandaa", "--out", str(tmp_path / "o")],
            "unknown method 'wandaa'",
        ),
        (["export", "--pretrained", "x", "--model_args", "a,b", "--out", str(tmp_path / "o")], "'a' is no key=value"),
        (["inspect", str(tmp_path / "none")], "no such checkpoint"),
    ):
        done = cli(*words)
        assert done.returncode == 2, done.stdout
        assert "Traceback" not in done.stderr
        assert message in done.stderr.strip().splitlines()[-1]
        assert done.stderr.strip().splitlines()[-1].startswith("error: ")


def test_export_has_every_pruning_option():
    named = set(signatures.signature(checkpoint_commands.export).parameters)
    assert PruneSpec.option_names() == named - {"pretrained", "out", "model_args", "device", "shard_size"}
    for name in PruneSpec.option_names():
        assert f"`--{name}`" in PAGE, name


def test_model_arguments_without_a_value_are_named():
    assert key_values("") == {}
    assert key_values("max_length=3,trust_remote_code=False") == {"max_length": 3, "trust_remote_code": False}
    with pytest.raises(IllusionError, match=r"--model_args: 'b' is no key=value; lists are joined with \+"):
        key_values("a=1,b")


def test_inspect_imports_no_model_code(exported):
    code = (
        "import sys; from pathlib import Path; from lm_eval_illusion.harness.inspect import inspect_checkpoint\n"
        f"inspect_checkpoint(Path({str(exported[0])!r}))\n"
        "print(sorted(name for name in ('transformers', 'lm_eval') if name in sys.modules))"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert seen.stdout.strip() == "[]"


# ------------------------------------------------------------------ docs/export.md
@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    families.save_tiny("llama", folder / "YOUR_MODEL")
    return folder


def test_the_page_s_commands_run_in_its_order(workplace):
    commands = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]
    assert len(commands) == 7
    for command in commands:
        command = re.sub(r"tydiqa_(mc|gen)\b", r"illusion_mini_\1_sw", command)
        words = shlex.split(command)[1:]
        if words[0] == "export":
            words += ["--device", "cpu", "--calibration_samples", "2", "--calibration_length", "64"]
        if words[0] == "run":
            words += ["--device", "cpu", "--limit", "2"]
        done = subprocess.run(
            [sys.executable, "-m", "lm_eval_illusion.cli", *words],
            capture_output=True,
            text=True,
            cwd=workplace,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr[-2000:]}"
    (told,) = (workplace / "report").glob("report.json")
    assert json.loads(told.read_text(encoding="utf-8"))["runs"][1]["label"] == "wanda 2:4"
    assert json.loads((workplace / "report_packed" / "report.json").read_text())["runs"][1]["label"] == "packed"


def test_the_page_names_every_format():
    table = PAGE.split("| format | counted |")[1].split("\n\n")[0].lower()
    told = {"fp8": "fp8", "fbgemm_fp8": "fp8", "gguf": "gguf", "mxfp4": "mxfp4"}
    for method, (name, _) in METHODS.items():
        assert told.get(method, name.lower().removeprefix("nvidia ")) in table, method
