"""What the probes show, set for page, picture and terminal from hand-made figures."""

import html
import io
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from probe_figures import contrast, graded, mean, probes, ranks, recovery, report_with
from rich.cells import cell_len
from rich.console import Console
from synthetic import pattern, write_run

from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.build import DEFAULTS
from lm_eval_illusion.report.headline import LIMITS, PROBED_LIMITS, headline
from lm_eval_illusion.report.page import render_page
from lm_eval_illusion.report.render.frame import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from lm_eval_illusion.report.render.graded_picture import has_graded, render_graded
from lm_eval_illusion.report.render.markdown import render_markdown
from lm_eval_illusion.report.render.probe_tables import probe_tables
from lm_eval_illusion.report.render.text import render_text

EXPECTED = Path(__file__).parent / "expected" / "probes"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def probed(tmp_path):
    return report_with(tmp_path / "runs")


def terminal(report, width=200):
    stream = io.StringIO()
    Console(file=stream, width=width).print(render_text(report))
    return stream.getvalue()


def table(report, title):
    return next(t for t in probe_tables(report.file.comparisons[0], DEFAULTS) if t.title == title)


@pytest.mark.parametrize("name", ["report.md", "graded.svg"])
def test_a_probed_report_is_as_expected(probed, tmp_path, name):
    write_report(probed, tmp_path / "out")
    written = (tmp_path / "out" / name).read_text(encoding="utf-8")
    if os.environ.get("REWRITE_EXPECTED"):
        EXPECTED.mkdir(parents=True, exist_ok=True)
        (EXPECTED / name).write_text(written, encoding="utf-8")
    assert written == (EXPECTED / name).read_text(encoding="utf-8")


def test_verdicts_stand_for_every_model_and_language(probed):
    rows = table(probed, "What became of the items").rows
    assert [row[:2] for row in rows] == [
        [scope, model] for scope in ("overall", "tydiqa en", "tydiqa sw") for model in ("dense", "wanda 0.5")
    ]
    assert rows[1][2:] == ["60", "18", "11", "9", "20", "2", "2", "beam8 5, sample 7, shown 4"]


def test_forms_of_wrong_answers_stand_apart(probed):
    rows = [row[2:] for row in table(probed, "Form of the wrong answers").rows if row[:2] == ["overall", "wanda 0.5"]]
    assert rows == [
        ["demoted", "11", "1", "0", "0", "0", "4"],
        ["recognised only", "9", "3", "0", "1", "0", "2"],
        ["lost", "20", "5", "2", "0", "0", "0"],
        ["unprobed", "2", "–", "–", "–", "–", "–"],
    ]


def test_recovery_rows(probed):
    rows = [row[2:] for row in table(probed, "Recovery of wrong open answers").rows if row[1] == "wanda 0.5"]
    assert rows[1] == [
        "beam8", "40", "11", "0.28 [0.10, 0.40]", "all", "0.05", "+0.21 [+0.09, +0.33]", "0.10 [0.03, 0.20]",
        "11", "1", "0.012",
    ]  # fmt: skip
    assert rows[2][0:3] == ["sample pass@2", "40", "6.5"]  # an expectation
    assert rows[2][-3:] == ["–", "–", "–"]


def test_small_and_chosen_samples_are_marked(tmp_path):
    some = probes(partly=["sample"], recovery=[recovery("sample pass@8", mean(0.2, 0.1, 0.3, 12), 3, 12, lost=None)])
    made = table(report_with(tmp_path, pruned_probes=some, dense_probes=None), "Recovery of wrong open answers")
    assert made.rows[0][2:4] == ["sample pass@8 ‡", "12 *"]
    assert "‡: asked on chosen items only" in made.said()
    assert "‡" not in made.said([row for row in made.rows if "‡" not in row[2]])


def test_a_share_corrected_over_fewer_failures_says_over_which(tmp_path):
    some = probes(recovery=[recovery("beam8", mean(0.0, -0.02, 0.03, 30, 30), 24, 46, corrected_hits=15)])
    report = report_with(tmp_path, pruned_probes=some)
    made = table(report, "Recovery of wrong open answers")
    (row,) = (row for row in made.rows if row[:2] == ["overall", "wanda 0.5"])
    assert row[3:5] + row[6:7] + row[8:9] == ["46", "24", "15 of 30", "0.00 [−0.02, +0.03]"]
    said = "beam8 24 of 46 failures, corrected 0.00 [−0.02, +0.03] (15 of 30 with a wrong option in the prompt)"
    assert said in render_markdown(report)
    brief = " ".join(terminal(report, 200).split())
    assert "beam8 15 of 30 0.00 [−0.02, +0.03]" in brief


CHOSEN = {
    "From open answer to displayed candidates to likelihood": "shown",
    "Against one option, by its distance": "mc_graded",
    "Self-correction": "revise1_gen",
    "Further conditions": "mc_letters",
    "Rank of the gold's first token, dense against pruned": "rank",
    "Where the model leaves the gold": "rank",
    "The gold among all spans of its passage with as many words": "rank_spans",
}


@pytest.mark.parametrize(("title", "condition"), CHOSEN.items())
def test_every_table_marks_what_was_asked_on_chosen_items(tmp_path, title, condition):
    plain = report_with(tmp_path / "a", pruned_probes=probes())
    chosen = report_with(tmp_path / "b", pruned_probes=probes(partly=[condition]))
    why = "‡: asked on chosen items only"
    assert why not in table(plain, title).said()
    made = table(chosen, title)
    assert why in made.said()
    assert any(cell.endswith(" ‡") for row in made.rows for cell in row)
    assert not any("‡" in cell for row in made.rows for cell in row if row[1] == "dense")


def test_how_samples_were_drawn_is_said(probed):
    assert "Samples: 8 draws at temperature 0.8, top-p 0.95, seed 0." in render_markdown(probed)


@pytest.mark.parametrize(
    ("corrected", "items"),
    [
        (mean(-0.2, -6.69, 1.0, items=4, clusters=4), 4),
        (mean(-0.2, -6.69, 1.0, items=4, clusters=4), 40),  # enough failures, few of them with a control
        (mean(-0.2, -6.69, 1.0, items=40, clusters=7), 40),
    ],
)
def test_too_few_failures_have_a_share_and_no_interval(tmp_path, corrected, items):
    some = probes(recovery=[recovery("beam8", corrected, 1, items)])
    report = report_with(tmp_path, pruned_probes=some)
    made = table(report, "Recovery of wrong open answers")
    assert [row[8] for row in made.rows if row[1] == "wanda 0.5"] == ["−0.20 [too few]"] * 3
    why = "[too few]: below 30 failures or 8 passages no verdict is given, and no interval."
    assert why in made.said()
    assert why not in made.said([row for row in made.rows if row[1] == "dense"])
    page = " ".join(html.unescape(render_page(report)).split())
    for text in (" ".join(terminal(report).split()), render_markdown(report), page):
        assert "−0.20 [too few]" in text
        assert why in text
        assert "6.69" not in text
    assert f"beam8 1 of {items} failures, corrected −0.20 [too few]" in render_markdown(report)
    assert "A mark without one: too few failures or passages for an interval." in page


def test_enough_failures_keep_their_interval(probed):
    for text in (terminal(probed), render_markdown(probed), render_page(probed)):
        assert "+0.21 [+0.09, +0.33]" in text
        assert "too few]" not in text


def test_the_ladder_has_dense_beside_pruned(tmp_path):
    few = probes(ladder=probes().ladder[:1])
    rows = table(report_with(tmp_path, dense_probes=few), "From open answer to displayed candidates to likelihood").rows
    same = "0.30 [0.20, 0.40]"
    assert rows[0] == ["overall", "open answer", "40", "40", same, same, "–", "–", "–"]
    assert rows[1] == ["overall", "candidates shown", "–", "40", "–", "0.60 [0.40, 0.70]", "9", "2", "0.065"]


def test_rank_tables(tmp_path):
    made = contrast(ranks=[ranks(), ranks("failures", dense_first=None, dense_within=None, slid=None, rose=None)])
    report = report_with(tmp_path, probe_contrast=made)
    first = table(report, "Rank of the gold's first token, dense against pruned").rows
    assert first[0][1:] == [
        "turned rec.-only, near", "40", "1 / 1 / 1 / 1.5 / 2", "1 / 2 / 3.5 / 6 / 12",
        "0.70 / 1.00 / 1.00 / 1.00", "0.10 / 0.60 / 0.90 / 1.00", "−0.40", "−2.75", "30", "2",
    ]  # fmt: skip
    assert first[1][1:4] == ["failures of the pruned model", "40", "–"]
    assert first[1][-2:] == ["–", "–"]
    parting = table(report, "Rank of the gold's token where it parts from the greedy answer").rows
    assert parting[0][2:] == ["7", "2 / 2 / 3 / 4 / 5", "−1.50", "0", "–", "–"]
    forced = table(report, "Where the model leaves the gold").rows
    assert forced[1][1:] == ["wanda 0.5", "40", "6", "25", "9", "0.50 [0.40, 0.60]", "−2.50", "−4.25"]
    spans = table(report, "The gold among all spans of its passage with as many words").rows
    assert spans[1][2:] == ["40", "3.5", "0.25 [0.15, 0.40]", "7 %"]


def test_choice_tables(probed):
    graded_rows = table(probed, "Against one option, by its distance").rows
    assert [row[1] for row in graded_rows[:4]] == ["same passage", "same article", "other passage", "random string"]
    assert graded_rows[0][4:] == ["0.80 [0.70, 0.90]", "0.60 [0.50, 0.70]", "–", "–", "–"]
    assert graded_rows[1][6:] == ["9", "2", "0.065"]
    revised = [row[2:] for row in table(probed, "Self-correction").rows if row[:2] == ["overall", "wanda 0.5"]]
    assert revised == [
        ["1", "open", "40", "12", "3", "1", "30", "0.625"],
        ["2", "choice", "40", "0", "4", "0", "36", "–"],
    ]
    further = table(probed, "Further conditions").rows
    assert further[0][1:] == [
        "letters",
        "0.25",
        "40",
        "40",
        "0.40 [0.30, 0.50]",
        "0.40 [0.30, 0.50]",
        "9",
        "2",
        "0.065",
    ]
    assert [row[1] for row in further[:2]] == ["letters", "options alone, far"]


def test_moves_between_verdicts(probed):
    rows = table(probed, "Verdicts, dense to pruned (rows: dense, columns: pruned)").rows
    assert rows[0] == ["overall", "produced", "10", "7", "3", "2", "0"]


def test_overall_stands_before_the_details_of_languages(probed):
    text = render_markdown(probed)
    before, details = text.split("<details>")
    assert "### Recovery of wrong open answers" in before
    assert "### Recovery of wrong open answers" in details.split("</details>")[0]
    overall = before.split("### Recovery of wrong open answers")[1].split("\n### ")[0]
    assert "| overall |" in overall
    assert "tydiqa sw" not in overall
    assert "| overall |" not in details.split("</details>")[0]


def test_the_page_opens_with_the_conclusion(probed):
    top = render_markdown(probed).split("### Runs")[0]
    assert "**wanda 0.5 against dense.** Of 42 items out of 60 that wanda 0.5 does not answer, 11 are demoted" in top
    assert "| beam search brings answers back | yes |" in top
    assert (
        "Not shown by these numbers: that an answer which no probe brought back is erased" not in top
    )  # built unprobed
    assert "### Statements and their numbers" in render_markdown(probed)


def test_the_terminal_gives_a_short_summary(probed):
    for width in (80, 200):
        text = terminal(probed, width)
        assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= width
        for words in ("What became of the items", "Wrong open answers brought back", "First-token rank of the gold in"):
            assert words in text
        for words in ("Self-correction", "Against one option", "Where the model leaves"):
            assert words not in text
    line = next(line for line in terminal(probed).splitlines() if line.strip().startswith("beam8"))
    assert line.split() == ["beam8", *["11", "of", "40", "+0.21", "[+0.09,", "+0.33]"] * 2]
    assert "sample pass@8" in terminal(probed)
    assert "sample pass@2" not in terminal(probed)
    assert "The paper's statements: yes: recognition without an answer" in " ".join(terminal(probed).split())


def test_many_runs_keep_one_line_each(tmp_path):
    report = report_with(tmp_path, labels=(0.4, 0.5, 0.6, 0.7))
    text = " ".join(terminal(report, 120).split())
    assert "What became of the items" not in text
    assert text.count("beam search brings answers back") == 4
    page = render_markdown(report)
    head = page.split("### Runs")[0]
    assert "| statement | wanda 0.4 | wanda 0.5 | wanda 0.6 | wanda 0.7 |" in head
    assert "does not answer, 11 are demoted" not in head
    assert page.count("does not answer, 11 are demoted") == 4  # each in its own section
    assert "grows with sparsity, near options (wanda)" in head


def panels(text):
    return ET.fromstring(text).findall(f"{SVG}g")


def test_the_graded_curve_stands_where_its_numbers_say(probed):
    text = render_graded(probed.file.comparisons)
    drawn = panels(text)
    assert [panel.get("aria-label") for panel in drawn] == ["overall", "tydiqa en", "tydiqa sw"]
    found = {p.find(f"{SVG}title").text: p.get("transform") for p in drawn[0].findall(f"{SVG}path")}
    assert len(found) == 8
    x, y = map(
        float, re.match(r"translate\((\S+) (\S+)\)", found["wanda 0.5: same passage 0.60 [0.50, 0.70]"]).groups()
    )
    assert x == pytest.approx(LEFT + (WIDTH - LEFT - RIGHT) / 8 + 2.5, abs=0.05)  # first of four places, second of two
    assert y == pytest.approx(TOP + 0.4 * (HEIGHT - TOP - BOTTOM), abs=0.05)
    (chance,) = drawn[0].findall(f"{SVG}line[@class='chance']")
    assert float(chance.get("y1")) == pytest.approx(TOP + 0.5 * (HEIGHT - TOP - BOTTOM), abs=0.05)
    assert [t.get("class").split()[1] for t in drawn[0].findall(f"{SVG}polyline")] == ["ink", "c0"]
    assert "dense: same passage 0.80, same article 0.90" in ET.fromstring(text).find(f"{SVG}desc").text
    assert render_graded(probed.file.comparisons) == text


def test_a_distance_that_was_not_asked_is_left_out(tmp_path):
    few = probes(graded=[point for point in graded(0.6, 0.7, 0.8, 0.9) if point.distance != "article"])
    report = report_with(tmp_path, dense_probes=None, pruned_probes=few)
    panel = panels(render_graded(report.file.comparisons))[0]
    assert len(panel.findall(f"{SVG}path")) == 3
    assert len(panel.findall(f"{SVG}polyline")[1].get("points").split()) == 3


def test_the_picture_is_written_and_taken_away(probed, tmp_path):
    out = tmp_path / "out"
    write_report(probed, out)
    assert (out / "graded.svg").exists()
    assert "](graded.svg)" in (out / "report.md").read_text(encoding="utf-8")
    plain = build_report([write_run(tmp_path / "a", pattern("bbrn")), write_run(tmp_path / "b", pattern("brrn"))])
    assert not has_graded(plain.file.comparisons)
    write_report(plain, out)
    assert not (out / "graded.svg").exists()
    page = (out / "report.md").read_text(encoding="utf-8")
    for words in ("graded.svg", "<details>", "What the probes allow"):
        assert words not in page


def test_foreign_names_stay_text(tmp_path):
    hostile = '<script>alert(1)</script>|"&`x`](http://evil)\x1b[2J\u202e' + "x" * 200
    report = report_with(tmp_path, labels=(0.5, 0.6), method=hostile)
    page, text = render_markdown(report), render_graded(report.file.comparisons)
    for written in (page, text, terminal(report)):
        assert "\x1b" not in written
        assert "\u202e" not in written
    assert "<script" not in page
    assert "](http" not in page
    assert ET.fromstring(text).findall(f".//{SVG}script") == []
    blocks = [block for block in page.split("\n\n") if block.startswith("|")]
    assert all(len({line.count("|") for line in block.strip().split("\n")}) == 1 for block in blocks)


def test_probed_runs_end_with_their_own_limits(tmp_path):
    row = report_with(tmp_path, labels=(0.5,)).file.comparisons[0].rows[0]
    assert headline(row, "dense", "wanda 0.5", DEFAULTS)[-1] == PROBED_LIMITS
    for unprobed in (None, probes(recovery=[])):  # no probe that could bring anything back
        assert headline(row.model_copy(update={"pruned_probes": unprobed}), "dense", "p", DEFAULTS)[-1] == LIMITS
