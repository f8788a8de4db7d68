"""Model output is hostile text: it stays inert in the terminal, in Markdown and in the files."""

import html
import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from synthetic import Question, pattern, receipt, write_run

from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.measures import Estimate
from lm_eval_illusion.report.numbers import decimals, interval, probability
from lm_eval_illusion.report.page import render_page
from lm_eval_illusion.report.render.markdown import render_markdown
from lm_eval_illusion.report.render.overview import overview_table, shown_first
from lm_eval_illusion.report.render.safe import LIMIT, escape_invisible, inert, inert_markdown, inert_prose
from lm_eval_illusion.report.render.tables import comparison_tables, run_table
from lm_eval_illusion.report.render.text import render_text

HOSTILE = (
    "| a | [bold red]x[/] [link=http://evil]y[/link] <script>alert(1)</script> \x1b[2J\x1b]8;;http://evil\x07 "
    "\u202egnp.exe\u2066 \u2028 \r\n# head `code` ![i](http://evil/i.png) www.evil.example a@evil.example $x$ &lt;"
)


def terminal(report, width=200):
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=True, color_system="truecolor").print(render_text(report))
    return stream.getvalue()


def plain(report, width):
    stream = io.StringIO()
    Console(file=stream, width=width).print(render_text(report))
    return stream.getvalue()


@pytest.fixture
def hostile(tmp_path):
    dense = pattern("bbbb")
    pruned = [
        Question(n, near=True, far=True, gen=False, answer=HOSTILE + "A" * 100_000, question=HOSTILE) for n in range(4)
    ]
    for question in dense:
        question.question = HOSTILE
    spec = {"method": "[red]|<b>\x1b[2J", "sparsity": 0.5, "pattern": HOSTILE}
    one = write_run(tmp_path / "a", dense)
    two = write_run(tmp_path / "b", pruned, pruning={**receipt(), "spec": spec})
    return build_report([one, two])


def test_markdown_is_inert(hostile):
    text = render_markdown(hostile)
    assert "<script" not in text
    assert "](http" not in text
    assert "://evil" not in text
    assert "www.evil" not in text
    assert "`code`" not in text
    assert len(text) < 60_000
    bad = {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}} - {"\n"}
    assert not bad
    widths = [
        {line.count("|") for line in block.split("\n")}
        for block in text.rstrip("\n").split("\n\n")
        if block.startswith("|")
    ]
    assert len(widths) > 10
    assert all(len(width) == 1 for width in widths)


def test_terminal_is_inert(hostile):
    text = terminal(hostile)
    assert "\x1b[2J" not in text
    assert "\x1b]8;" not in text
    assert "\u202e" not in text
    assert "\x07" not in text


def test_files_are_inert_yet_lossless(hostile, tmp_path):
    write_report(hostile, tmp_path / "out")
    raw = (tmp_path / "out" / "items.jsonl").read_text(encoding="utf-8")
    assert "\u202e" not in raw
    assert "\x1b" not in raw
    item = json.loads(raw.split("\n")[0])
    assert next(v for k, v in item["runs"].items() if k != "dense")["generation"]["answer"] == HOSTILE + "A" * 100_000


@given(st.text())
def test_inert_text_has_one_visible_line(text):
    shown = inert(text)
    assert len(shown.splitlines()) <= 1
    assert not {c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}} - set("\u200c\u200d")
    assert "|" not in inert_markdown(text)
    assert "<" not in inert_markdown(text)
    assert "|" not in inert_prose(text)


@given(st.text())
def test_escaped_json_is_the_same_data(text):
    assert json.loads(escape_invisible(json.dumps(text, ensure_ascii=False))) == text


def test_words_of_many_scripts_stay_readable():
    for word in ("नमस्ते", "می‌خواهم", "ประเทศไทย", "서울특별시", "東京", "مرحبا"):
        assert inert(word) == word
        assert inert_markdown(word) == word


def test_long_text_is_cut_with_its_length():
    assert inert("a" * 1000) == "a" * LIMIT + "… (1000 characters)"


def test_terminal_shows_every_main_figure(tmp_path):
    one = write_run(tmp_path / "a", pattern("bbrn" * 10))
    two = write_run(tmp_path / "b", pattern("rrrn" * 10), pruning=receipt())
    text = terminal(build_report([one, two]), width=220)
    for words in (
        "gap near",
        "gap far",
        "McNemar p",
        "Holm p",
        "induced near",
        "normaliser",
        "empty",
        "excluded",
        "unmatched",
    ):
        assert words in text


def test_the_conclusion_stands_last_in_the_terminal_too(tmp_path):
    runs = [write_run(tmp_path / "a", pattern("bbrn" * 10))]
    runs += [write_run(tmp_path / f"{n}", pattern("rrrn" * 10), pruning=receipt("wanda", n / 10)) for n in range(4, 8)]
    for report in (build_report(runs[:2]), build_report(runs)):
        parts = plain(report, 120).split("What the numbers allow")
        assert len(parts) == 3
        last = " ".join(parts[2].split())
        assert all(" ".join(line.split()) in last for line in shown_first(report.file))
        assert last.endswith(report.file.comparisons[0].headline[-1])
        assert " ".join(parts[1].split()).count("Not shown by these numbers") == 0
        assert render_markdown(report).count("What the numbers allow") == 1


def test_hidden_columns_are_named_and_not_explained(tmp_path):
    one = write_run(tmp_path / "a", pattern("bbrn" * 10))
    two = write_run(tmp_path / "b", pattern("rrrn" * 10), pruning=receipt())
    report = build_report([one, two])
    narrow, wide = (" ".join(plain(report, width).split()) for width in (76, 240))
    assert "Too wide for here: rec.-only near, rec.-only far, p near, p far, induced near" in narrow
    for words in ("p near, p far: of the excess", "Clustered p:"):
        assert words in wide
        assert words not in narrow
    assert "Holm p: raised" in narrow  # its column is shown
    assert "p near, p far: of the excess" in render_markdown(report)


def test_no_table_has_two_columns_of_one_name(tmp_path):
    one = write_run(tmp_path / "a", pattern("bbrn" * 10))
    two = write_run(tmp_path / "b", pattern("rrrn" * 10), pruning=receipt())
    file = build_report([one, two]).file
    for table in [run_table(file), overview_table(file), *comparison_tables(file.comparisons[0])]:
        assert len(set(table.columns)) == len(table.columns)
        assert all(max(gloss.columns) < len(table.columns) for gloss in table.glosses)


def test_terms_are_explained_where_they_first_occur(tmp_path):
    questions = [Question(n, gen=n % 2 == 0, cluster=str(n // 2)) for n in range(40)]
    worse = [Question(n, gen=False, cluster=str(n // 2)) for n in range(40)]
    runs = [write_run(tmp_path / "a", questions)]
    runs += [write_run(tmp_path / f"{n}", worse, pruning=receipt("wanda", n / 10)) for n in (4, 5)]
    shown = plain(build_report(runs), 200)
    text = " ".join(shown.split())
    assert shown.count("Holm p ") == 2  # a heading each
    for words in ("Clustered p: each passage counts as one draw", "Holm p: raised for the number of tests"):
        assert text.count(words) == 1
    first, second = text.split("Holm p: raised")
    assert "clustered p Holm p" in first
    assert "clustered p Holm p" in second
    assert "Fixed in advance, before any result was seen: chars and standard." in text


def test_a_missing_interval_is_explained_where_it_occurs(tmp_path):
    dense = [Question(n, gen=n < 2, cluster="one" if n < 2 else None) for n in range(8)]
    pruned = [Question(n, gen=False, cluster="one" if n < 2 else None) for n in range(8)]
    report = build_report([write_run(tmp_path / "a", dense), write_run(tmp_path / "b", pruned, pruning=receipt())])
    changed = next(t for t in comparison_tables(report.file.comparisons[0]) if t.title == "What pruning changed")
    assert changed.rows[0][7] == "+0.75 [–]"
    why = "[–]: no interval, because the items behind the cell lie in fewer than 2 passages"
    assert why in changed.said()
    assert why not in changed.said(kept=range(7))
    for text in (plain(report, 240), render_markdown(report), html.unescape(render_page(report))):
        assert why in " ".join(text.split())
    assert why not in changed.said([["overall", "+0.75 [+0.10, +0.90]", *["–"] * 8]])


def test_numbers():
    assert decimals(-0.004) == "0.00"
    assert decimals(-0.126, sign=True) == "−0.13"
    assert decimals(None) == "–"
    assert probability(0.0004) == "<0.001"
    assert probability(0.0416) == "0.042"
    assert interval(Estimate(value=0.5, low=0.25, high=0.75, items=4, clusters=4)) == "0.50 [0.25, 0.75]"
    assert interval(Estimate(value=0.5, low=None, high=None, items=1, clusters=1)) == "0.50 [–]"
    assert interval(Estimate(value=None, low=None, high=None, items=0, clusters=0)) == "–"


@pytest.mark.parametrize("text", ["1701", "16 June 1904", "illusion_mini", "字_字", "3.5"])
def test_numbers_and_names_stay_readable(text):
    assert inert_markdown(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1. item", "&#49;. item"),
        ("12) item", "12&#41; item"),
        ("_a_", "&#95;a&#95;"),
        ("__b__", "&#95;&#95;b&#95;&#95;"),
    ],
)
def test_lists_and_emphasis_are_inert(text, shown):
    assert inert_markdown(text) == shown
