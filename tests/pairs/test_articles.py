"""Rows are the same whether the source names its articles, as XQuAD's files do, or not, as the hub's rows do."""

import json
from collections import Counter

import pytest

from lm_eval_illusion.pairs import docs, hub
from lm_eval_illusion.pairs.articles import article_of, xquad_articles
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.sources import load_questions

from .conftest import forget
from .made import squad
from .test_sources import no_network  # noqa: F401  a fixture


def made_of_real_ids():
    """Make four articles that bear ids of four articles of XQuAD; the texts are made up."""
    by_article = {}
    for source_id, name in xquad_articles().items():
        by_article.setdefault(name, []).append(source_id)
    content = squad(4)
    for article, ids in zip(content["data"], by_article.values(), strict=False):
        for qa, source_id in zip((qa for p in article["paragraphs"] for qa in p["qas"]), ids, strict=False):
            qa["id"] = source_id
    return content


def hub_rows(content):
    """Return the rows as google/xquad has them: id, context, question, answers."""
    return [
        {
            "id": qa["id"],
            "context": paragraph["context"],
            "question": qa["question"],
            "answers": {"text": [a["text"] for a in qa["answers"]], "answer_start": [0]},
        }
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def built(dataset, language, folder=None):
    forget()
    return json.dumps(docs.build(dataset, language, folder=folder).rows, ensure_ascii=False, sort_keys=True)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_xquad_of_the_hub_and_of_a_folder_give_the_same_bytes(data_folder, tmp_path, monkeypatch, language):
    content = made_of_real_ids()
    for path in DATASETS["xquad"].files.values():
        (tmp_path / path).write_text(json.dumps(content), encoding="utf-8")
    local = built("xquad", language, data_folder)
    for article in content["data"]:
        del article["title"]
    for path in DATASETS["xquad"].files.values():
        (tmp_path / path).write_text(json.dumps(content), encoding="utf-8")
    assert built("xquad", language, data_folder) == local
    monkeypatch.setattr(hub, "hub_reachable", lambda: True)
    monkeypatch.setattr(hub, "_rows", lambda entry, code: hub_rows(content))
    assert built("xquad", language) == local
    sources = Counter(s.split(":")[0] for row in json.loads(local) for s in row["sources_near"] + row["sources_far"])
    assert sources["paragraph"]
    assert sources["article"]
    assert sources["language"]


def test_tydi_rows_need_no_title(data_folder, monkeypatch):
    local = built("tydiqa", "sw", data_folder)
    rows = [{**row, "id": f"swahili-{row['id']}"} for row in hub_rows(squad(4))]
    monkeypatch.setattr(hub, "hub_reachable", lambda: True)
    monkeypatch.setattr(hub, "_rows", lambda entry, code: [{**row, "title": title} for row in rows])
    title = "one for all"
    named = built("tydiqa", "sw")
    title = ""
    assert built("tydiqa", "sw") == named
    assert len(json.loads(named)) == len(json.loads(local)) > 0


def test_the_shipped_table_has_every_question_and_no_text():
    table = xquad_articles()
    assert (len(table), len(set(table.values()))) == (1190, 48)
    assert all(len(source_id) == 24 and int(source_id, 16) for source_id in table)


@pytest.mark.parametrize(
    ("dataset", "source_id", "title", "article"),
    [
        ("xquad", "56beb4343aeaaa14008c925b", "Super Bowl", "article 0"),
        ("xquad", "56beb4343aeaaa14008c925b", "", "article 0"),
        ("xquad", "mine", "Title", "Title"),
        ("own", "56beb4343aeaaa14008c925b", "Title", "Title"),
        ("own", "i", "", "own/passage"),
    ],
)
def test_what_names_an_article(dataset, source_id, title, article):
    assert article_of(dataset, source_id, title, "own/passage") == article


def test_without_titles_each_passage_stands_alone(data_folder):
    forget()
    assert len({q.title for q in load_questions("xquad", "en", data_folder)}) == 4
