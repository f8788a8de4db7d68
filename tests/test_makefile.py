"""What the Makefile runs is understood by what it runs."""

import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_items_page_is_made_by_a_command_that_works(monkeypatch, capsys):
    said = subprocess.run(["make", "-n", "items"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command, _, page = next(line for line in said.splitlines() if "scripts/items.py" in line).partition(" > ")
    script, *words = shlex.split(command)[1:]
    monkeypatch.setattr(sys, "argv", [script, *words, "--languages", "en"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert ended.value.code == 0
    made = capsys.readouterr().out
    kept = (ROOT / page.removesuffix(".tmp")).read_text(encoding="utf-8")
    assert made.split("## en\n")[1].strip() in kept
