"""Rows of a task: the rules hold in every one, and each depends on its own id alone."""

import logging
from dataclasses import replace

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs import docs, eligible
from lm_eval_illusion.pairs.aligned import join_languages
from lm_eval_illusion.pairs.answers import match
from lm_eval_illusion.pairs.authored import Authored
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.docs import build, build_single
from lm_eval_illusion.pairs.normalise import normalise
from lm_eval_illusion.pairs.parallel import Parallel
from lm_eval_illusion.pairs.questions import Question, load_squad
from lm_eval_illusion.pairs.rows import MAX_NEW_TOKENS
from lm_eval_illusion.pairs.sources import load_questions

from .made import PEOPLE, TOWNS, squad
from .test_sources import write

KEYS = {
    "item_id", "dataset", "language", "cluster", "source_id", "passage", "question", "answers", "gold_text", "prompt",
    "choices_near", "gold_near", "sources_near", "choices_far", "gold_far", "sources_far", "max_gen_toks",
    "passage_sha256",
}  # fmt: skip


def check_row(row):
    assert set(row) == KEYS
    assert row["max_gen_toks"] == MAX_NEW_TOKENS
    assert row["prompt"].count("\n") == 2
    assert not row["prompt"][-1].isspace()
    for distance in ("near", "far"):
        choices, gold = row[f"choices_{distance}"], row[f"gold_{distance}"]
        assert len({normalise(c, row["language"]) for c in choices}) == 4
        assert choices[gold] == row["gold_text"]
        assert row[f"sources_{distance}"][gold] == "gold"
        assert row[f"sources_{distance}"].count("gold") == 1
        for i, choice in enumerate(choices):
            assert match(choice, row["answers"], row["language"]).standard is (i == gold)
            assert any(c.isdigit() for c in choice) == any(c.isdigit() for c in row["gold_text"])
    assert all(c not in row["passage"] for i, c in enumerate(row["choices_far"]) if i != row["gold_far"])


@pytest.mark.parametrize(("dataset", "language"), [("tydiqa", "sw"), ("xquad", "th"), ("xquad", "zh")])
def test_the_rules_hold_in_every_row(data_folder, dataset, language):
    built = build(dataset, language, folder=data_folder)
    assert len(built.rows) + len(built.others) == 32
    assert len(built.rows) >= 16
    for row in built.rows:
        check_row(row)


def test_near_options_are_of_the_passage_and_typed(data_folder):
    names = PEOPLE + TOWNS
    for row in build("tydiqa", "en", folder=data_folder).rows:
        for choice, source in zip(row["choices_near"], row["sources_near"], strict=True):
            assert choice in row["passage"] or source.startswith("language:")
            assert any(choice in name for name in names) == (row["gold_text"] in names)


@pytest.mark.parametrize("language", DATASETS["illusion_mini"].languages)
def test_the_mini_set_keeps_the_rules(language):
    built = build("illusion_mini", language)
    assert len(built.rows) == 24
    assert not built.excluded
    for row in built.rows:
        check_row(row)
        assert sorted(set(row["sources_near"])) == ["author", "gold"]


@pytest.mark.parametrize("dataset", ["xquad", "illusion_mini"])
def test_parallel_sets_show_the_same_items_and_origins(data_folder, dataset):
    tables = [
        [
            (r["source_id"], r["cluster"], r["gold_near"], r["sources_near"], r["gold_far"], r["sources_far"])
            for r in rows
        ]
        for rows in (build(dataset, code, folder=data_folder, count=6).rows for code in DATASETS[dataset].languages)
    ]
    assert all(table == tables[0] for table in tables)


def test_a_sample_is_the_first_rows(data_folder):
    whole, sample = (build("tydiqa", "ko", folder=data_folder, count=n) for n in (None, 5))
    assert sample.rows == whole.rows[:5]
    assert len({row["cluster"] for row in sample.rows}) == 5
    assert len(sample.rows) + len(sample.others) == 32
    assert sample.others[0]["choices_near"] is None


def test_file_order_plays_no_role(tmp_path):
    questions = load_squad(write(tmp_path / "f.json", squad(3)), dataset="own", language="en")
    assert build_single(questions) == build_single(questions[::-1])


def test_the_seed_moves_options_but_not_the_sample(data_folder):
    first, second = (build("tydiqa", "fi", folder=data_folder, seed=seed).rows for seed in (0, 1))
    assert [r["item_id"] for r in first] == [r["item_id"] for r in second]
    assert [r["gold_near"] for r in first] != [r["gold_near"] for r in second]


def test_long_answers_are_left_out_and_counted(tmp_path):
    questions = load_squad(write(tmp_path / "f.json", squad(3)), dataset="own", language="en")
    changed = [replace(questions[0], answers=("x " * 40,)), *questions[1:]]
    built = build_single(changed)
    assert built.excluded["answer longer than 60 characters"] == 1
    assert all(row["source_id"] != questions[0].source_id for row in built.rows + built.others)


@pytest.mark.parametrize(
    ("language", "gold", "reason"),
    [
        ("fi", "olioiden", "answer begins inside a word"),
        ("fi", "avaruus", None),
        ("fi", "kova", None),
        ("zh", "olioiden", None),
        ("fi", "x" * 61, "answer longer than 60 characters"),
        ("zh", "字" * 31, "answer longer than 60 characters"),
        ("zh", "字" * 30, None),
    ],
)
def test_what_cannot_be_asked(language, gold, reason):
    question = Question("d", language, "i", "avaruusolioiden kova", "q", (gold,), "c", "")
    assert eligible.reason_against(question) == reason


def test_items_without_three_distractors_are_left_out_and_counted(tmp_path):
    questions = load_squad(write(tmp_path / "f.json", squad(1)), dataset="own", language="en")
    built = build_single(questions[:1])
    assert built.rows == ()
    assert built.excluded == {"no three far distractors": 1}


def test_more_items_than_there_are(data_folder):
    with pytest.raises(IllusionError, match=r"illusion_items_per_language is 999, but tydiqa has \d+ usable questions"):
        build("tydiqa", "sw", folder=data_folder, count=999)


def test_exclusions_are_logged(data_folder, monkeypatch, caplog):
    monkeypatch.setattr(eligible, "MAX_GOLD_CHARACTERS", 7)
    shown = logging.getLogger("lm_eval.illusion")  # the harness shows this logger and keeps it from the root's
    monkeypatch.setattr(shown, "handlers", [caplog.handler])
    monkeypatch.setattr(shown, "propagate", False)
    docs._say_once.cache_clear()
    with caplog.at_level("INFO", logger="lm_eval.illusion"):
        for count in (None, None, 3):
            build("tydiqa", "sw", folder=data_folder, count=count)
    lines = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("tydiqa sw: ")
    assert "questions left out of every half (" in lines[0]
    assert lines[0].endswith("answer longer than 7 characters)")


def test_an_authored_distractor_that_breaks_a_rule_is_named():
    rows = {code: list(load_questions("illusion_mini", code)) for code in ("en", "de")}
    broken = rows["de"][0]
    rows["de"][0] = replace(broken, distractors=(broken.gold, *broken.distractors[1:]))
    items = join_languages(rows)
    with pytest.raises(IllusionError, match=rf"{broken.item_id}: distractor .* breaks a rule"):
        Authored(Parallel(items, 0)).near(items[broken.source_id])
    rows["de"][0] = replace(broken, distractors=broken.distractors[:2])
    items = join_languages(rows)
    with pytest.raises(IllusionError, match="three distractors expected, found 2"):
        Authored(Parallel(items, 0)).near(items[broken.source_id])
