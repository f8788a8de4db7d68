"""Where questions come from, and what a missing or wrong source is told."""

import json

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs import hub, pins
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.pins import content_digest
from lm_eval_illusion.pairs.questions import load_squad
from lm_eval_illusion.pairs.sources import (
    DATA_VARIABLE,
    check_data,
    describe_source,
    describe_sources,
    load_questions,
)

from .conftest import forget
from .made import article, squad


@pytest.fixture
def no_network(monkeypatch):
    asked = []
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(hub, "hub_reachable", lambda: asked.append(1) or False)
    monkeypatch.setattr(hub, "_is_cached", lambda entry: False)
    forget()
    return asked


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_the_folder_is_read(data_folder):
    questions = load_questions("tydiqa", "sw", data_folder)
    assert len(questions) == 32
    assert questions[0].item_id == "tydiqa/sw/a00-0-0"
    assert not questions[0].passage.startswith("\ufeff")
    assert questions[0].passage == questions[0].passage.strip()


def test_the_variable_names_the_folder(data_folder, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, data_folder)
    assert len(load_questions("xquad", "th")) == 32
    assert describe_source("xquad").chosen_by == DATA_VARIABLE
    assert describe_source("xquad", "elsewhere").where == "elsewhere"


def test_clusters_are_passages(data_folder):
    tydi = load_questions("tydiqa", "sw", data_folder)
    assert len({q.cluster for q in tydi}) == 8
    names = [{q.cluster for q in load_questions("xquad", code, data_folder)} for code in ("en", "zh")]
    assert names[0] == names[1]


def test_a_folder_without_the_file_is_an_error(tmp_path):
    with pytest.raises(IllusionError, match=r"illusion_data names .* which has no xquad/xquad\.en\.json.*hub"):
        load_questions("xquad", "en", str(tmp_path))


def test_no_folder_and_no_network_name_both_ways(no_network):
    with pytest.raises(IllusionError, match=r"hub cannot be reached.*LM_EVAL_ILLUSION_DATA.*google/xquad"):
        load_questions("xquad", "en")
    assert len(no_network) == 1


def test_the_hub_is_asked_at_the_pinned_revision(no_network, monkeypatch):
    import datasets

    seen = {}
    rows = [
        {"id": "arabic-1", "title": "t", "context": "p", "question": "q", "answers": {"text": ["p"]}},
        {"id": "swahili-1", "title": "t", "context": "p2", "question": "q2", "answers": {"text": ["p2"]}},
    ]
    monkeypatch.setattr(hub, "hub_reachable", lambda: True)
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: seen.update(args=a, **k) or rows)
    content = hub.hub_content(DATASETS["tydiqa"], "sw")
    assert [p["context"] for a in content["data"] for p in a["paragraphs"]] == ["p2"]
    hub.hub_content(DATASETS["xquad"], "en")
    assert seen["args"] == ("google/xquad", "xquad.en")
    assert seen["revision"] == "51adfef1c1287aab1d2d91b5bead9bcfb9c68583"
    assert seen["split"] == "validation"


def test_what_the_loader_says_is_passed_on(no_network, monkeypatch):
    def broken(*args, **kwargs):
        raise ConnectionError("429 Too Many Requests\nsecond line")

    monkeypatch.setattr(hub, "hub_reachable", lambda: True)
    monkeypatch.setattr(hub, "_rows", broken)
    with pytest.raises(IllusionError, match=r"429 Too Many Requests, and no local folder.*LM_EVAL_ILLUSION_DATA"):
        load_questions("tydiqa", "fi")


def test_other_content_than_the_pinned_is_refused(data_folder, monkeypatch):
    monkeypatch.setattr(pins, "pins", lambda: {"tydiqa": {"sw": "0" * 64}})
    with pytest.raises(IllusionError, match=r"not the pinned ones \(SHA-256 [0-9a-f]{12}\.\.\., expected 000000000000"):
        load_questions("tydiqa", "sw", data_folder)


def test_every_language_is_pinned():
    for name in ("tydiqa", "xquad"):
        assert set(pins.pins()[name]) == set(DATASETS[name].languages)


def test_the_digest_forgets_order_but_not_content(tmp_path):
    straight = load_squad(write(tmp_path / "a.json", squad(2)), dataset="own", language="en")
    turned = load_squad(write(tmp_path / "b.json", {"data": [article(1), article(0)]}), dataset="own", language="en")
    assert content_digest(straight) == content_digest(turned)
    assert content_digest(straight) != content_digest(straight[:-1])


def test_the_mini_set_needs_nothing(no_network):
    assert check_data("illusion_mini", "sw").kind == "package"
    assert not no_network


def test_sources_are_described_without_reading(no_network):
    kinds = {s.dataset: s.kind for s in describe_sources()}
    assert kinds == {"tydiqa": "hub", "xquad": "hub", "illusion_mini": "package"}
    assert {s.licence for s in describe_sources("/nowhere")} >= {"Apache 2.0", "CC BY-SA 4.0"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "not in SQuAD format"),
        ('{"data": []}', "holds no questions"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', "holds no questions"),
        ('{"data": [{"paragraphs": [{"qas": [{"id": "x"}]}]}]}', "not in SQuAD format: KeyError 'context'"),
        (
            '{"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "x", "question": "q", "answers": []}]}]}]}',
            "item 'x' has an empty passage, question or answer",
        ),
    ],
)
def test_files_that_are_not_squad(tmp_path, content, message):
    path = tmp_path / "f.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(IllusionError, match=message):
        load_squad(path, dataset="own", language="en")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(IllusionError, match=r"cannot read questions from .*none\.json: No such file"):
        load_squad(tmp_path / "none.json", dataset="own", language="en")


def test_an_id_twice(tmp_path):
    with pytest.raises(IllusionError, match="'a00-0-0' occurs twice"):
        load_squad(write(tmp_path / "f.json", {"data": [article(0), article(0)]}), dataset="own", language="en")


@pytest.mark.parametrize(("dataset", "language"), [("squad", "en"), ("xquad", "ja")])
def test_unknown_names_list_the_known(dataset, language):
    with pytest.raises(IllusionError, match=r"known: illusion_mini, tydiqa, xquad|it has: ar, de, el"):
        load_questions(dataset, language)
