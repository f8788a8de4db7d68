"""Every task file is found, loads, and says what the code says."""

import re

import pytest
import yaml

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.prompts import delimiter_of
from lm_eval_illusion.pairs.rows import MAX_NEW_TOKENS

from .conftest import TASKS

CONDITIONS = ("mc", "mc_far", "gen")
NAMES = {f"{name}_{c}_{code}" for name, entry in DATASETS.items() for c in CONDITIONS for code in entry.languages}
GROUPS = {f"{name}_{c}" for name in DATASETS for c in CONDITIONS}


def test_every_file_is_in_the_index(manager):
    found = manager()
    assert set(found.all_subtasks) == NAMES
    assert set(found.all_groups) == GROUPS
    assert {entry.yaml_path for entry in found.task_index.values()} == set(TASKS.glob("**/*.yaml"))


def test_shared_templates_are_no_tasks():
    templates = sorted(path.name for path in (TASKS / "common").iterdir() if path.is_file() and path.suffix != ".py")
    assert templates == ["gen_template", "mc_far_template", "mc_template"]


def test_no_task_fixes_the_number_of_demonstrations():
    for path in [*TASKS.glob("**/*.yaml"), *TASKS.glob("common/*_template")]:
        assert not re.search(r"^\s*num_fewshot", path.read_text(encoding="utf-8"), flags=re.MULTILINE), path


def test_names_do_not_collide_with_the_harness():
    assert not any(name.startswith(("tydiqa_goldp", "xquad_ar", "xquad_en")) for name in NAMES | GROUPS)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_task_file_says_what_the_catalogue_says(name):
    dataset = next(d for d in DATASETS if name.startswith(d))
    language = name.rsplit("_", 1)[1]
    content = yaml.safe_load((TASKS / dataset / f"{name}.yaml").read_text(encoding="utf-8"))
    assert content["task"] == name
    assert content["include"] == f"../common/{name.removeprefix(dataset + '_').removesuffix('_' + language)}_template"
    assert content["dataset_kwargs"] == {"pairs_dataset": dataset, "pairs_language": language}
    assert content.get("target_delimiter", " ") == delimiter_of(language)


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_every_task_loads(manager, group):
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


def test_a_wrong_key_in_metadata_is_an_error(manager):
    with pytest.raises(IllusionError, match="unknown key 'illusion_items'"):
        manager(illusion_items=3).load(["illusion_mini_mc_en"])


def test_missing_data_is_an_error(manager):
    with pytest.raises(IllusionError, match="illusion_data names the folder /nowhere"):
        manager(illusion_data="/nowhere").load(["tydiqa_mc_sw"])
