"""The page as text: what it holds, that it loads nothing, and that nothing in it acts."""

import base64
import gzip
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Question, pattern, receipt, write_run
from typer.testing import CliRunner

from lm_eval_illusion.cli import app
from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.build import build_report
from lm_eval_illusion.report.layers import layers_of
from lm_eval_illusion.report.page import render_page
from lm_eval_illusion.report.page.figures import gap_figure
from lm_eval_illusion.report.page.pack import pack_items
from lm_eval_illusion.report.page.plain import around, plain
from lm_eval_illusion.report.write import write_report
from scripts.synthetic_runs import HOSTILE, write_runs

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
EVIL = 'x"><img src=y onerror=alert(1)>'


class Page(HTMLParser):
    """Tags with their attributes, and texts by the innermost tag."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.open = [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def having(self, tag, **wanted):
        return [a for name, a in self.tags if name == tag and all(a.get(k) == v for k, v in wanted.items())]


def unpacked(text):
    found = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', text)
    return json.loads(gzip.decompress(base64.b64decode(found[1], validate=True)))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Two pruned runs with probes and hostile answers, as report and page."""
    report = build_report(write_runs(tmp_path_factory.mktemp("runs"), 96, probes=True, hostile=True))
    return report, render_page(report)


def small(tmp_path, weights=(), **fields):
    pruned = receipt() | {"weights": list(weights)}
    one = write_run(tmp_path / "a", pattern("bbbrgn" * 8, **fields))
    two = write_run(tmp_path / "b", pattern("brnrnn" * 8, **fields), pruning=pruned)
    return [one, two]


def test_every_part_of_the_page_is_there(hostile):
    page = Page(hostile[1])
    parts = {attributes["id"] for attributes in page.having("section")}
    assert parts == {"conclusion", "gap", "statements", "curves", "flow", "pruning", "items", "tables"}
    titles = " ".join(page.texts["h3"])
    for words in (
        "Gap between",
        "against sparsity",
        "From dense to wanda 0.5",
        "likelihood",
        "brought back",
        "Rank of",
    ):
        assert words in titles
    assert "Sparsity, block by block" in titles


def test_headline_and_conclusion_are_words(hostile):
    report, text = hostile
    page = " ".join(" ".join(parts) for parts in Page(text).texts.values())
    for comparison in report.file.comparisons:
        assert all(line in page for line in comparison.headline)
    for conclusion in report.file.conclusions.comparisons:
        assert all(sentence in page for sentence in conclusion.paragraph)


def test_the_page_loads_nothing(hostile):
    page = Page(hostile[1])
    links = [a["href"] for name, a in page.tags if "href" in a]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not [a for _, a in page.tags if {"src", "srcset", "data", "poster", "action", "xlink:href"} & a.keys()]
    assert not {"link", "iframe", "object", "embed", "base", "img", "image", "use"} & {name for name, _ in page.tags}
    assert "url(" not in "".join(page.texts["style"])
    assert "@import" not in "".join(page.texts["style"])


def test_the_policy_allows_the_one_script_alone(hostile):
    page = Page(hostile[1])
    policy = page.having("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    scripts = re.findall(r"<script>(.*?)</script>", hostile[1], re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert [a.get("type") for a in page.having("script")] == ["application/json", "text/plain", None]
    assert not [a for _, a in page.tags if any(key.startswith("on") for key in a)]


def test_hostile_answers_are_in_the_data_and_inert(hostile):
    report, text = hostile
    data = unpacked(text)
    kept = json.dumps(data, ensure_ascii=False)
    assert "document.title='pwned'" in kept
    assert "(100000 characters)" in kept
    assert not set(BIDI + "\x00\x07\x1b\ufeff\u2028") & set(kept)
    for answer in HOSTILE:
        assert answer not in text
    assert "<script>document" not in text
    assert "onerror" not in text
    assert len(data["items"]) == len(report.items) == 96


def test_hostile_names_of_languages_are_inert_in_tables_and_pictures(tmp_path):
    fields = {"language": EVIL, "cluster": None, "question": f"{EVIL} \u202eevil</title>"}
    text = render_page(build_report(small(tmp_path, **fields)))
    assert EVIL not in text
    assert html.escape(EVIL, quote=False).replace('"', "&#34;") in text or "&lt;img src=y" in text
    page = Page(text)
    assert not page.having("img")
    assert EVIL in unpacked(text)["items"][0]["l"]
    assert not set(BIDI) & set(text)


def test_pictures_are_xml_named_in_words_and_coloured_by_the_style_sheet(hostile):
    text = hostile[1]
    pictures = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    panels = [a for a in Page(text).having("div", role="img")]
    assert len(pictures) == len(panels) > 20
    assert all(len(panel["aria-label"]) > 40 for panel in panels)
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.attrib["aria-hidden"] == "true"
        for element in root.iter():
            for key in ("fill", "stroke"):
                assert re.fullmatch(r"none|transparent|var\(--[\w-]+\)|", element.attrib.get(key, "none")), (
                    element.attrib
                )


def test_gap_picture_says_the_numbers(hostile):
    report, text = hostile
    labels = [a["aria-label"] for a in Page(text).having("div", role="img")]
    overall = next(label for label in labels if label.startswith("Illusion gap, overall"))
    gap = report.file.comparisons[0].rows[0].pruned.near.gap
    assert f"wanda 0.5, near: {gap.value:.2f} [{gap.low:.2f}, {gap.high:.2f}]" in overall


def test_the_gap_table_says_what_is_told_from_chance_and_settles_nothing(tmp_path):
    one = write_run(tmp_path / "a", pattern("bbbr"))
    two = write_run(tmp_path / "b", pattern("rrrr"), pruning=receipt())
    report = build_report([one, two])
    assert any(line.startswith("Undecided") for line in report.file.headline)
    table = gap_figure(report.file).table
    assert table.columns[-1] == "multiple choice told from chance"
    assert table.rows[-1][-1] == "yes"
    page = render_page(report)
    assert "interpretable</bdi>" not in page
    assert "Whether there is one, its own interval says; whether pruning changed it, the conclusion on top." in page


def test_numbers_of_the_flow_are_links_into_the_items(hostile):
    report, text = hostile
    near = report.file.comparisons[0].rows[0].contrast.near.transitions
    links = {a["href"]: a["aria-label"] for a in Page(text).having("a") if "move=" in a["href"]}
    label = links["#items?run=wanda%200.5&options=near&move=both-recognition_only"]
    assert label == f"{near['both']['recognition_only']} items from both to recognition only, near options"


def test_ids_are_unique_and_labels_point_at_them(hostile):
    page = Page(hostile[1])
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["for"] for a in page.having("label")} <= set(ids)
    assert {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a} <= set(ids)
    assert page.having("html", lang="en")


def test_without_probes_sweep_and_layers_the_page_is_whole(tmp_path):
    text = render_page(build_report(small(tmp_path)))
    parts = {attributes["id"] for attributes in Page(text).having("section")}
    assert parts == {"conclusion", "gap", "flow", "pruning", "items", "tables"}
    assert "block by block" not in text
    assert "brought back by" in text  # the item's own row stays


def test_runs_without_generation_have_neither_gap_nor_flow(tmp_path):
    runs = [write_run(tmp_path / name, pattern("bbrn" * 9), conditions=("mc",)) for name in "ab"]
    text = render_page(build_report(runs))
    assert 'id="gap"' not in text
    assert "No items with both halves in both runs." in text


def test_many_comparisons_are_folded_under_an_overview(tmp_path):
    runs = [write_run(tmp_path / "d", pattern("bbrn" * 9))]
    for n in range(4):
        runs.append(write_run(tmp_path / f"{n}", pattern("bnrn" * 9), pruning=receipt(sparsity=0.1 * n + 0.1)))
    page = Page(render_page(build_report(runs)))
    folded = [attributes for attributes in page.having("details", **{"class": "comparison"})]
    assert ["open" in attributes for attributes in folded] == [True, False, False, False]
    assert "All runs at a glance" in page.texts["caption"]


def test_report_with_html_writes_the_page_and_without_it_takes_an_older_one_away(tmp_path):
    runs, out = [str(path) for path in small(tmp_path)], tmp_path / "out"
    told = CliRunner().invoke(app, ["report", *runs, "--out", str(out), "--html"])
    assert told.exit_code == 0, told.output
    assert "report.html" in told.output
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    again = (out / "report.html").read_bytes()
    write_report(build_report(small(tmp_path)), out, html=True)
    assert (out / "report.html").read_bytes() == again
    assert CliRunner().invoke(app, ["report", *runs, "--out", str(out)]).exit_code == 0
    assert not (out / "report.html").exists()


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_plain_text_has_no_acting_character(text):
    shown = plain(text, 200)
    assert not set(BIDI + "".join(map(chr, range(9))) + "\x7f\x85\u2028\u2029\ufeff\u00ad") & set(shown)
    shown.encode("utf-8")
    assert plain(shown, 5000) == shown


def test_plain_text_keeps_what_scripts_need():
    kept = "می\u200cخواهم \u0915\u094d\u200d\u0937 बा\nน้ำ\tที่"
    assert plain(kept, 100) == kept
    assert plain("a\u202eb\x00", 100) == "a\\u202eb\\u0000"
    assert plain("\ud800", 100) == "\\ud800"
    assert plain("\U000e0041", 100) == "\\U000e0041"
    assert plain("abcdef", 3) == "abc… (6 characters)"
    assert plain("Z" + "\u0301" * 50, 100) == "Z" + "\u0301" * 4


def test_a_passage_is_cut_around_its_gold():
    text = "x" * 500 + "Paris" + "y" * 500
    assert around(text, ["Paris"], 2000) == text
    cut = around(text, ["Rome", "Paris"], 100)
    assert cut == "… " + "x" * 50 + "Paris" + "y" * 45 + " …"
    assert around(text, [], 10) == "x" * 10 + " …"


def test_items_too_large_for_the_page_are_cut_and_it_says_so(hostile):
    report, _ = hostile
    labels = [run.label for run in report.file.runs]
    whole = pack_items(report.items, labels)
    assert not whole.shortened
    small = pack_items(report.items, labels, budget=len(whole.base64) * 3 // 4)
    assert small.shortened
    assert len(small.base64) <= len(whole.base64) * 3 // 4
    least = pack_items(report.items, labels, budget=1)
    assert least.items == 96
    assert least.passage_limit == 0


def test_equal_passages_are_kept_once(tmp_path):
    text = render_page(build_report(small(tmp_path, passage="One passage with Paris.")))
    assert unpacked(text)["texts"] == ["One passage with Paris."]


def test_data_hold_both_models_answers_under_every_condition(hostile):
    item = unpacked(hostile[1])["items"][0]
    dense, pruned, _ = item["r"]
    assert {"n", "f", "g", "qn", "qf", "v", "k", "pr"} <= dense.keys() | pruned.keys()
    assert {"shown", "beam4", "rank"} == dense["pr"].keys() == pruned["pr"].keys()
    assert len(item["n"]["o"]) == len(dense["n"]["s"]) == 4


def test_layers_count_matrices_of_a_block_and_experts_together():
    names = ["model.layers.0.mlp.experts.0.up_proj.weight", "model.layers.0.mlp.experts.1.up_proj.weight"]
    names += ["model.layers.11.self_attn.q_proj.weight", "lm_head.weight"]
    records = [{"name": name, "shape": [4, 10], "zeros_after": 10 * n} for n, name in enumerate(names)]
    told = [(a.block, a.part, a.weights, a.zeros) for a in layers_of({"weights": records})]
    assert told == [
        (0, "mlp.experts.*.up_proj", 80, 10),
        (11, "self_attn.q_proj", 40, 20),
        (None, "lm_head", 40, 30),
    ]
    assert layers_of({}) is None
    assert layers_of({"weights": records, "structured": {"reload": "x"}}) is None


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"a": 1}, "weights is a dict"),
        ([{"name": "a"}], r"weights\[0\] is no record of a matrix"),
        ([{"name": "a", "shape": [2, 2], "zeros_after": "x"}], r"weights\[0\] is no record of a matrix"),
        ([{"name": "a", "shape": [2, 2], "zeros_after": 5}], "a has 5 zeros among 4 weights"),
    ],
)
def test_a_damaged_list_of_matrices_is_one_line(tmp_path, weights, said):
    bad = write_run(tmp_path / "bad", [Question(1)], pruning=receipt() | {"weights": weights})
    good = write_run(tmp_path / "good", [Question(1)])
    with pytest.raises(IllusionError, match=rf"damaged pruning receipt.*{said}.*run `lm_eval"):
        build_report([good, bad])
