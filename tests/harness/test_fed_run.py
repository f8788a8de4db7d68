"""Second runs on a tiny model: what a run fed with another's failures or answers gives is what a full run gives."""

import json
import math
from pathlib import Path

import pytest
from lm_eval.tasks import _index

from lm_eval_illusion.harness import launch
from lm_eval_illusion.harness.feed import Feeding
from lm_eval_illusion.harness.pair import write_pair
from lm_eval_illusion.harness.sweep.once import found_out_once
from lm_eval_illusion.pairs.conditions import CONDITIONS
from tests.harness.fed_runs import record, write_run
from tests.harness.test_pair import rows, write

PROBED = tuple(name for name, condition in CONDITIONS.items() if condition.answers_from is None and name != "mc")
METADATA = {"illusion_items_per_language": 3, "illusion_samples": 2}


def names(conditions, *languages, dataset="illusion_mini"):
    return ",".join(f"{dataset}_{condition}_{code}" for condition in conditions for code in languages)


def read(out: Path) -> dict[tuple[str, str], dict]:
    found = {}
    for path in out.rglob("samples_*.jsonl"):
        for line in filter(None, path.read_text(encoding="utf-8").split("\n")):
            told = json.loads(line)
            found[told["illusion"]["condition"], told["illusion"]["item_id"]] = {
                "prompt_hash": told["prompt_hash"],
                "doc_hash": told["doc_hash"],
                **told["illusion"],
            }
    return found


def alike(one, other) -> bool:
    """Say whether two records are the same; scores may differ by rounding, which follows the shape of a batch."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-4)
    return one == other


@pytest.fixture(scope="module")
def ask(tiny):
    """Return a function that runs tasks on a tiny model in this process and returns the output folder."""

    def call(tasks, out, feeding=None, metadata=METADATA, size=4, **options):
        words = ["--model", "pruned_hf", "--model_args", f"pretrained={tiny('llama')},method=magnitude,sparsity=0.5"]
        words += ["--tasks", tasks, "--num_fewshot", "1", "--device", "cpu"]
        words += ["--metadata", json.dumps(metadata), "--batch_size", str(size), "--output_path", str(out)]
        for key, value in options.items():
            words += [f"--{key}", str(value)]
        return launch.run(words, feeding)

    default, walk = Path(_index.__file__).resolve().parent, _index.TaskIndex._iter_yaml_files
    with pytest.MonkeyPatch.context() as patch, found_out_once():  # without the harness's own thousands of task files
        patch.setattr(
            _index.TaskIndex, "_iter_yaml_files", staticmethod(lambda root: () if Path(root) == default else walk(root))
        )
        yield call


@pytest.fixture(scope="module")
def full(ask, tmp_path_factory):
    """A full run of English questions under every condition but self-correction."""
    return ask(names((*PROBED, "mc"), "en"), tmp_path_factory.mktemp("full") / "run")


@pytest.fixture(scope="module")
def failures(full, tmp_path_factory):
    """A run that failed one of the items that the full run asked, and none in Swahili."""
    items = sorted(item for condition, item in read(full) if condition == "gen")
    told = [record(item, "gen", "x", right=n != 1) for n, item in enumerate(items)]
    told.append(record("illusion_mini/sw/q01", "gen", "x", right=True))
    return write_run(tmp_path_factory.mktemp("failed") / "run", *told), items[1:2]


def test_failures_alone_give_what_the_full_run_gives(ask, full, failures, tmp_path):
    folder, failed = failures
    out = ask(names(PROBED, "en", "sw"), tmp_path / "out", Feeding(failures=(folder,)))
    found, wanted = read(out), read(full)
    assert found.keys() == {(condition, item) for condition in PROBED for item in failed}
    for key, told in found.items():
        assert alike(told, wanted[key]), key
    (results,) = out.rglob("results_*.json")
    configs = json.loads(results.read_text(encoding="utf-8"))["configs"]
    assert configs.keys() == {f"illusion_mini_{condition}_en" for condition in PROBED}
    for config in configs.values():
        assert len(config["metadata"]["fed"]["sha256"]) == 64
        assert [origin["results"] for origin in config["metadata"]["fed"]["from"]] == ["results_T.json"]
        assert config["metadata"]["illusion_items"] == str(tmp_path / "out" / "fed.json")


@pytest.mark.parametrize("size", [1, 16])
def test_batch_size_changes_no_record_of_any_condition(ask, full, tmp_path, size):
    found, wanted = read(ask(names((*PROBED, "mc"), "en"), tmp_path / "out", size=size)), read(full)
    assert found.keys() == wanted.keys()
    assert {condition for condition, _ in found} == {*PROBED, "mc"}
    for key, told in found.items():
        assert alike(told, wanted[key]), key


def test_rounds_show_the_answers_of_the_run_before(ask, full, failures, tmp_path):
    first = ask(names(("revise1_gen", "revise1_mc"), "en"), tmp_path / "one", Feeding(answers=str(full)))
    told, before = read(first), read(full)
    answers = {item: row["answer"] for (condition, item), row in before.items() if condition == "gen"}
    assert {item: row["earlier"] for (name, item), row in told.items() if name == "revise1_gen"} == answers
    picked = {i: row["choices"][row["picked"]] for (c, i), row in before.items() if c == "mc"}
    assert {item: row["earlier"] for (name, item), row in told.items() if name == "revise1_mc"} == picked
    folder, failed = failures
    again = Feeding(answers=str(full), failures=(folder,))
    fewer = read(ask(names(("revise1_gen", "revise1_mc"), "en"), tmp_path / "few", again))
    assert fewer.keys() == {(c, item) for c in ("revise1_gen", "revise1_mc") for item in failed}
    assert all(alike(row, told[key]) for key, row in fewer.items())
    for size in (1, 16):
        out = ask(
            names(("revise1_gen", "revise1_mc"), "en"), tmp_path / str(size), Feeding(answers=str(full)), size=size
        )
        assert all(alike(row, told[key]) for key, row in read(out).items())
    second = read(ask(names(("revise2_gen",), "en"), tmp_path / "two", Feeding(answers=str(first))))
    assert {item: row["earlier"] for (_, item), row in second.items()} == {
        item: row["answer"] for (name, item), row in told.items() if name == "revise1_gen"
    }


def test_own_questions_run_and_are_fed(ask, tmp_path):
    own = write_pair(write(tmp_path / "q.jsonl", rows(3)), "mine", out=tmp_path)
    first = ask("mine_mc,mine_gen", tmp_path / "one", metadata={}, include_path=own.folder, limit=1)
    found = read(first)
    assert len(found) == 4
    assert {item.split("/")[1] for _, item in found} == {"en", "zh"}
    (results,) = first.rglob("results_*.json")
    assert {"mine_mc", "mine_gen"} <= json.loads(results.read_text(encoding="utf-8"))["groups"].keys()
    only = write_run(tmp_path / "f", *(record(i, "gen", "x", i.startswith("mine/en")) for c, i in found if c == "gen"))
    fed = Feeding(failures=(only,))
    second = read(ask("mine_shown", tmp_path / "two", fed, metadata={}, include_path=own.folder))
    assert second.keys() == {("shown", item) for c, item in found if c == "gen" and item.startswith("mine/zh")}
