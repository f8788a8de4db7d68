"""SWEEP.yaml: which points it means, and the one line that says what is wrong with it, before anything is run."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.run_folder import differences
from lm_eval_illusion.harness.sweep.plan import plan_sweep
from prune_hooks.fingerprints import code_fingerprints
from tests import families


@pytest.fixture
def plan(tmp_path):
    """Return a function: changes to a small sweep -> its plan."""

    def make(text: str = "", **changes):
        path = tmp_path / "SWEEP.yaml"
        base = {"models": ["some/tiny"], "methods": ["wanda"], "num_fewshot": 0, "chat_template": False}
        held = {key: value for key, value in {**base, **changes}.items() if value is not ...}
        path.write_text(yaml.safe_dump(held) + text, encoding="utf-8")
        return plan_sweep(path)

    return make


def test_everything_is_multiplied_and_dense_is_once_a_model(plan):
    sweep = plan(
        models=["org/one", {"pretrained": "path/to/two", "name": "second", "model_args": {"dtype": "bfloat16"}}],
        methods=["magnitude", "wanda", "random"],
        sparsities=[0.4, 0.5],
        patterns=["unstructured", "2:4"],
        seeds=[0, 7],
        calibration="builtin",
        calibration_languages=["en", "sw"],
        calibration_samples=8,
        model_args={"dtype": "float32", "attn_implementation": "eager"},
    )
    names = ["dense", "magnitude-0.4", "magnitude-0.5", "magnitude-2of4"]
    for method in ("wanda", "random"):
        for amount in ("0.4", "0.5", "2of4"):
            names += [f"{method}-{amount}", f"{method}-{amount}-seed7"]
    assert sweep.models == ["one", "second"]
    assert [point.name for point in sweep.of("one")] == [point.name for point in sweep.of("second")] == names
    points = {point.name: point.run for point in sweep.of("second")}
    both = {"dtype": "bfloat16", "attn_implementation": "eager"}
    text = {"calibration": "builtin", "calibration_languages": "en+sw", "calibration_samples": 8}
    assert points["dense"].model_args == {**both, "method": "none"}
    assert points["magnitude-2of4"].model_args == {**both, "method": "magnitude", "pattern": "2:4"}
    assert points["random-0.4-seed7"].model_args == {**both, "method": "random", "sparsity": 0.4, "prune_seed": 7}
    assert points["wanda-0.4"].model_args == {**both, **text, "method": "wanda", "sparsity": 0.4}
    assert points["dense"].pretrained == "path/to/two"


def test_left_out_means_half_of_the_weights_and_no_choice_of_prompt_is_asked_of_the_tokenizer(plan):
    sweep = plan()
    assert [point.name for point in sweep.points] == ["dense", "wanda-0.5"]
    assert {(p.run.num_fewshot, p.run.chat_template, p.run.tasks) for p in sweep.points} == {
        (0, False, ("illusion_mini",))
    }


def test_the_prompt_is_decided_once_for_all_points_of_a_model(plan, tmp_path):
    folder = families.save_tiny("gpt2", tmp_path / "tiny")
    sweep = plan(models=[str(folder)], num_fewshot=..., chat_template=...)
    assert {(p.run.num_fewshot, p.run.chat_template) for p in sweep.points} == {(0, True)}


def test_options_of_methods_and_rules_reach_their_points_alone(plan):
    sweep = plan(
        methods=["magnitude", "dsnot"],
        allocations=["uniform", "owl"],
        patterns=["unstructured", "2:4"],
        method_options={"dsnot": {"cycles": 7, "start": "magnitude"}},
        allocation_options={"owl": {"lambda": 0.1}},
        calibration_samples=4,
        seeds=[0, 3],
    )
    points = {point.name: point.run.model_args for point in sweep.points}
    assert sorted(points) == [
        "dense",
        *("dsnot-0.5", "dsnot-0.5-owl", "dsnot-0.5-owl-seed3", "dsnot-0.5-seed3", "dsnot-2of4", "dsnot-2of4-seed3"),
        *("magnitude-0.5", "magnitude-0.5-owl", "magnitude-0.5-owl-seed3", "magnitude-2of4"),
    ]
    text = {"calibration_samples": 4}
    owl = {"allocation": "owl", "allocation_options": "lambda:0.1", **text}
    assert points["magnitude-0.5"] == {"method": "magnitude", "sparsity": 0.5}
    assert points["magnitude-0.5-owl"] == {"method": "magnitude", "sparsity": 0.5, **owl}  # the rule is calibrated
    dsnot = {"method": "dsnot", "sparsity": 0.5, "method_options": "cycles:7+start:magnitude"}
    assert points["dsnot-0.5"] == {**dsnot, **text}
    assert points["dsnot-0.5-owl-seed3"] == {**dsnot, **owl, "prune_seed": 3}


def test_a_mask_is_one_point(plan, tmp_path):
    from prune_hooks import PruneSpec, prune

    file = tmp_path / "found.safetensors"
    spec = PruneSpec(method="magnitude", sparsity=0.5, save_mask=str(file))
    prune(families.build("llama"), None, spec, progress=False)
    sweep = plan(methods=["wanda", "mask"], sparsities=[0.4, 0.5], allocations=["uniform", "owl"], mask=str(file))
    assert [p.name for p in sweep.points if p.method == "mask"] == ["mask"]
    (run,) = [p.run for p in sweep.points if p.method == "mask"]
    assert run.model_args == {"method": "mask", "mask": str(file)}
    before = run.made_from()["files"]
    assert str(file) in before
    file.write_bytes(file.read_bytes() + b" ")
    assert run.made_from()["files"] != before


USERS = """
from prune_hooks.registry import Method
from prune_hooks.statistics import Needs
MINE = Method("mine", Needs.NOTHING, print)
def shares(targets, sparsity):
    return [sparsity]
"""


@pytest.mark.parametrize(
    "named",
    [
        {"method": "users_own:MINE"},
        {"method": "users_package.methods:MINE"},
        {"allocation": "users_own:shares"},
        {"method": "dsnot", "method_options": "start:users_own:MINE"},
        {"method": "dsnot", "method_options": {"start": "users_package.methods:MINE"}},
    ],
)
def test_edited_code_of_ones_own_makes_another_run(plan, tmp_path, monkeypatch, named):
    package = tmp_path / "users_package"
    package.mkdir()
    one, helper = tmp_path / "users_own.py", package / "helper.py"
    for path in (one, helper, package / "__init__.py", package / "methods.py"):
        path.write_text(USERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = plan(methods=["wanda"]).points[1].run
    run = replace(run, model_args={**run.model_args, **named})
    before = run.made_from()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "methods.pyc").write_text("compiled")
    assert run.made_from() == before
    for path in (one, helper):  # a method in a package may use any other module of it
        path.write_text(USERS + "# edited")
    assert differences(before, run.made_from()) == ["files"]


def test_code_that_cannot_be_found_is_left_to_the_run_to_complain_of():
    for missing in ("users_nothing:MINE", ":MINE", "users.nothing:MINE", "builtins:print"):
        assert code_fingerprints(missing) == {}


def test_a_saved_mask_that_dsnot_refines_is_one_point_a_seed(plan, tmp_path):
    from prune_hooks import save_mask
    from tests.families import build

    file = tmp_path / "mask.safetensors"
    save_mask(build("llama"), file)
    sweep = plan(
        methods=["wanda", "dsnot"],
        sparsities=[0.4, 0.5],
        method_options={"dsnot": {"start": "mask"}},
        mask=str(file),
    )
    (run,) = [p.run for p in sweep.points if p.method == "dsnot"]
    assert (run.model_args["mask"], run.model_args["method_options"]) == (str(file), "start:mask")
    assert "sparsity" not in run.model_args


def test_files_that_options_name_are_part_of_what_a_run_was_made_from(plan, tmp_path):
    for name in ("table.json", "shares.json", "owl.json"):
        (tmp_path / name).write_text("{}")
    run = plan(methods=["magnitude"]).points[1].run
    named = {
        "allocation": f"file:{tmp_path}/table.json",
        "calibration_languages": f"mbs:{tmp_path}/shares.json+en",
        "allocation_options": f"x:1+path:{tmp_path}/owl.json",
    }
    files = replace(run, model_args={**run.model_args, **named}).made_from()["files"]
    assert {Path(path).name for path in files} >= {"table.json", "shares.json", "owl.json"}


@pytest.mark.parametrize("name", ["tokenizer", "peft", "delta", "calibration", "mask"])
def test_folders_that_model_arguments_name_are_too(plan, tmp_path, monkeypatch, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "held").mkdir()
    run = plan(methods=["magnitude"]).points[1].run
    for named in (str(tmp_path / "held"), "~/held"):
        asked = replace(run, model_args={**run.model_args, name: named})
        (tmp_path / "held" / "file.json").write_text("{}")
        before = asked.made_from()
        assert asked.made_from() == before
        (tmp_path / "held" / "file.json").write_text("{ }")
        assert differences(before, asked.made_from()) == ["files"]


def test_a_rule_of_ones_own_is_in_the_name(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "my_rules", type(sys)("my_rules"))
    sys.modules["my_rules"].rising = lambda targets, sparsity: [sparsity] * len(targets.blocks)
    sweep = plan(allocations=["uniform", "my_rules:rising"])
    assert [point.name for point in sweep.points] == ["dense", "wanda-0.5", "wanda-0.5-my_rules_rising"]
    assert sweep.points[2].run.model_args["allocation"] == "my_rules:rising"


WRONG = {
    "bare pattern": (
        {"text": "patterns: [2:4]\n"},
        r"patterns: 124 is no text: write it in quotes, \"2:4\": bare, YAML",
    ),
    "bare no": ({"text": "calibration_languages: [en, no]\n"}, r"calibration_languages: False is no text: .*\"no\""),
    "unknown key": (
        {"sparsity": [0.5]},
        r"unknown key sparsity\. Did you mean sparsities\? "
        r"Expected some of models, methods, sparsities, pat",
    ),
    "key of a model": (
        {"models": [{"pretrained": "a", "dtype": "x"}]},
        r"unknown key models\.0\.dtype\. Expected some",
    ),
    "method": (
        {"methods": ["wandaa"]},
        r"unknown method 'wandaa' \(did you mean 'wanda'\?\): expected one of .*magnitude, magnitude_global",
    ),
    "allocation": ({"allocations": ["owl2"]}, r"unknown allocation 'owl2' .*: expected one of .*uniform"),
    "task": ({"tasks": ["nonsense"]}, r"unknown name 'nonsense'\. Expected a data set"),
    "option of the model": ({"model_args": {"dtyp": "x"}}, r"no option 'dtyp'\. Did you mean dtype\?"),
    "option of the sweep": ({"model_args": {"sparsity": 0.5}}, r"sparsity is an option of the sweep itself"),
    "sparsity": ({"sparsities": [1.5]}, r"sparsities\.0: input should be less than 1, found 1\.5"),
    "dense sparsity": ({"sparsities": [0]}, r"sparsities\.0: input should be greater than 0, found 0"),
    "text for a number": ({"sparsities": ["0.5"]}, r"sparsities\.0: input should be a valid number, found '0\.5'"),
    "no list": ({"methods": "wanda"}, r"methods: input should be a valid list, found 'wanda'"),
    "pattern": ({"patterns": ["4:2"]}, r"pattern '4:2' keeps 4 of 2"),
    "options of another method": (
        {"method_options": {"alps": {}}},
        r"method_options: alps is not asked",
    ),
    "unknown option": ({"method_options": {"wanda": {"a": 1}}}, r"method 'wanda' has no option 'a'"),
    "mask without a file": ({"methods": ["mask"]}, r"a file and the method mask .* go together"),
    "a start mask without a file": (
        {"methods": ["dsnot"], "method_options": {"dsnot": {"start": "mask"}}},
        r"a file and the method mask \(or dsnot with start: mask\) go together",
    ),
    "pattern under a rule": ({"patterns": ["2:4"], "allocations": ["owl"]}, r"n:m patterns go with uniform alone"),
    "unused sparsities": ({"sparsities": [0.5], "patterns": ["2:4"]}, r"sparsities: no pattern here uses them"),
    "dense method": ({"methods": ["none"]}, r"none is the dense model, which is always a point"),
    "twice": ({"seeds": [1, 1]}, r"seeds: 1 is named twice"),
    "empty": ({"seeds": []}, r"seeds: empty: expected at least one"),
    "no models": ({"models": ...}, r"models is missing; expected at least models and methods"),
    "one folder": ({"models": ["a/tiny", "b/tiny"]}, r"models: two of them would share the folder tiny: give one"),
    "order": ({"sequential": "weights"}, r"sequential: input should be 'weight' or 'block', found 'weights'"),
    "restore": ({"restore": "disk"}, r"restore: input should be 'memory' or 'shards', found 'disk'"),
    "data": ({"tasks": ["tydiqa_sw"], "data": "nowhere"}, r"illusion_data names the folder nowhere, which has no"),
    "folder": ({"models": ["./nowhere/model"]}, r"\./nowhere/model: no such folder"),
    "tokenizer": ({"models": ["nobody/model"], "chat_template": ...}, r"no tokenizer could be loaded"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_what_is_wrong_is_said_in_one_line_that_names_the_file(plan, case):
    changes, message = WRONG[case]
    with pytest.raises(IllusionError, match=message) as raised:
        plan(**changes)
    assert "SWEEP.yaml: " in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "message"), [("a: [", "cannot be read"), ("- a", "holds a list: expected keys")])
def test_a_file_that_is_no_sweep(tmp_path, text, message):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(IllusionError, match=message):
        plan_sweep(path)
    with pytest.raises(IllusionError, match=r"none\.yaml: cannot be read"):
        plan_sweep(Path("none.yaml"))


def test_data_that_the_environment_names_is_too(plan, tmp_path, monkeypatch):
    data = tmp_path / "data" / "tydiqa"
    data.mkdir(parents=True)
    (data / "dev.json").write_text("{}")
    run = plan(methods=["magnitude"]).points[1].run
    monkeypatch.delenv("LM_EVAL_ILLUSION_DATA", raising=False)
    without = run.made_from()
    monkeypatch.setenv("LM_EVAL_ILLUSION_DATA", str(data.parent))
    before = run.made_from()
    assert differences(without, before) == ["files"]
    (data / "dev.json").write_text("{} ")
    assert differences(before, run.made_from()) == ["files"]
    named = replace(run, data=str(tmp_path / "elsewhere"))  # what is named goes before what the environment says
    assert str(data.parent) not in named.made_from()["files"]
