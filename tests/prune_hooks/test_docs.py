"""What docs/own-method.md and docs/masks.md show is run as it stands there."""

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from prune_hooks import PruneSpec, method_names, prune, registry
from prune_hooks.__main__ import main
from prune_hooks.mask_header import read_header
from tests.families import build, save_tiny, tiny_tokenizer, token_rows

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.S)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """my_pkg as the page shows it, and a tiny model in place of the reader's."""
    method, _, rule = blocks("own-method.md", "python")
    package = tmp_path / "my_pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "my_module.py").write_text(method, encoding="utf-8")
    (package / "my_rules.py").write_text(rule, encoding="utf-8")
    for name in ("my_pkg", "my_pkg.my_module", "my_pkg.my_rules"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    method_names()
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    save_tiny("llama", tmp_path / "YOUR_MODEL")
    return method


def test_the_method_is_short(own):
    assert len([line for line in own.splitlines() if line.strip()]) < 25


def test_the_example_without_the_harness_prunes(own, capsys):
    scope = {}
    exec(blocks("own-method.md", "python")[1], scope)
    assert scope["receipt"].sparsity_reached == pytest.approx(0.6, abs=0.03)
    assert scope["receipt"].allocation["rule"] == "owl"
    assert "my_pkg.my_module:root_wanda" in capsys.readouterr().out


def test_the_command_is_understood(own):
    (command,) = blocks("own-method.md", "bash")
    words = shlex.split(command)
    args = dict(pair.split("=", 1) for pair in words[words.index("--model_args") + 1].split(","))
    spec, rest = PruneSpec.from_model_args(args)
    assert registry.get_method(spec.method).resolve(spec.method_options) == {"power": 0.7}
    assert rest == {"pretrained": "YOUR_MODEL"}


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("family", ["gpt2", "phi3", "mixtral", "t5"])
@pytest.mark.parametrize("pattern", ["unstructured", "2:4"])
def test_it_takes_every_pattern_and_architecture(family, pattern):
    spec = PruneSpec(method="my_pkg.my_module:root_wanda", pattern=pattern, calibration=token_rows())
    assert prune(build(family), None, spec, progress=False).sparsity_reached == 0.5


@pytest.mark.usefixtures("own")
def test_the_rule_gives_later_blocks_more():
    spec = PruneSpec(method="magnitude", allocation="my_pkg.my_rules:rising")
    receipt = prune(build("llama"), None, spec, progress=False)
    assert [block["sparsity"] for block in receipt.allocation["blocks"]] == pytest.approx([0.4, 0.5, 0.6])


def test_the_table_of_needs_is_whole():
    from prune_hooks.statistics import Needs

    page = (DOCS / "own-method.md").read_text(encoding="utf-8")
    assert all(f"`Needs.{name}`" in page for name in Needs.__members__)


# --- masks.md


def test_the_python_of_the_masks_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, training = blocks("masks.md", "python")
    scope = {"model": build("llama"), "other": build("llama", seed=1), "third": build("gpt2"), "fourth": build("gpt2")}
    scope["tokenizer"] = None
    exec(first.replace('method="wanda"', 'method="magnitude"'), scope)
    assert read_header(tmp_path / "wanda.safetensors").sparsity == 0.5
    (tmp_path / "wanda.safetensors").rename(tmp_path / "round1.safetensors")
    rows = token_rows()
    scope |= {"model": scope["other"], "batches": [{"input_ids": rows, "labels": rows}] * 2}
    scope["optimizer"] = torch.optim.SGD(scope["model"].parameters(), lr=0.1)
    up = scope["model"].model.layers[0].mlp.up_proj.weight
    before = up.detach().clone()
    exec(training, scope)
    assert torch.equal(up == 0, before == 0)
    assert not torch.equal(up, before)


def test_the_two_commands_of_the_loop_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_tiny("llama", tmp_path / "trained")
    save_tiny("llama", tmp_path / "start", seed=1)
    commands = [line.split("#")[0].strip() for line in blocks("masks.md", "bash")[1].splitlines()]
    for command in commands:
        words = shlex.split(command)
        assert words[:3] == ["python", "-m", "prune_hooks"]
        assert main(words[3:]) == 0
    assert "round1.safetensors, sha256" in capsys.readouterr().out
    ticket = AutoModelForCausalLM.from_pretrained(tmp_path / "ticket1")
    start = AutoModelForCausalLM.from_pretrained(tmp_path / "start")
    weight, dense = (model.model.layers[1].mlp.up_proj.weight for model in (ticket, start))
    assert float((weight == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert torch.equal(weight[weight != 0], dense[weight != 0])
    assert '"method": "mask"' in (tmp_path / "ticket1" / "receipt.json").read_text()


def test_the_harness_commands_of_the_masks_page_are_understood(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prune(build("llama"), None, PruneSpec(method="magnitude", save_mask="wanda.safetensors"), progress=False)
    for line in blocks("masks.md", "bash")[0].splitlines():
        words = shlex.split(line)
        args = dict(pair.split("=", 1) for pair in words[words.index("--model_args") + 1].split(","))
        spec, rest = PruneSpec.from_model_args(args)
        assert (spec.sparsity, rest.keys()) == (0.5, {"pretrained"})


# --- the command


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model", "method"], "'method' is no NAME=VALUE: expected options such as method=wanda sparsity=0.5"),
        (["model", "methods=wanda"], "unknown option 'methods': expected one of allocation"),
        (["model", "sparsity=2"], "sparsity is '2': expected a number from 0 to below 1"),
        (["./empty", "method=magnitude"], "./empty could not be loaded ("),
        (["model", "method=magnitude", "--out", "model"], "--out model is there already: expected a new folder"),
    ],
)
def test_what_the_command_refuses(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    save_tiny("llama", tmp_path / "model")
    (tmp_path / "empty").mkdir()
    capsys.readouterr()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_the_command_saves_what_a_structured_method_cut(tmp_path, monkeypatch):
    from prune_hooks.structured.files import load_sliced

    monkeypatch.chdir(tmp_path)
    save_tiny("llama", tmp_path / "model")
    options = ["method=slicegpt", "sparsity=0.25", "calibration_samples=2", "calibration_length=32"]
    assert main(["model", *options, "--out", "cut"]) == 0
    cut, dense = load_sliced("cut"), AutoModelForCausalLM.from_pretrained("model")
    count = lambda model: sum(p.numel() for p in model.model.layers.parameters())  # noqa: E731
    assert count(cut) < count(dense)


def test_methods_page_lists_every_method_and_rule_with_its_options():
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    rows = {row.split("|")[1].strip().strip("`"): row for row in page.splitlines() if row.startswith("| `")}
    named = {name: registry.get_method(name).options for name in method_names() if name != "none"}
    named |= {name: registry.get_allocation(name).options for name in ("uniform", "owl", "correlation")}
    for name, options in named.items():
        listed = set(re.findall(r"`([^`]+)`", rows[name].rstrip("|").split("|")[-1]))
        assert listed == set(options), f"docs/methods.md lists {listed} for {name}"


def test_both_tables_say_within_what_each_method_compares(monkeypatch):
    page = [line.split("|") for line in (DOCS / "methods.md").read_text(encoding="utf-8").splitlines()]
    doc = importlib.import_module("prune_hooks.methods").__doc__
    tables = [
        {cells[1].strip(" `"): cells[3].strip() for cells in page if len(cells) == 8},
        {
            cells[1].strip(" `"): cells[2].strip()
            for cells in (line.split("|") for line in doc.splitlines())
            if cells[1:]
        },
    ]
    seen: set[str] = set()
    choose = registry.Group.choose

    def noted(group, score, within):
        seen.add(within)
        return choose(group, score, within)

    monkeypatch.setattr(registry.Group, "choose", noted)
    text = {"calibration": "builtin", "calibration_samples": 2, "calibration_length": 32}
    for name in ("random", "magnitude", "wanda", "wanda_variant", "ria", "dsnot", "mwanda", "alps"):
        seen.clear()
        prune(build("llama"), tiny_tokenizer(), PruneSpec(method=name, **text), progress=False)
        (within,) = seen
        assert [table[name].split(",")[0] for table in tables] == [within] * 2, name
