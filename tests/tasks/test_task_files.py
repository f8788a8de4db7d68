"""Every task file is found, loads, and says what the code says."""

import importlib.util
import json
import re

import pytest
import yaml

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import names
from lm_eval_illusion.harness.task_files import metrics_of
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.conditions import CONDITIONS, GROUPS, HALVES
from lm_eval_illusion.pairs.docs import build
from lm_eval_illusion.pairs.prompts import delimiter_of
from lm_eval_illusion.pairs.rows import MAX_NEW_TOKENS

from .conftest import TASKS

NAMES = {f"{name}_{c}_{code}" for name, entry in DATASETS.items() for c in CONDITIONS for code in entry.languages}
GROUP_NAMES = {f"{name}_{group}" for name in DATASETS for group in (*GROUPS, "probes")}
ONE_LANGUAGE = {"tydiqa": "te", "xquad": "zh", "illusion_mini": "ar"}


@pytest.fixture(scope="module")
def script():
    path = TASKS.parent / "scripts" / "task_files.py"
    spec = importlib.util.spec_from_file_location("task_files_script", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_is_in_the_index(manager):
    found = manager()
    assert set(found.all_subtasks) == NAMES
    assert set(found.all_groups) == GROUP_NAMES
    assert {entry.yaml_path for entry in found.task_index.values()} == set(TASKS.glob("**/*.yaml"))


def test_names_are_those_of_the_index():
    assert set(names.all_tasks()) == NAMES
    assert set(names.all_groups()) == GROUP_NAMES


def test_the_files_are_what_the_script_writes(script, capsys):
    assert script.main(["--check"]) == 0, capsys.readouterr().out


def test_the_check_names_what_differs(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "TASKS", tmp_path)
    monkeypatch.setattr(script, "all_files", lambda: {"common/a_template": "x: 1\n", "d/d_mc_en.yaml": "y: 2\n"})
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    (tmp_path / "d" / "d_mc_en.yaml").write_text("y: 3\n", encoding="utf-8")
    (tmp_path / "d" / "old.yaml").write_text("z: 3\n", encoding="utf-8")
    capsys.readouterr()
    assert script.main(["--check"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in told] == ["tasks/d/old.yaml", "tasks/d/d_mc_en.yaml"]
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    assert not (tmp_path / "d" / "old.yaml").exists()


def test_shared_templates_are_no_tasks():
    templates = sorted(path.name for path in (TASKS / "common").iterdir() if path.is_file() and path.suffix != ".py")
    assert templates == sorted(f"{name}_template" for name in CONDITIONS)


def test_no_task_fixes_the_number_of_demonstrations():
    for path in [*TASKS.glob("**/*.yaml"), *TASKS.glob("common/*_template")]:
        assert not re.search(r"^\s*num_fewshot", path.read_text(encoding="utf-8"), flags=re.MULTILINE), path


def test_names_do_not_collide_with_the_harness():
    assert not any(name.startswith(("tydiqa_goldp", "xquad_ar", "xquad_en")) for name in NAMES | GROUP_NAMES)


def test_every_task_file_says_what_the_catalogue_says():
    for task in names.all_tasks().values():
        content = yaml.safe_load((TASKS / task.dataset / f"{task.name}.yaml").read_text(encoding="utf-8"))
        named = {} if task.condition in HALVES else {"pairs_condition": task.condition}
        assert content["task"] == task.name
        assert content["include"] == f"../common/{task.condition}_template"
        assert content["dataset_kwargs"] == {
            "pairs_dataset": task.dataset,
            "pairs_language": task.language,
            **named,
        }
        assert content.get("target_delimiter", " ") == delimiter_of(task.language)


@pytest.mark.parametrize("group", sorted(GROUP_NAMES))
def test_a_group_holds_its_conditions(group):
    dataset = next(d for d in DATASETS if group.startswith(d))
    content = yaml.safe_load((TASKS / dataset / f"_{group}.yaml").read_text(encoding="utf-8"))
    members = [task for name in content["task"] for task in names.all_groups().get(name, (name,))]
    assert content["group"] == group
    assert tuple(members) == names.all_groups()[group]
    conditions = GROUPS.get(group.removeprefix(f"{dataset}_"), ())
    aggregated = [entry["metric"] for entry in content.get("aggregate_metric_list", ())]
    assert aggregated == (list(metrics_of(CONDITIONS[conditions[0]])) if len(conditions) == 1 else [])


@pytest.mark.parametrize("group", sorted(f"{d}_{half}" for d in DATASETS for half in HALVES))
def test_every_task_of_a_half_loads(manager, group):
    loaded = manager(illusion_items_per_language=3).load([group])
    dataset = next(d for d in DATASETS if group.startswith(d))
    assert set(loaded["tasks"]) == {f"{group}_{code}" for code in DATASETS[dataset].languages}
    for task in loaded["tasks"].values():
        config = task.config
        assert len(task.eval_docs) == 3
        assert len(task.fewshot_docs()) >= 16
        assert config.fewshot_split == config.test_split
        assert config.num_fewshot is None
        assert task.VERSION == 1.0
        if group.endswith("_gen"):
            assert config.generation_kwargs == {"until": [], "do_sample": False, "max_gen_toks": MAX_NEW_TOKENS}
    aggregated = {entry.metric for entry in loaded["groups"][group].aggregate_metric_list}
    metrics = {"exact_match", "f1", "correct"} if group.endswith("_gen") else {"acc", "acc_norm", "acc_mutual_info"}
    assert aggregated == metrics
    assert all(entry.weight_by_size for entry in loaded["groups"][group].aggregate_metric_list)
    assert metrics | {"illusion"} == set(next(iter(loaded["tasks"].values())).aggregation())


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_probe_loads(manager, data_folder, tmp_path, dataset):
    language = ONE_LANGUAGE[dataset]
    rows = build(dataset, language, folder=data_folder, count=3).rows
    fed = tmp_path / "fed.json"
    answers = {row["item_id"]: {c: "x" for c in CONDITIONS} for row in rows}
    fed.write_text(json.dumps({"schema": 1, "from": [], "items": None, "answers": answers}), encoding="utf-8")
    probes = [name for name in CONDITIONS if name not in HALVES]
    asked = [f"{dataset}_{name}_{language}" for name in probes]
    loaded = manager(illusion_items_per_language=3, illusion_answers=str(fed)).load(asked)["tasks"]
    for name, task in zip(probes, (loaded[full] for full in asked), strict=True):
        config, kind = task.config, CONDITIONS[name].kind
        assert len(task.eval_docs) == 3
        assert {doc["condition"] for doc in task.eval_docs} == {name}
        assert len(task.fewshot_docs()) >= 16
        assert (config.fewshot_split, config.num_fewshot, task.VERSION) == (config.test_split, None, 1.0)
        assert config.target_delimiter == delimiter_of(language)
        if kind in ("choice", "spans"):
            assert config.output_type == "multiple_choice"
            for doc in task.eval_docs:
                right = task.doc_to_choice(doc)[task.doc_to_target(doc)]
                assert right == ("ABCD"[doc["gold_near"]] if name == "mc_letters" else doc["gold_text"])
        else:
            assert config.output_type == "generate_until"
            assert config.generation_kwargs == {"until": [], "do_sample": False, "max_gen_toks": MAX_NEW_TOKENS}
        assert {*metrics_of(CONDITIONS[name]), "illusion"} <= set(task.aggregation())


def test_a_wrong_key_in_metadata_is_an_error(manager):
    with pytest.raises(IllusionError, match="unknown key 'illusion_item'"):
        manager(illusion_item=3).load(["illusion_mini_mc_en"])


def test_missing_data_is_an_error(manager):
    with pytest.raises(IllusionError, match="illusion_data names the folder /nowhere"):
        manager(illusion_data="/nowhere").load(["tydiqa_mc_sw"])
