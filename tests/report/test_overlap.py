"""Overlap of calibration text with evaluated passages: wholes, parts of longer texts, and what could not be checked."""

import random

import pytest
from synthetic import pattern, receipt, write_run

from lm_eval_illusion.report.overlap import HASH_CAP, find_overlap
from lm_eval_illusion.report.records import read_run
from lm_eval_illusion.report.shingles import shingles


def prose(seed, words=120):
    rng = random.Random(seed)
    return " ".join("".join(rng.choices("abcdefghij", k=rng.randint(3, 8))) for _ in range(words))


def thai(seed, characters=400):
    rng = random.Random(seed)
    return "".join(chr(rng.randrange(0x0E01, 0x0E2F)) for _ in range(characters))


def overlap(folder, passage, pruning):
    return find_overlap(read_run(write_run(folder, pattern("brn", passage=passage), pruning=pruning)))


@pytest.mark.parametrize("text", [prose, thai])
def test_a_passage_inside_a_longer_document(tmp_path, text):
    passage = text(1)
    found = overlap(tmp_path, passage, receipt(texts=[f"{text(2)}  {passage}\n{text(3)}"], parts=True))
    assert (found.status, found.items) == ("overlap", 3)
    assert found.why == "0 whole passages are calibration texts, 3 share running text with them"


@pytest.mark.parametrize("text", [prose, thai])
def test_a_document_inside_a_passage(tmp_path, text):
    part = text(1)
    found = overlap(tmp_path, f"{text(2)} {part} {text(3)}", receipt(texts=[part], parts=True))
    assert (found.status, found.items) == ("overlap", 3)


@pytest.mark.parametrize("text", [prose, thai])
def test_other_text_does_not_overlap(tmp_path, text):
    known = receipt(texts=[text(n) for n in range(2, 30)], parts=True)
    found = overlap(tmp_path, text(1), known)
    assert (found.status, found.items, found.stretches) == (
        "none",
        0,
        len(known["calibration"]["shingles"]["hashes"]),
    )
    assert found.stretches > 28
    assert found.why == (
        "3 of 3 items' passages looked for in parts, by a sample of 1 in 4 of all stretches of 13 words or 39 "
        "characters"
    )


def test_one_shared_stretch_of_many_is_no_overlap(tmp_path):
    passage = prose(1)
    known = receipt(texts=[prose(2)], parts=True)
    known["calibration"]["shingles"]["hashes"].append(min(shingles(passage)))
    assert len(shingles(passage)) > 2
    assert overlap(tmp_path / "one", passage, known).status == "none"
    known["calibration"]["shingles"]["hashes"].append(max(shingles(passage)))
    assert overlap(tmp_path / "two", passage, known).status == "overlap"


def test_one_shared_stretch_is_enough_where_the_passage_has_one(tmp_path):
    passage = next(text for text in map(lambda n: prose(n, 20), range(99)) if len(shingles(text)) == 1)
    known = receipt(texts=[f"{prose(100)} {passage} {prose(101)}"], parts=True)
    assert overlap(tmp_path, passage, known).items == 3


def test_short_passages_are_compared_as_wholes(tmp_path):
    found = overlap(tmp_path / "a", "Short and whole.", receipt(texts=[prose(2)], parts=True))
    assert found.status == "none"
    assert found.why.endswith("; 3 items' passages as wholes only")
    found = overlap(tmp_path / "b", "Short and whole.", receipt(texts=["Short and whole."], parts=True))
    assert (found.status, found.why[:42]) == ("overlap", "3 whole passages are calibration texts, 0 ")


def test_a_cut_list_says_nothing_above_its_largest_hash(tmp_path):
    passage = prose(1, 400)
    inside = sorted(shingles(passage))
    known = receipt(texts=[passage], parts=True)
    known["calibration"].update(text_hashes=["0" * 64], shingles={**known["calibration"]["shingles"], "cut": True})
    known["calibration"]["shingles"]["hashes"] = [inside[0]]
    assert overlap(tmp_path / "a", passage, known).status == "overlap"  # the only one that can be judged is shared
    known["calibration"]["shingles"]["cut"] = False
    assert overlap(tmp_path / "b", passage, known).status == "none"


def test_a_full_list_of_texts_matters_only_for_passages_compared_as_wholes(tmp_path):
    known = receipt(texts=[prose(2)], parts=True)
    known["calibration"]["text_hashes"] = [str(n) for n in range(HASH_CAP)]
    assert overlap(tmp_path / "a", prose(1), known).status == "none"
    found = overlap(tmp_path / "b", "Short and whole.", known)
    assert (found.status, found.why) == (
        "unchecked",
        "the receipt stops at 5000 texts and 3 of 3 items could be compared with whole texts only",
    )


@pytest.mark.parametrize("change", [None, {"rule": "another", "hashes": [], "cut": False}])
def test_receipts_without_this_rule_are_compared_as_wholes(tmp_path, change):
    passage = prose(1)
    known = receipt(texts=[f"{passage} and more"])
    known["calibration"]["shingles"] = change
    found = overlap(tmp_path, passage, known)
    assert (found.status, found.stretches) == ("none", 0)
    assert "passages inside longer documents were not looked for" in found.why
