"""Packing: exact lengths, BOS, equal shares, independence from order, digests."""

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prune_hooks.calibration import packing
from prune_hooks.calibration.documents import Document, text_hash
from prune_hooks.calibration.packing import cut, pack, rows_digest, shares, take
from prune_hooks.errors import PruneError
from tests.families import BOS, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
ENGLISH = [Document(f"The river number {k} flows slowly to the sea.", "en") for k in range(30)]
SWAHILI = [Document(f"Mto namba {k} unaenda polepole baharini.", "sw") for k in range(30)]


class Letters:
    """A tokenizer by hand: one token a character, its code point; no BOS."""

    bos_token_id = None

    def __call__(self, text, add_special_tokens, verbose):
        assert add_special_tokens is False
        return type("Encoding", (), {"input_ids": [ord(c) for c in text]})


def test_rows_by_hand():
    made = pack({"xx": [Document("abcde", "xx")]}, Letters(), source="s", samples=2, length=3, seed=0)
    assert made.rows.tolist() == [[97, 98, 99], [100, 101, 10]]  # the document, then the start of the blank line
    assert made.tokens_per_language == {"xx": 6}
    assert made.text_hashes == [hashlib.sha256(b"abcde").hexdigest()]


def test_rows_have_the_length_and_begin_with_bos_once():
    made = pack({"en": ENGLISH}, TOKENIZER, source="s", samples=5, length=17, seed=0)
    assert made.rows.shape == (5, 17)
    assert made.rows.dtype == torch.int64
    assert made.rows[:, 0].tolist() == [BOS] * 5
    assert (made.rows == BOS).sum() == 5


def test_languages_get_equal_shares_of_tokens():
    made = pack({"sw": SWAHILI, "en": ENGLISH}, TOKENIZER, source="s", samples=3, length=20, seed=0)
    assert made.tokens_per_language == {"en": 29, "sw": 28}  # 3 x 19 without BOS


def test_shares_of_languages_that_do_not_divide_the_rows():
    assert shares(11, ["a", "b", "c"]) == {"a": 4, "b": 4, "c": 3}


@pytest.mark.parametrize("change", ["reversed", "doubled"])
def test_neither_the_order_of_documents_nor_a_copy_changes_the_rows(change):
    other = ENGLISH[::-1] if change == "reversed" else ENGLISH + ENGLISH[:7]
    first = pack({"en": ENGLISH}, TOKENIZER, source="s", samples=4, length=16, seed=3)
    second = pack({"en": other}, TOKENIZER, source="s", samples=4, length=16, seed=3)
    assert first.digest == second.digest
    assert first.text_hashes == second.text_hashes


def test_the_seed_changes_the_rows():
    digests = {
        pack({"en": ENGLISH}, TOKENIZER, source="s", samples=4, length=16, seed=seed).digest for seed in range(4)
    }
    assert len(digests) == 4


def test_only_documents_that_were_used_are_hashed():
    made = pack({"en": ENGLISH}, TOKENIZER, source="s", samples=1, length=10, seed=0)
    assert len(made.text_hashes) == 1
    assert made.text_hashes[0] in {text_hash(d.text) for d in ENGLISH}


def test_the_pieces_that_were_used_are_told(monkeypatch):
    monkeypatch.setattr(packing, "PIECE_CHARACTERS", 12)
    made = pack({"xx": [Document("one two three four", "xx")]}, Letters(), source="s", samples=1, length=4, seed=0)
    assert len(made.texts) == 1
    assert made.texts[0] in {"one two", "three four"}


def test_white_space_is_folded_before_hashing():
    assert text_hash(" a\n\tb  c ") == hashlib.sha256(b"a b c").hexdigest()


def test_the_digest_covers_ids_and_shape():
    rows = torch.tensor([[1, 2], [3, 4]])
    expected = hashlib.sha256(b"2x2" + b"".join(i.to_bytes(8, "little") for i in (1, 2, 3, 4))).hexdigest()
    assert rows_digest(rows) == expected
    assert rows_digest(rows.view(1, 4)) != expected


def test_too_little_text_names_tokens_found_and_needed_and_what_fits():
    documents = {"xx": [Document("abcdef", "xx")], "yy": [Document("a" * 50, "yy")]}
    message = (
        r"calibration text s is too short for 4 rows of 10 tokens \(xx: 8 of 20 tokens\): set calibration_samples=1, "
        "or give more text"
    )
    with pytest.raises(PruneError, match=message):
        pack(documents, Letters(), source="s", samples=4, length=10, seed=0)
    assert pack(documents, Letters(), source="s", samples=1, length=10, seed=0).rows.shape == (1, 10)


def test_less_text_than_one_row_names_the_length_that_fits():
    documents = {"xx": [Document("abcdef", "xx")]}
    with pytest.raises(PruneError, match="set calibration_samples=1 and calibration_length=8"):
        pack(documents, Letters(), source="s", samples=4, length=100, seed=0)
    assert pack(documents, Letters(), source="s", samples=1, length=8, seed=0).rows.shape == (1, 8)


def test_a_long_document_does_not_fill_every_row(monkeypatch):
    monkeypatch.setattr(packing, "PIECE_CHARACTERS", 40)
    book = Document("word " * 500, "en")
    stream = take([book, *ENGLISH], TOKENIZER, 600, 0)
    assert book.digest in stream.hashes
    assert len(stream.hashes) > 1


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="ab \n", max_size=200))
def test_cut_keeps_every_word_in_order(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "PIECE_CHARACTERS", 16)
        pieces = list(cut(text))
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(len(piece) <= 16 for piece in pieces)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(2, 40), st.integers(0, 5))
def test_rows_are_always_exact_and_shares_equal(samples, length, seed):
    made = pack({"en": ENGLISH, "sw": SWAHILI}, Letters(), source="s", samples=samples, length=length, seed=seed)
    assert made.rows.shape == (samples, length)
    counts = made.tokens_per_language
    assert sum(counts.values()) == samples * length
    assert counts["en"] - counts["sw"] in {0, 1}
