"""Languages by weight or by pre-training share: spelling, exact tokens, labels, and what is refused."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prune_hooks import PruneError, PruneSpec, prune
from prune_hooks.calibration import builtin_languages, load_rows
from prune_hooks.calibration.documents import Document
from prune_hooks.calibration.packing import pack
from prune_hooks.shares import MC4_TOKENS, Wanted, divide, parse_languages, read_table
from tests.families import build, tiny_tokenizer

TOKENIZER = tiny_tokenizer()


class Letters:
    """A tokenizer by hand: one token a character, its code point; BOS if asked for."""

    def __init__(self, bos=None):
        self.bos_token_id = bos

    def __call__(self, text, add_special_tokens, verbose):
        return type("Encoding", (), {"input_ids": [ord(c) for c in text]})


def rows(languages, samples=6, length=24, calibration="builtin", tokenizer=TOKENIZER):
    return load_rows(calibration, tokenizer, languages=languages, samples=samples, length=length)


# --- spelling


def test_spellings():
    assert parse_languages(("en", "sw")) == Wanted(("en", "sw"))
    assert parse_languages(("en:2", "sw:0.5", "ru")) == Wanted(("en", "sw", "ru"), {"en": 2.0, "sw": 0.5, "ru": 1.0})
    assert parse_languages(("mbs", "en", "sw")) == Wanted(("en", "sw"), None, None, True)
    assert parse_languages(("mbs:own.yaml", "en")) == Wanted(("en",), None, Path("own.yaml"), True)
    assert PruneSpec(calibration_languages="en:2+sw:1").calibration_languages == ("en:2", "sw:1")
    assert PruneSpec(calibration_languages="mbs").to_dict()["calibration_languages"] == ["mbs"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("en:2+en:1", r"a language is named twice; name en once"),
        ("mbs+en+en", r"a language is named twice; name en once"),
        ("en:0+sw:1", r"'0' is no weight; expected numbers above 0, such as en:2\+sw:1"),
        ("en:-1", r"'-1' is no weight"),
        ("en:inf", r"'inf' is no weight"),
        ("en:+sw", r"'' is no weight"),
        ("en:much", r"'much' is no weight"),
        ("mbs+en:2", r"mbs takes the weights from a table; expected codes without weights"),
    ],
)
def test_spellings_that_mean_nothing(text, message):
    with pytest.raises(PruneError, match=message):
        PruneSpec(calibration_languages=text)


# --- division


def test_division_by_hand():
    # 11 tokens: dues 6.29, 3.14, 1.57; one is left over, and goes to the largest remainder
    assert divide(11, {"a": 4 / 7, "b": 2 / 7, "c": 1 / 7}) == {"a": 6, "b": 3, "c": 2}
    assert divide(9, {"a": 2 / 3, "b": 1 / 3}) == {"a": 6, "b": 3}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0.01, 1000), min_size=1, max_size=20), st.integers(0, 10**6))
def test_divisions_are_exact(weights, total):
    shares = {str(k): weight / sum(weights) for k, weight in enumerate(weights)}
    tokens = divide(total, shares)
    assert sum(tokens.values()) == total
    assert all(abs(tokens[k] - total * shares[k]) < 1 + 1e-6 for k in shares)


# --- tokens


def test_given_weights_are_the_tokens_shares():
    made = rows(("en:2", "sw:1"))
    assert made.tokens_per_language == {"en": 92, "sw": 46}  # 6 x 23 without BOS
    assert made.rows.shape == (6, 24)


def test_equal_weights_are_equal_shares_to_the_bit():
    assert rows(("en:3", "sw:3", "ru:3")).digest == rows(("en", "sw", "ru")).digest


def test_shares_of_pre_training_text():
    made = rows(("mbs", "en", "ru", "de", "el"), samples=20, length=64, tokenizer=Letters())
    total = sum(MC4_TOKENS[code] for code in ("en", "ru", "de", "el"))
    for code, tokens in made.tokens_per_language.items():
        assert abs(tokens - 20 * 64 * MC4_TOKENS[code] / total) < 1
    assert sum(made.tokens_per_language.values()) == 20 * 64


def test_shares_of_pre_training_text_of_all_there_is():
    assert set(builtin_languages()) <= MC4_TOKENS.keys()
    made = rows(("mbs",), samples=20, length=64, tokenizer=Letters())
    assert made.tokens_per_language.keys() == set(builtin_languages())
    assert sum(made.tokens_per_language.values()) == 20 * 64
    assert made.tokens_per_language["sw"] == 0 < made.tokens_per_language["te"] + made.tokens_per_language["bn"]


@pytest.mark.parametrize(("name", "text"), [("own.json", '{"en": 1, "sw": 3}'), ("own.yaml", "en: 1\nsw: 3\n")])
def test_shares_of_ones_own_table(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    made = rows((f"mbs:{tmp_path / name}", "sw", "en"))
    assert made.tokens_per_language == {"en": 35, "sw": 103}  # dues 34.5 and 103.5: of equal remainders the first named


def test_weights_of_a_folders_languages(tmp_path):
    for code in ("en", "sw"):
        (tmp_path / f"a.{code}.txt").write_text("\n\n".join(f"{code} number {k} is this one." for k in range(40)))
    assert rows(("sw:3", "en:1"), 4, 20, str(tmp_path)).tokens_per_language == {"en": 19, "sw": 57}
    made = rows(("mbs",), 40, 20, str(tmp_path), Letters())
    assert made.tokens_per_language == {"en": 800, "sw": 0}  # due 799.7 and 0.3
    with pytest.raises(PruneError, match=r"gives sw less than one of 800 tokens"):
        rows(("mbs", "en", "sw"), 40, 20, str(tmp_path), Letters())


def test_what_the_builtin_text_holds_is_asked_by_weight():
    by_weight = load_rows("builtin", TOKENIZER, languages=("en:9", "sw:1"))
    english, swahili = (by_weight.tokens_per_language[code] for code in ("en", "sw"))
    assert abs(english - 9 * swahili) <= 10
    alone = load_rows("builtin", TOKENIZER, languages=("en",)).tokens_per_language["en"]
    assert english > 0.7 * alone  # nearly all English there is


@pytest.mark.parametrize("source", ["mc4"])
def test_the_hub_is_asked_for_enough_of_the_largest_share(monkeypatch, source):
    asked = []

    def documents(name, languages, characters):
        asked.append((languages, characters))
        return [Document(f"{code} {k} " + "word " * 200, code) for code in languages for k in range(60)]

    monkeypatch.setattr("prune_hooks.calibration.hub.hub_documents", documents)
    made = rows(("en:3", "sw:1"), 10, 100, source, Letters())
    assert asked == [(("en", "sw"), 12 * 10 * 100 * 3 // 4)]
    assert made.tokens_per_language == {"en": 750, "sw": 250}
    rows(("en", "sw"), 10, 100, source, Letters())
    assert asked[1] == (("en", "sw"), 12 * 10 * 100 // 2)


# --- labels


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(2, 30), st.integers(1, 9), st.sampled_from([None, 7]))
def test_every_token_has_its_language(samples, length, weight, bos):
    groups = {code: [Document(code * 20 + str(k), code) for k in range(20)] for code in ("x", "y", "z")}
    shares = {"x": weight / (weight + 2), "y": 1 / (weight + 2), "z": 1 / (weight + 2)}
    tokenizer = Letters(bos)
    body = samples * (length - (bos is not None))
    if min(divide(body, shares).values()) == 0:
        with pytest.raises(
            PruneError, match=r"less than one of \d+ tokens: .*leave it out, or raise calibration_samples"
        ):
            pack(groups, tokenizer, source="s", samples=samples, length=length, seed=0, weights=shares)
        return
    made = pack(groups, tokenizer, source="s", samples=samples, length=length, seed=0, weights=shares)
    first = 0 if bos is None else 1
    assert made.labels.shape == made.rows.shape
    for row, labels in zip(made.rows.tolist(), made.labels.tolist(), strict=True):
        for token, label in zip(row[first:], labels[first:], strict=True):
            letter = chr(token)
            assert letter not in "xyz" or letter == made.languages[label]
        assert bos is None or labels[0] == labels[1]
    counted = {code: int((made.labels[:, first:] == k).sum()) for k, code in enumerate(made.languages)}
    assert counted == made.tokens_per_language == divide(body, shares)


def test_token_rows_have_no_labels():
    made = load_rows(torch.ones(2, 4, dtype=torch.int64), None)
    assert (made.languages, made.labels) == ((), None)


def test_the_receipt_carries_the_tokens_of_each_language():
    spec = PruneSpec(calibration_languages="en:2+sw:1", calibration_samples=6, calibration_length=24)
    receipt = prune(build("llama"), TOKENIZER, spec, progress=False)
    assert receipt.calibration["tokens_per_language"] == {"en": 92, "sw": 46}
    assert json.loads(json.dumps(receipt.to_dict()))["spec"]["calibration_languages"] == ["en:2", "sw:1"]


# --- refusals


def test_a_language_without_a_share_is_refused(tmp_path):
    (tmp_path / "a.hr.txt").write_text("jedan dan " * 50)
    with pytest.raises(PruneError, match=r"mC4 .* has none for hr: .*set mbs:FILE with a table of your own"):
        rows(("mbs",), 1, 8, str(tmp_path))
    table = tmp_path / "own.json"
    table.write_text('{"en": 1}')
    with pytest.raises(PruneError, match=r"own\.json has none for sw: expected all of en, sw"):
        rows((f"mbs:{table}", "en", "sw"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"en": 0}', r"holds 'en': 0: expected a JSON or YAML mapping"),
        ('{"en": "much"}', r"holds 'en': 'much'"),
        ('{"en": true}', r"holds 'en': True"),
        ("{}", r"holds dict '\{\}'"),
        ("[1]", r"holds list"),
        ("{", r"cannot be read"),
        ('{"en": 1, "en": 2}', r"cannot be read \('en' stands there twice\)"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path, text, message):
    (tmp_path / "own.json").write_text(text)
    with pytest.raises(PruneError, match=message):
        read_table(tmp_path / "own.json")


def test_a_yaml_table_with_a_bare_no_is_refused(tmp_path):
    (tmp_path / "own.yaml").write_text("en: 1\nno: 2\n")
    with pytest.raises(PruneError, match=r"holds False: 2: .*codes such as no in quotes"):
        read_table(tmp_path / "own.yaml")


def test_a_table_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(PruneError, match=r"names the table .*absent\.json, which is no file"):
        rows((f"mbs:{tmp_path / 'absent.json'}", "en"))


def test_too_little_text_for_a_weight_says_what_fits():
    groups = {code: [Document(f"{code}{k}" * 5, code) for k in range(10)] for code in ("x", "y")}
    shares = {"x": 0.9, "y": 0.1}
    with pytest.raises(PruneError, match=r"too short for 40 rows of 10 tokens \(x: \d+ of 360 tokens\)") as raised:
        pack(groups, Letters(), source="s", samples=40, length=10, seed=0, weights=shares)
    fits = int(str(raised.value).rpartition("calibration_samples=")[2].partition(",")[0])
    assert fits >= 10
    pack(groups, Letters(), source="s", samples=fits, length=10, seed=0, weights=shares)
