"""Options by distance: found ones keep the rules, noise looks like the gold, order is a matter of hashes."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_illusion.pairs.answers import match
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.choose import Candidate, choose_one
from lm_eval_illusion.pairs.docs import build, language_set
from lm_eval_illusion.pairs.graded import Distant, choose_distances, grade, random_option
from lm_eval_illusion.pairs.noise import random_string
from lm_eval_illusion.pairs.rules import Answer

from .made import write_folder


def answers(*texts, language="en"):
    return tuple(Answer(text, language) for text in texts)


def candidate(text, cost=0.0, place=None):
    return Candidate(Answer(text, "en"), f"language:{text}", cost, place)


def test_one_of_the_best_that_clashes_with_nothing():
    gold = Answer("Rome", "en")
    assert choose_one([], gold, None, ("k",)) is None
    assert choose_one([candidate("Oslo")], gold, None, ("k",), [Answer("Oslo", "en")]) is None
    # equally long, so that the cost alone decides
    best = choose_one([candidate("Oslo", 1.0), candidate("Bern", 0.0)], gold, None, ("k",))
    assert best is not None
    assert best.answer.text == "Bern"


def test_half_of_the_chosen_are_longer():
    gold, pool = Answer("Geneva", "en"), [candidate("Oslo"), candidate("Helsinki")]
    chosen = Counter(choose_one(pool, gold, None, ("k", i)).answer.text for i in range(400))
    assert 140 < chosen["Helsinki"] < 260


def test_half_of_the_chosen_stand_after_the_gold():
    gold, pool = Answer("Rome", "en"), [candidate("Oslo", place=1), candidate("Bern", place=90)]
    chosen = Counter(choose_one(pool, gold, 40, ("k", i)).answer.text for i in range(400))
    assert 140 < chosen["Bern"] < 260


def test_distances_without_a_candidate_are_left_out_and_none_repeats():
    found = {"paragraph": [candidate("Oslo")], "article": [], "language": [candidate("Oslo"), candidate("Bern")]}
    chosen = choose_distances(found, Answer("Rome", "en"), None, ("k",))
    assert {distance: c.answer.text for distance, c in chosen.items()} == {"paragraph": "Oslo", "language": "Bern"}


@pytest.mark.parametrize(
    ("gold", "passage"),
    [
        ("New York, 1987", "The old town of New York burned in 1987 and again later."),
        ("北京大学", "北京大学在中国。学生很多。"),
        ("२७ मार्च", "यह २७ मार्च को हुआ था।"),
        ("القاهرة", "عاش في القاهرة ثم في دمشق"),
    ],
)
def test_noise_by_hand(gold, passage):
    made = random_string(gold, passage, ("k",))
    assert made == random_string(gold, passage, ("k",))
    assert made != random_string(gold, passage, ("other",))
    for before, after in zip(gold.split(), made.split(), strict=True):
        assert before[0].isdecimal() == after[0].isdecimal()
        assert before[0].isupper() == after[0].isupper()
    assert [c for c in made if not (c.isalnum() or c.isspace())] or "," not in gold


def test_the_first_of_several_digits_is_no_zero():
    made = [random_string("1987", "", (i,)) for i in range(300)]
    assert all(len(text) == 4 and text.isdecimal() and text[0] != "0" for text in made)
    assert {text[1] for text in made} == set("0123456789")
    assert {random_string("7", "", (i,)) for i in range(200)} == set("0123456789")


@given(st.text(min_size=1, max_size=12), st.text(max_size=40), st.integers())
@settings(max_examples=200, deadline=None)
def test_noise_never_fails_and_keeps_spaces_and_marks(gold, passage, key):
    made = random_string(gold, passage, (key,))
    assert [c for c in made if c.isspace()] == [c for c in gold if c.isspace()]
    assert bool(made)


def test_noise_that_cannot_be_had_is_left_out():
    assert random_option(answers("aaa"), "aaa aaa", [], ("k",)) is None  # no other letter anywhere
    made = random_option(answers("1987"), "In 1987.", list(answers("1955")), ("k",))
    assert made is not None
    assert (made.distance, made.source) == ("random", "random")
    assert made.text not in {"1987", "1955"}


def test_grading_puts_each_in_its_place():
    found = [Distant("paragraph", "Oslo", "paragraph:1"), Distant("language", "Bern", "language:2")]
    places = Counter()
    for key in range(300):
        graded = grade(answers("Rome", "Roma"), "Rome and Oslo, blue sky", found, ("o", key), ("n", key))
        assert graded.choices[graded.gold] == "Rome"
        assert graded.distances[graded.gold] == graded.sources[graded.gold] == "gold"
        assert sorted(graded.distances) == ["gold", "language", "paragraph", "random"]
        assert dict(zip(graded.distances, graded.choices, strict=True))["language"] == "Bern"
        places[graded.gold] += 1
    assert all(45 < places[place] < 105 for place in range(4))


def check(row, graded):
    assert len(set(graded.choices)) == len(graded.choices)
    assert len(set(graded.distances)) == len(graded.distances)
    for i, (choice, distance, source) in enumerate(zip(graded.choices, graded.distances, graded.sources, strict=True)):
        assert match(choice, row["answers"], row["language"]).standard is (i == graded.gold)
        kind = source.split(":")[0]
        assert {"paragraph": kind in ("paragraph", "passage", "author")}.get(distance, kind == distance)
        if distance in ("article", "language", "random"):
            assert choice.casefold() not in row["passage"].casefold()


@pytest.mark.parametrize(("dataset", "language"), [("tydiqa", "fi"), ("xquad", "hi"), ("illusion_mini", "ko")])
def test_the_rules_hold_in_every_row(data_folder, dataset, language):
    found = language_set(dataset, language, folder=data_folder)
    distances = Counter()
    for row in build(dataset, language, folder=data_folder, count=16).rows:
        graded = found.graded(row["source_id"])
        check(row, graded)
        distances.update(graded.distances)
    assert distances["gold"] == distances["language"] == 16
    assert distances["paragraph"] >= 12
    assert distances["random"] >= 12
    assert (distances["article"] > 0) == (dataset != "illusion_mini")  # its articles hold one passage each


@pytest.mark.parametrize("dataset", ["xquad", "illusion_mini"])
def test_parallel_sets_show_the_same_origins_in_the_same_places(data_folder, dataset):
    languages = DATASETS[dataset].languages[:3]
    ids = [row["source_id"] for row in build(dataset, languages[0], folder=data_folder, count=5).rows]
    tables = [
        [(g.gold, g.sources, g.distances) for g in map(language_set(dataset, code, folder=data_folder).graded, ids)]
        for code in languages
    ]
    assert all(table == tables[0] for table in tables)


def test_grades_depend_on_the_seed_and_the_id_alone(data_folder, tmp_path):
    one, other = (language_set("tydiqa", "sw", folder=data_folder, seed=seed) for seed in (0, 1))
    ids = [row["source_id"] for row in build("tydiqa", "sw", folder=data_folder).rows]
    forward = [one.graded(i) for i in ids]
    assert [one.graded(i) for i in reversed(ids)] == forward[::-1]
    assert [other.graded(i) for i in ids] != forward
    elsewhere = str(write_folder(tmp_path / "elsewhere"))
    assert [language_set("tydiqa", "sw", folder=elsewhere).graded(i) for i in ids] == forward
