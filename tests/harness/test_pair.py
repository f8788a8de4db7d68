"""A task folder of one's own questions: every condition loads from it, wherever it lies; or nothing is written."""

import json
import re
import shutil

import pytest
from lm_eval.tasks import TaskManager

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.pair import write_pair
from lm_eval_illusion.harness.pair_text import bad_rows, summary
from lm_eval_illusion.pairs.conditions import CONDITIONS, GROUPS
from lm_eval_illusion.pairs.own import BadRowsError
from tests.pairs.made import squad


def rows(articles: int = 3, languages: tuple[str, ...] = ("en", "zh")):
    for code in languages:
        for article in squad(articles)["data"]:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    yield {
                        "id": asked["id"],
                        "question": asked["question"],
                        "passage": paragraph["context"],
                        "answer": asked["answers"][0]["text"],
                        "language": code,
                        "title": article["title"],
                    }


def write(path, given):
    path.write_text("\n".join(json.dumps(row) for row in given), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("own")
    given = list(rows())
    given[0]["answer"] = given[0]["passage"].strip()[:70]
    given[1]["distractors"] = ["Arlen", "Corvin", "Dorsk"]
    return write_pair(write(root / "q.jsonl", given), "mine", out=root / "sets", seed=5)


def test_what_can_be_asked_is_counted(made):
    lines = list(summary(made))
    assert lines[:3] == [
        f"mine: 48 questions read, tasks written to {made.folder}",
        "  en: 23 of 24 can be asked (left out: 1 answer longer than 60 characters)",
        "  zh: 24 of 24 can be asked",
    ]
    assert set(made.usable["en"]) == {name for name, told in CONDITIONS.items() if not told.answers_from}
    assert set(made.usable["zh"].values()) == {24}
    assert any(
        re.search(rf"lm_eval --model pruned_hf .*--include_path {made.folder} --tasks mine_mc,", n) for n in lines
    )
    both = "--probe-failures runs/pair-mine/dense --probe-failures runs/pair-mine/pruned"
    assert [line.split(" --model")[0].strip() for line in lines[-5:]] == [
        "lm_eval",
        "lm_eval",
        f"lm-eval-illusion run {both}",
        f"lm-eval-illusion run {both}",
        "lm-eval-illusion report runs/pair-mine/dense+runs/pair-mine/dense-probes runs/pair-mine/pruned+"
        "runs/pair-mine/pruned-probes --out runs/pair-mine/report",
    ]


def test_every_condition_loads_wherever_the_folder_lies(made, tmp_path):
    moved = shutil.copytree(made.folder, tmp_path / "elsewhere")
    manager = TaskManager(include_path=str(moved), include_defaults=False, metadata={"pretrained": "some/model"})
    names = {f"mine_{name}_{code}" for name in CONDITIONS for code in ("en", "zh")}
    assert set(manager.all_subtasks) == names
    assert set(manager.all_groups) == {f"mine_{group}" for group in (*GROUPS, "probes")}
    loaded = manager.load(sorted(name for name in names if "revise" not in name))["tasks"]
    for name, task in loaded.items():
        assert len(task.eval_docs) == (23 if name.endswith("_en") else 24)
        assert task.config.target_delimiter == (" " if name.endswith("_en") else "")
        assert task.config.dataset_kwargs["pairs_seed"] == 5
    near = {doc["source_id"]: doc for doc in loaded["mine_mc_en"].eval_docs}
    written = near["a00-0-1"]
    assert {*written["choices_near"]} == {"Arlen", "Corvin", "Dorsk", "Bredow"}
    assert sorted(written["sources_near"]) == ["author", "author", "author", "gold"]
    again = TaskManager(include_path=str(made.folder), include_defaults=False, metadata={"illusion_seed": 6})
    other = {doc["source_id"]: doc for doc in again.load(["mine_mc_en"])["tasks"]["mine_mc_en"].eval_docs}
    assert other.keys() == near.keys()
    assert any(other[key]["gold_near"] != near[key]["gold_near"] for key in near)


def test_a_folder_without_its_questions_is_named(made, tmp_path):
    moved = shutil.copytree(made.folder, tmp_path / "elsewhere")
    (moved / "questions.zh.json").unlink()
    manager = TaskManager(include_path=str(moved), include_defaults=False, metadata={})
    with pytest.raises(
        IllusionError, match=r"has no questions.zh.json.*lm-eval-illusion pair QUESTIONS.jsonl --name mine"
    ):
        manager.load(["mine_mc_zh"])


def test_nothing_is_written_of_a_file_with_bad_rows(tmp_path):
    given = [row | ({"question": ""} if n % 2 else {}) for n, row in enumerate(rows(6))]
    with pytest.raises(BadRowsError, match="48 of 96 rows") as raised:
        write_pair(write(tmp_path / "q.jsonl", given), "mine", out=tmp_path / "sets")
    assert not (tmp_path / "sets").exists()
    shown = list(bad_rows(raised.value))
    assert shown[:2] == ["line 2: no question", "line 4: no question"]
    assert shown[20:] == ["... and 28 more"]


def test_too_few_questions(tmp_path):
    path = write(tmp_path / "q.jsonl", list(rows(1, ("en",)))[:4])
    with pytest.raises(IllusionError, match=r"few: no question in 'en' can be asked \(4 no three far distractors\)"):
        write_pair(path, "few", out=tmp_path / "sets")
    assert list((tmp_path / "sets").iterdir()) == []


def test_too_few_passages_for_demonstrations_are_told(tmp_path):
    given = []
    for row in rows(4, ("en",)):
        if row["id"] in ("a00-0-0", "a03-1-0"):  # one short passage and one long: all demonstrations are of the short
            years = re.findall(r"In (\d+) the singer (\w+ \w+)", row["passage"])
            more = " And they all sang." if row["id"] == "a03-1-0" else ""
            given += [
                row
                | {"id": year, "question": f"When did {who} walk?", "answer": year, "passage": row["passage"] + more}
                for year, who in years
            ]
    written = write_pair(write(tmp_path / "q.jsonl", given), "small", out=tmp_path)
    lines = list(summary(written))
    assert written.usable["en"]["gen"] == 8
    assert written.usable["en"]["oneshot"] == 0
    assert written.shots == 0
    assert "  not written: oneshot, for which a language has too few passages or questions" in lines
    assert all("--num_fewshot 0" in line for line in lines[-5:-1])
    assert not list(written.folder.glob("*oneshot*"))
    assert "small_oneshot" not in (written.folder / "_small_probes.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("My set", "expected small letters, digits and _"),
        ("9", "expected small letters"),
        ("a/b", "expected small letters"),
        ("tydiqa", "is taken by the sets that are shipped"),
        ("xquad_mc", "is taken by the sets that are shipped"),
        ("hellaswag", "is taken by the harness's own tasks"),
    ],
)
def test_names_that_are_taken_or_none(name, why, tmp_path):
    with pytest.raises(IllusionError, match=why):
        write_pair(write(tmp_path / "q.jsonl", rows(1)), name, out=tmp_path)


def test_a_folder_that_is_there_is_left_alone(made, tmp_path):
    with pytest.raises(IllusionError, match=r"mine is already there; remove it, or choose another --name or --out"):
        write_pair(write(tmp_path / "q.jsonl", rows(1)), "mine", out=made.folder.parent)
