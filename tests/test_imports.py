"""The walls between the rooms: who may import what, and what an import costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WALLS = {
    "prune_hooks": {"lm_eval", "lm_eval_illusion", "scipy", "jinja2"},
    "lm_eval_illusion/report": {"torch", "transformers", "lm_eval", "prune_hooks", "accelerate", "datasets"},
    "lm_eval_illusion/pairs": {"torch", "transformers", "lm_eval", "prune_hooks", "accelerate", "scipy"},
}


def imported(path: Path) -> set[str]:
    """Every top-level package a file imports anywhere in it, relative imports resolved."""
    names: set[str] = set()
    package = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level]) if node.level else ""
            names.add(".".join(part for part in (base, node.module or "") if part))
    return names


def rooms(name: str) -> list[str]:
    return [name.split(".")[0], ".".join(name.split(".")[:2])]


@pytest.mark.parametrize("room", sorted(WALLS))
def test_no_room_imports_through_a_wall(room):
    files = sorted((ROOT / room).rglob("*.py"))
    assert files, f"{room} has no modules"
    broken = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in sorted(imported(path))
        if name.split(".")[0] in WALLS[room]
    ]
    assert broken == []


def test_report_and_pairs_reach_the_harness_room_nowhere():
    for room in ("report", "pairs"):
        for path in (ROOT / "lm_eval_illusion" / room).rglob("*.py"):
            assert not any(name.startswith("lm_eval_illusion.harness") for name in imported(path)), path


def test_a_planted_import_is_seen(tmp_path, monkeypatch):
    planted = tmp_path / "lm_eval_illusion" / "report" / "bad.py"
    planted.parent.mkdir(parents=True)
    planted.write_text("def f():\n    import torch.nn\n    from ..harness import model\n", encoding="utf-8")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert imported(planted) == {"torch.nn", "lm_eval_illusion.harness"}


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(out.stdout.split())


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import lm_eval_illusion", {"torch", "transformers", "lm_eval", "scipy", "pydantic"}),
        ("import prune_hooks", {"torch", "transformers", "lm_eval"}),
        ("import lm_eval_illusion.harness.plugin", {"torch", "transformers", "lm_eval"}),
        ("import lm_eval_illusion.report.build", {"torch", "transformers", "lm_eval"}),
        ("import lm_eval_illusion.pairs", {"torch", "transformers", "lm_eval", "datasets"}),
        ("import lm_eval_illusion.cli", {"torch", "transformers", "lm_eval", "scipy"}),
    ],
)
def test_nothing_heavy_happens_at_import(statement, heavy):
    assert loaded_by(statement) & heavy == set()
