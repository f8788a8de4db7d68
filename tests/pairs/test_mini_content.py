"""The shipped question set keeps its rules, and the checker notices when one is broken."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("check_mini", ROOT / "scripts" / "check_mini.py")
assert _SPEC is not None
assert _SPEC.loader is not None
check_mini = importlib.util.module_from_spec(_SPEC)
sys.modules["check_mini"] = check_mini
_SPEC.loader.exec_module(check_mini)


@pytest.fixture(scope="module")
def sets():
    return {path.stem: check_mini.read_items(path) for path in sorted(check_mini.FOLDER.glob("*.json"))}


def messages(sets):
    return [str(problem) for problem in check_mini.check(sets)]


def broken(sets, language, index, **changes):
    """Return two languages of the set, one item of the second changed."""
    items = list(sets[language])
    items[index] = replace(items[index], **changes)
    return {"ar": sets["ar"], language: items}


def test_shipped_set_keeps_every_rule(sets):
    assert messages(sets) == []


def test_counts_by_hand(sets):
    assert sorted(sets) == ["ar", "de", "en", "hi", "ko", "ru", "sw", "zh"]
    for items in sets.values():
        assert [item.id for item in items] == [f"p{n:02d}/q{n:02d}" for n in range(1, 25)]
        for kind in ("name", "date", "number", "phrase"):
            assert sum(item.type == kind for item in items) == 6


def test_passages_have_60_to_120_words_and_chinese_100_to_200_characters(sets):
    for language, items in sets.items():
        for item in items:
            if language == "zh":
                assert 100 <= len(item.context) <= 200
            else:
                assert 60 <= len(item.context.split()) <= 120


def test_first_english_item_as_written(sets):
    first = sets["en"][0]
    assert (first.gold, first.type, first.place) == ("Tomas Reld", "name", 2)
    assert first.distractors == ("Lena Orvik", "Ines Kalto", "Pavel Dorn")
    assert first.context[first.start :].startswith("Tomas Reld, a quiet man")


def test_every_answer_and_distractor_is_a_span_of_the_passage_once(sets):
    for items in sets.values():
        for item in items:
            assert item.context[item.start : item.start + len(item.gold)] == item.gold
            assert [item.context.count(option) for option in item.options] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("context", "span", "whole"),
    [
        ("In 1612, they", (3, 7), True),
        ("In 16120 they", (3, 7), False),
        ("등대는 레나 씨가", (4, 6), True),
        ("등대는 레나가", (4, 6), False),
        ("घर में", (0, 2), True),
        ("घरों में", (0, 2), False),
    ],
)
def test_word_edges(context, span, whole):
    assert check_mini.on_word_edges(context, *span) is whole


def test_extremes_count_ties_by_their_share(sets):
    item = sets["en"][0]
    tied = replace(item, gold="abcd", distractors=("efgh", "ij", "kl"))
    assert check_mini.extremes([tied]) == (0.5, 0.0)
    assert check_mini.extremes([tied, replace(item, gold="a", distractors=("bc", "de", "fg"))]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": 0}, "does not stand at character 0"),
        ({"type": "colour"}, "type 'colour', expected one of date, name, number, phrase"),
        ({"distractors": ("Lena Orvik", "Ines Kalto")}, "expected 4 different ones"),
        ({"distractors": ("Lena Orvik", "Ines Kalto", "Nobody Here")}, "stands in the passage 0 times, expected once"),
        ({"distractors": ("Lena Orvik", "Ines Kalto", "Pavel Dor")}, "'Pavel Dor' cuts a word"),
        ({"distractors": ("Lena Orvik", "Ines Kalto", "Tomas")}, "'Tomas Reld' contains or equals 'Tomas'"),
        ({"distractors": ("Lena Orvik", "Ines Kalto", "Пабло Дорн")}, "written in different scripts"),
        (
            {"distractors": ("Lena Orvik", "Ines Kalto", "Lee")},
            "options of 3 to 10 characters, expected at most 2 times",
        ),
        ({"distractors": ("Lena Orvik", "Ines Kalto", "room 12")}, "digits are for dates and numbers"),
        ({"distractors": ("Lena Orvik", "Ines Kalto", "Pavel Reld")}, "'Pavel Reld' would count as right beside"),
        ({"question": "Was it Tomas Reld?"}, "'Tomas Reld' stands in the title or the question"),
        ({"question": "Who was  it?"}, "question has stray white space"),
        ({"context": "Tomas Reld came."}, "passage of 3, expected 60 to 120"),
        ({"id": "p99/q99"}, "ids or their order differ from ar.json"),
        ({"gold": "Lena Orvik", "distractors": ("Tomas Reld", "Ines Kalto", "Pavel Dorn")}, "does not stand"),
    ],
)
def test_a_broken_item_is_named_with_its_line(sets, changes, message):
    found = [m for m in messages(broken(sets, "en", 0, **changes)) if message in m]
    assert found
    assert found[0].startswith(f"en.json:{sets['en'][0].line}: ")


def test_duplicates_and_far_clashes_are_named(sets):
    first = sets["en"][0]
    found = messages(broken(sets, "en", 4, gold=first.gold, title=first.title))
    assert any("p05/q05: same gold as p01/q01" in m for m in found)
    assert any("p05/q05: same title as p01/q01" in m for m in found)
    found = messages(broken(sets, "en", 4, gold="Reld"))
    assert any("gold 'Reld' contains or equals the gold 'Tomas Reld' of p01/q01" in m for m in found)


def test_missing_questions_languages_and_unbalanced_places_are_named(sets):
    found = messages({**sets, "en": sets["en"][:20]})
    assert any("20 questions, expected 24" in m for m in found)
    found = messages({language: items for language, items in sets.items() if language != "sw"})
    assert any("expected ['ar', 'de', 'en', 'hi', 'ko', 'ru', 'sw', 'zh']" in m for m in found)
    moved = [replace(item, start=0) for item in sets["en"]]
    found = messages({**sets, "en": moved})
    assert any("golds at places {1: 24}, expected 4 to 8 at each" in m for m in found)
    assert any("place 1, but 2 in ar.json" in m for m in found)
    longest = [replace(item, gold=item.gold + "x" * 9) for item in sets["en"]]
    assert any("24.0 golds are the longest option" in m for m in messages({**sets, "en": longest}))


def test_script_exits_with_0_or_1_and_prints_lines(tmp_path, capsys):
    assert check_mini.main([]) == 0
    assert "en: 24 questions" in capsys.readouterr().out
    folder = tmp_path / "mini"
    shutil.copytree(check_mini.FOLDER, folder)
    document = json.loads((folder / "en.json").read_text(encoding="utf-8"))
    document["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 3
    (folder / "en.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    assert check_mini.main([str(folder)]) == 1
    assert "p01/q01: gold 'Tomas Reld' does not stand at character 3" in capsys.readouterr().err
    assert check_mini.main([str(tmp_path / "none")]) == 1
    assert "expected one file a language" in capsys.readouterr().err


def test_a_foreign_head_is_refused(tmp_path):
    path = tmp_path / "en.json"
    path.write_text(json.dumps({"version": 1, "language": "fr", "license": "CC0-1.0", "data": []}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"en\.json:1: head is .*'fr'.* expected .*'en'"):
        check_mini.read_items(path)
