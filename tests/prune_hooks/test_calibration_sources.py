"""Where calibration text comes from, and what a wrong source is told."""

import json
import sys
import time
import urllib.error
from types import SimpleNamespace

import pytest
import torch

from prune_hooks.calibration import builtin_languages, hub, load_rows
from prune_hooks.calibration.builtin import builtin_documents
from prune_hooks.calibration.documents import text_hash
from prune_hooks.calibration.languages import language_of
from prune_hooks.errors import PruneError
from prune_hooks.foresight import check_spec
from prune_hooks.spec import PruneSpec
from tests.families import BOS, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
SIZE = {"samples": 2, "length": 12}


def write_squad(path, contexts):
    paragraphs = [{"context": text, "qas": []} for text in contexts]
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}), encoding="utf-8")


# --- built in


def test_builtin_text_has_the_languages_and_enough_words():
    assert " ".join(builtin_languages()) == "ar bn de el en es fi hi id ko ro ru sw te th tr vi zh"
    for language in builtin_languages():
        texts = [d.text for d in builtin_documents() if d.language == language]
        assert len(texts) >= 5, language
        assert sum(len(t) for t in texts) >= (600 if language == "zh" else 900 if language in {"ko", "th"} else 1_100)


def test_builtin_takes_what_the_text_holds_in_equal_shares():
    made = load_rows("builtin", TOKENIZER)
    n, length = made.rows.shape
    assert length == 512
    counts = made.tokens_per_language
    assert sorted(counts) == builtin_languages()
    assert max(counts.values()) - min(counts.values()) <= 1
    assert sum(counts.values()) == n * 511
    assert made.source == "builtin"
    with pytest.raises(PruneError, match=f"too short for {n + 1} rows of 512 tokens"):
        load_rows("builtin", TOKENIZER, samples=n + 1, length=512)


def test_builtin_in_one_language_with_a_tokenizer_that_packs_it_into_less_than_a_row():
    class Words:
        bos_token_id = 1

        def __call__(self, text, add_special_tokens, verbose):
            return SimpleNamespace(input_ids=[len(w) for w in text.split()])

    made = load_rows("builtin", Words(), languages=("en",))
    assert made.rows.shape[0] == 1
    assert 200 < made.rows.shape[1] < 512
    assert load_rows("builtin", Words(), languages=("en",), samples=3).rows.shape[0] == 3


def test_builtin_names_the_languages_there_are():
    with pytest.raises(PruneError, match="calibration builtin has no text in xx; languages there: ar, bn, de"):
        load_rows("builtin", TOKENIZER, languages=("en", "xx"))


# --- files


def test_txt_documents_are_set_apart_by_blank_lines(tmp_path):
    (tmp_path / "sw.txt").write_text("Mto mmoja\nmrefu.\n\n \nBahari kubwa sana.\n", encoding="utf-8")
    made = load_rows(str(tmp_path / "sw.txt"), TOKENIZER, samples=1, length=16)
    assert set(made.text_hashes) <= {text_hash("Mto mmoja mrefu."), text_hash("Bahari kubwa sana.")}
    assert made.tokens_per_language == {"sw": 15}
    assert made.rows[0, 0] == BOS


def test_jsonl_rows_carry_their_language(tmp_path):
    file = tmp_path / "pages.jsonl"
    rows = [{"text": "A long river. " * 9, "language": "en"}, {"text": "Mto mrefu sana. " * 9, "language": "sw"}]
    file.write_text("\n".join(json.dumps(r) for r in rows) + "\n\n", encoding="utf-8")
    made = load_rows(file, TOKENIZER, languages=("sw", "en"), samples=2, length=16)
    assert made.tokens_per_language == {"en": 15, "sw": 15}


def test_bad_jsonl_rows_are_named_by_line(tmp_path):
    file = tmp_path / "pages.jsonl"
    file.write_text('{"text": "good"}\n{"txt": "x"}\n[1]\nnonsense\n{"text": ""}\n{"text": "a", "language": 4}\n')
    message = r'pages\.jsonl has 5 bad rows: line 2 \(no "text"\); line 3 \(a list, .*\); line 4 \(not JSON.*\.\.\.'
    with pytest.raises(PruneError, match=message):
        load_rows(file, TOKENIZER, **SIZE)


def test_jsonl_language_must_be_a_string(tmp_path):
    file = tmp_path / "pages.jsonl"
    file.write_text('{"text": "a", "language": false}\n')
    with pytest.raises(PruneError, match=r'line 1 \("language" is not a string\)'):
        load_rows(file, TOKENIZER, **SIZE)


def test_folder_of_squad_files_gives_passages_by_the_language_in_the_name(tmp_path):
    write_squad(tmp_path / "xquad.en.json", ["The river is long and wide, and it flows.", "A second passage."])
    write_squad(tmp_path / "dev-swahili.json", ["Mto ni mrefu na mpana, nao unaenda baharini."])
    (tmp_path / "LICENSE").write_text("not text for calibration")
    made = load_rows(tmp_path, TOKENIZER, languages=("en", "sw"), samples=2, length=16)
    assert made.tokens_per_language == {"en": 15, "sw": 15}
    assert text_hash("Mto ni mrefu na mpana, nao unaenda baharini.") in made.text_hashes


def test_the_names_of_files_do_not_matter(tmp_path):
    for folder, names in (("a", "12"), ("b", "21")):
        (tmp_path / folder).mkdir()
        for name, text in zip(names, ("One river. " * 8, "Two seas. " * 8), strict=True):
            (tmp_path / folder / f"{name}.txt").write_text(text)
    assert load_rows(tmp_path / "a", TOKENIZER, **SIZE).digest == load_rows(tmp_path / "b", TOKENIZER, **SIZE).digest


def test_a_missing_language_lists_those_there(tmp_path):
    (tmp_path / "text.en.txt").write_text("The river. " * 30)
    with pytest.raises(PruneError, match=r"has no text in sw; languages there: en: set calibration_languages"):
        load_rows(tmp_path, TOKENIZER, languages=("en", "sw"), **SIZE)


def test_unmarked_text_cannot_be_chosen_by_language(tmp_path):
    (tmp_path / "notes.txt").write_text("The river. " * 30)
    with pytest.raises(PruneError, match=r"languages there: und: .* name files like NAME\.en\.txt"):
        load_rows(tmp_path, TOKENIZER, languages=("en",), **SIZE)


def test_defaults_for_a_path_are_the_published_protocol(tmp_path):
    (tmp_path / "notes.txt").write_text("The river.")
    with pytest.raises(PruneError, match=r"too short for 128 rows of 2048 tokens \(all text: \d+ of 262016 tokens\)"):
        load_rows(tmp_path, TOKENIZER)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"x", r"suffix '.csv', expected one of .txt, .jsonl, .json"),
        ("a.txt", b" \n\n ", r"holds no text"),
        ("a.txt", b"caf\xe9", r"is not UTF-8 \(byte 3\)"),
        ("a.json", b'{"rows": []}', r"is not in SQuAD format"),
        ("a.json", b"{", r"is not in SQuAD format"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PruneError, match=message):
        load_rows(tmp_path / name, TOKENIZER, **SIZE)


def test_a_folder_without_text(tmp_path):
    with pytest.raises(PruneError, match=r"has no file with suffix \.txt, \.jsonl, \.json"):
        load_rows(tmp_path, TOKENIZER, **SIZE)


@pytest.mark.parametrize("name", ["c5", ""])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(PruneError, match=f"calibration '{name}' is none of builtin, c4, mc4 and no such path exists"):
        load_rows(name, TOKENIZER)


def test_text_needs_a_tokenizer():
    with pytest.raises(PruneError, match="calibration=builtin needs a tokenizer"):
        load_rows("builtin", None)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"samples": 0}, "calibration_samples is 0"), ({"length": 1}, "calibration_length is 1")],
)
def test_sizes_that_make_no_row(sizes, message):
    with pytest.raises(PruneError, match=message):
        load_rows("builtin", TOKENIZER, **sizes)


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("sw.txt", "sw"),
        ("xquad.zh.json", "zh"),
        ("tydiqa-goldp-dev-telugu.json", "te"),
        ("my_notes.txt", "und"),
        ("data.v1.jsonl", "und"),
        ("EN.txt", "en"),
    ],
)
def test_language_of_a_file_name(name, language):
    assert language_of(name) == language


# --- token rows


def test_token_rows_are_taken_as_they_are():
    rows = torch.arange(12, dtype=torch.int32).view(3, 4)
    made = load_rows(rows, None, samples=2)
    assert made.rows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert made.rows.dtype == torch.int64
    assert load_rows([[0, 1, 2, 3], [4, 5, 6, 7]], TOKENIZER).digest == made.digest


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([[1, 2], [3]], {}, "calibration row 1 has 1 tokens, row 0 has 2"),
        ([1, 2], {}, "calibration is a list that is no table of token ids"),
        ([["a", "b"]], {}, "calibration is a list that is no table of token ids"),
        (7, {}, "calibration is a int that is no table of token ids"),
        ([], {}, r"calibration rows have shape \(0,\)"),
        (torch.ones(2, 2), {}, "calibration rows are torch.float32"),
        (torch.ones(2, 2, 2, dtype=torch.int64), {}, r"shape \(2, 2, 2\)"),
        ([[1, -1]], {}, "token id -1: ids start at 0"),
        ([[1, 9_999]], {}, "token id 9999, the tokenizer has 400 tokens"),
        ([[1, 2]], {"samples": 2}, "1 calibration rows given, calibration_samples is 2"),
        ([[1, 2]], {"length": 3}, "calibration rows have 2 tokens, calibration_length is 3"),
        ([[1, 2]], {"languages": ("en",)}, "token rows, which have no languages"),
    ],
)
def test_bad_token_rows(rows, options, message):
    with pytest.raises(PruneError, match=message):
        load_rows(rows, TOKENIZER, **options)


# --- the hub


@pytest.mark.parametrize(("name", "languages"), [("c4", ()), ("mc4", ("en", "sw"))])
def test_an_unreachable_hub_is_told_within_seconds(monkeypatch, name, languages):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    start = time.monotonic()
    with pytest.raises(
        PruneError, match=rf"calibration={name} needs .* cannot be reached .*: set calibration=builtin, or"
    ):
        load_rows(name, TOKENIZER, languages=languages)
    assert time.monotonic() - start < hub.PROBE_SECONDS + 2


def test_a_hub_that_answers_is_asked_once_and_one_that_does_not_is_asked_again(monkeypatch):
    asked, down = [], [True]

    def urlopen(request, timeout):
        asked.append(request.full_url)
        if down[0]:
            raise urllib.error.URLError("no route to host")
        raise urllib.error.HTTPError(request.full_url, 405, "not allowed", {}, None)  # an answer all the same

    monkeypatch.setattr(hub.urllib.request, "urlopen", urlopen)
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.test")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    hub._ask.cache_clear()
    for _ in range(2):
        with pytest.raises(PruneError, match=r"needs http://hub\.test, which cannot be reached \(no route to host\)"):
            hub.check_reachable("c4")
    down[0] = False
    for _ in range(3):
        hub.check_reachable("mc4")
    assert asked == ["http://hub.test"] * 3
    hub._ask.cache_clear()


def test_offline_mode_is_told_at_once(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(PruneError, match="HF_HUB_OFFLINE is set: unset it, or set calibration=builtin"):
        load_rows("c4", TOKENIZER)


@pytest.mark.parametrize(
    ("name", "languages", "message"),
    [
        ("mc4", (), "calibration=mc4 has no languages chosen: set calibration_languages, e.g. en\\+sw"),
        ("c4", ("en", "sw"), r"calibration=c4 is English only, calibration_languages is en\+sw: set calibration=mc4"),
    ],
)
def test_languages_of_the_hub(name, languages, message):
    with pytest.raises(PruneError, match=message):
        load_rows(name, TOKENIZER, languages=languages)


@pytest.fixture
def fake_hub(monkeypatch):
    """Replaces `datasets` by a stream of 400 pages; returns the list of calls."""
    calls = []

    def load_dataset(repository, name=None, **options):
        calls.append((repository, name, options))
        return iter({"text": f"Page {k} in {name} tells of rivers and of seas. " * 3} for k in range(400))

    monkeypatch.setattr(hub, "check_reachable", lambda name: None)
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


def test_c4_streams_its_first_file_at_the_pinned_revision(fake_hub):
    made = load_rows("c4", TOKENIZER, samples=4, length=32)
    assert made.rows.shape == (4, 32)
    assert made.tokens_per_language == {"en": 4 * 31}
    ((repository, name, options),) = fake_hub
    assert (repository, name) == ("allenai/c4", None)
    assert options["streaming"] is True
    assert options["revision"] == hub.REVISION
    assert options["data_files"] == {"train": "en/c4-train.00000-of-01024.json.gz"}
    assert hub.REVISION in made.source


def test_mc4_takes_equal_shares_and_stops_early(fake_hub, monkeypatch):
    made = load_rows("mc4", TOKENIZER, languages=("sw", "te"), samples=4, length=32)
    assert made.tokens_per_language == {"sw": 62, "te": 62}
    assert [name for _, name, _ in fake_hub] == ["sw", "te"]
    documents = hub.hub_documents("mc4", ("sw",), 500)
    assert 500 / 150 < len(documents) < 10


def test_a_failing_stream_becomes_one_line(fake_hub, monkeypatch):
    def fail(*args, **options):
        raise ValueError("BuilderConfig 'xx' not found.\nAvailable: ...")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=fail))
    with pytest.raises(
        PruneError, match=r"could not read 'xx' from allenai/c4@1588ec4 \(ValueError: Builder.*\): check"
    ):
        load_rows("mc4", TOKENIZER, languages=("xx",), **SIZE)


def test_missing_datasets_package(fake_hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(PruneError, match="needs the package datasets: pip install datasets"):
        load_rows("c4", TOKENIZER, **SIZE)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "wanda", "calibration": "mc4"}, "calibration=mc4 has no languages chosen"),
        ({"method": "wanda", "calibration": "c4", "calibration_languages": ("sw",)}, "calibration=c4 is English only"),
        ({"method": "wanda", "calibration": "c4"}, "calibration=c4 needs the hub but HF_HUB_OFFLINE is set"),
        ({"method": "magnitude", "allocation": "owl", "calibration": "no/such.txt"}, "no such path exists"),
        ({"method": "block_influence", "calibration": "no/such.txt"}, "no such path exists"),
        ({"method": "magnitude", "calibration": "no/such.txt"}, None),
        ({"method": "wanda", "sparsity": 0.0, "calibration": "no/such.txt"}, None),
        ({"method": "wanda", "calibration": "builtin"}, None),
    ],
)
def test_text_that_cannot_be_had_is_found_before_any_model(monkeypatch, options, match):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    spec = PruneSpec(**options)
    if match is None:
        check_spec(spec)
    else:
        with pytest.raises(PruneError, match=match):
            check_spec(spec)
