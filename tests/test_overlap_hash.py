"""Both rooms hash a passage alike, though neither may import the other: else an overlap would go unseen."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_illusion.pairs.questions import passage_digest
from lm_eval_illusion.report import shingles as passages
from prune_hooks import PruneSpec, prune
from prune_hooks.calibration import shingles as calibration
from prune_hooks.calibration.documents import text_hash
from tests.families import build, tiny_tokenizer

ODD = "aé \t\n\u00a0\u2028\u3000\ufeff\u200b\u0085ไ"


@given(st.text(st.sampled_from(ODD), max_size=20))
def test_same_text_same_hash(text):
    assert passage_digest(text) == text_hash(text)


@pytest.mark.parametrize("odd", ["\ufeffThe river.", "The\n\nriver. ", " The\u00a0river."])
def test_white_space_and_byte_order_marks_do_not_count(odd):
    assert passage_digest(odd) == text_hash(odd) == text_hash("The river.")


ALPHABET = st.one_of(st.sampled_from(ODD + "AbßΣς\u0301नमस्ते東京서울\ud800"), st.characters())


@given(st.text(ALPHABET, min_size=20, max_size=300))
def test_same_text_same_stretches(text):
    assert passages.shingles(text) == calibration.shingles(text)
    assert list(passages._hashes(text)) == list(calibration._hashes(text))


def test_one_rule():
    for name in ("RULE", "WEIGHT", "WORD_WEIGHT", "SAMPLED", "_UNSPACED"):
        assert getattr(passages, name) == getattr(calibration, name)


def digest(text):
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def test_stretches_by_hand():
    words = [f"w{n}" for n in range(14)]
    expected = [digest(" ".join(words[:13])), digest(" ".join(words[1:]))]
    assert list(passages._hashes(" ".join(words).upper() + "\n")) == expected
    assert list(passages._hashes(" ".join(words[:12]))) == []
    assert list(passages._hashes("東" * 39)) == [digest(" ".join("東" * 39))]
    assert list(passages._hashes("東" * 38)) == []
    mixed = "東" * 36 + " Tokyo"  # 36 characters and a word of weight 3
    assert list(passages._hashes(mixed)) == [digest(" ".join([*"東" * 36, "tokyo"]))]


def test_one_hash_in_four_is_kept():
    text = " ".join(f"w{n}" for n in range(8012))
    assert len(list(passages._hashes(text))) == 8000
    assert 1800 < len(passages.shingles(text)) < 2200  # 2,000 are expected, standard deviation 39
    assert all(value[-1] in "048c" for value in passages.shingles(text))


@given(st.text(ALPHABET, max_size=60).map(lambda t: f" {t} "), st.integers(0, 99))
def test_a_part_has_the_stretches_of_the_whole(around, seed):
    part = " ".join(f"{seed}word{n}" for n in range(60)) + " " + "ก" * 60
    assert passages.shingles(part) <= calibration.shingles(around + part + around)


def test_the_receipt_of_a_pruning_finds_a_passage_in_its_calibration_text(tmp_path):
    page = " ".join(f"w{n}" for n in range(300))
    (tmp_path / "text.txt").write_text(page, encoding="utf-8")
    spec = PruneSpec(calibration=str(tmp_path / "text.txt"), calibration_samples=2, calibration_length=16)
    told = prune(build("llama"), tiny_tokenizer(), spec, progress=False).to_dict()["calibration"]["shingles"]
    passage = " ".join(f"w{n}" for n in range(100, 200))
    assert told["rule"] == passages.RULE
    assert len(passages.shingles(passage)) >= 2
    assert passages.shingles(passage) <= set(told["hashes"]) == passages.shingles(page)


def test_a_receipt_lists_the_smallest(monkeypatch):
    texts = [" ".join(f"{k}w{n}" for n in range(400)) for k in range(3)]
    found = sorted(set().union(*(calibration.shingles(text) for text in texts)))
    assert calibration.listed(texts) == {"rule": calibration.RULE, "hashes": found, "cut": False}
    monkeypatch.setattr(calibration, "CAP", 5)
    assert calibration.listed(texts) == {"rule": calibration.RULE, "hashes": found[:5], "cut": True}
    assert calibration.listed([]) == {"rule": calibration.RULE, "hashes": [], "cut": False}
