"""What people and CI are shown: lines, JUnit XML, GitHub's summary and annotations, GitLab's report: all inert."""

import json
import re
import unicodedata
import xml.etree.ElementTree as ET

import pytest

from lm_eval_illusion.report.gate.conduct import Judgement
from lm_eval_illusion.report.gate.github import MOST_ANNOTATIONS, MOST_ROWS, render_annotations, render_summary
from lm_eval_illusion.report.gate.gitlab import render_code_quality
from lm_eval_illusion.report.gate.judge import Line
from lm_eval_illusion.report.gate.junit import render_junit
from lm_eval_illusion.report.gate.text import render_lines, verdict_of

PASS = Line("wanda 0.5", "dense", "gap near <= 0.1, certain", "overall", "pass", "kept", 0.05, 0.01, 0.09, 0.1, 200)
FAIL = Line(
    "wanda 0.5", "dense", "generation drop <= 0.1, certain", "tydiqa/ar", "fail", "beyond", 0.3, 0.2, 0.4, 0.1, 90
)
OPEN = Line("wanda 0.6", "dense", "languages", "th", "undecided", "no items in th", None, None, None, None, 0)
THREE = Judgement((PASS, FAIL, OPEN), "ci/gate.yaml")

HOSTILE = [
    "]]></testcase><script>alert(1)</script>",
    "\x00\x01\x0b\x1f\x7f\x85",
    "\ud800\udfff lone",
    "\ufffe\uffff\U0001ffff",
    "\u202egnissim\u202c \u2066x\u2069",
    "a | b \\| `c` [x](javascript:alert(1)) ![y](http://e.example/i.png)",
    "x\n::error::owned\r\n::add-mask::y\u2028::stop-commands::z",
    "%0A::error::owned",
    "&amp;&#0;&#x1F; \" ' < >",
    "long " * 30_000,
    "",
]


def hostile(text):
    one = Line(text, text, text, text, "fail", text, 0.3, 0.2, 0.4, 0.1, 90)
    return Judgement((one, Line(text, "dense", text, text, "undecided", text, None, None, None, None, 0)), text or None)


def test_lines():
    assert render_lines(THREE).split("\n") == [
        "PASS      wanda 0.5: gap near <= 0.1, certain [overall]: observed 0.050 [0.010, 0.090], limit 0.1, n 200: "
        "kept",
        "FAIL      wanda 0.5: generation drop <= 0.1, certain [tydiqa/ar]: observed 0.300 [0.200, 0.400], limit 0.1, "
        "n 90: beyond",
        "UNDECIDED wanda 0.6: languages [th]: observed – [–, –], limit –, n 0: no items in th",
        "gate: fail: 1 passed, 1 failed, 1 undecided",
    ]


def test_the_whole_in_a_sentence():
    assert verdict_of(Judgement((PASS,))) == "pass: 1 passed, 0 failed, 0 undecided"
    assert verdict_of(Judgement((PASS, OPEN))) == "undecided: 1 passed, 0 failed, 1 undecided"
    assert verdict_of(Judgement(())) == "undecided: 0 passed, 0 failed, 0 undecided"
    assert verdict_of(Judgement((), None, "no run folder")) == "could not judge: no run folder"
    assert (Judgement((PASS,)).code, Judgement((PASS,), None, "x").code, Judgement(()).code) == (0, 2, 2)


def test_junit():
    root = ET.fromstring(render_junit(THREE))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    suites = [(suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("errors")) for suite in root]
    assert suites == [("wanda 0.5 against dense", "2", "1", "0"), ("wanda 0.6 against dense", "1", "0", "1")]
    cases = [(case.get("classname"), case.get("name"), [child.tag for child in case]) for case in root.iter("testcase")]
    assert cases == [
        ("wanda 0.5", "gap near <= 0.1, certain [overall]", ["system-out"]),
        ("wanda 0.5", "generation drop <= 0.1, certain [tydiqa/ar]", ["failure"]),
        ("wanda 0.6", "languages [th]", ["error"]),
    ]
    assert next(root.iter("failure")).get("message") == "observed 0.300 [0.200, 0.400], limit 0.1, n 90: beyond"


@pytest.mark.parametrize("judgement", [Judgement(()), Judgement((), None, "no run folder at runs/x")])
def test_junit_of_nothing_is_an_error(judgement):
    root = ET.fromstring(render_junit(judgement))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "1")
    assert next(root.iter("error")).get("message") in ("nothing was judged", "no run folder at runs/x")


def test_summary():
    assert render_summary(Judgement((OPEN, FAIL))).split("\n") == [
        "### lm-eval-illusion gate",
        "",
        "fail&#58; 0 passed, 1 failed, 1 undecided",
        "",
        "| verdict | run | rule | scope | observed | 95 % interval | limit | n | why |",
        "|---|---|---|---|---|---|---|---|---|",
        "| ❌ fail | wanda 0.5 | generation drop &#60;= 0.1, certain | tydiqa/ar | 0.300 | 0.200 to 0.400 | 0.1 | 90 | "
        "beyond |",
        "| ❔ undecided | wanda 0.6 | languages | th | – | – | – | 0 | no items in th |",
        "",
    ]
    assert "could not judge&#58; gone" in render_summary(Judgement((), None, "gone"))


def test_a_summary_has_an_end():
    many = Judgement((*(PASS,) * (MOST_ROWS + 5), FAIL))
    shown = render_summary(many)
    assert shown.count("✅") == MOST_ROWS - 1
    assert "❌" in shown
    assert "6 more lines are in the log and the JUnit file." in shown
    assert len(render_annotations(Judgement((FAIL,) * 50 + (OPEN,) * 50))) == 2 * MOST_ANNOTATIONS


def test_annotations():
    assert render_annotations(THREE) == [
        "::error title=FAIL wanda 0.5%3A generation drop <= 0.1%2C certain::[tydiqa/ar] observed 0.300 [0.200, 0.400], "
        "limit 0.1, n 90: beyond",
        "::warning title=UNDECIDED wanda 0.6%3A languages::[th] observed – [–, –], limit –, n 0: no items in th",
    ]
    assert render_annotations(Judgement((), None, "100 % gone")) == [
        "::error title=lm-eval-illusion gate::could not judge: 100 %25 gone"
    ]


def test_code_quality():
    held = json.loads(render_code_quality(THREE))
    assert [(issue["severity"], issue["check_name"], issue["location"]) for issue in held] == [
        ("critical", "lm-eval-illusion-gate-fail", {"path": "ci/gate.yaml", "lines": {"begin": 1}}),
        ("major", "lm-eval-illusion-gate-undecided", {"path": "ci/gate.yaml", "lines": {"begin": 1}}),
    ]
    assert len({issue["fingerprint"] for issue in held}) == 2
    assert held == json.loads(render_code_quality(THREE))
    assert json.loads(render_code_quality(Judgement((PASS,)))) == []
    (issue,) = json.loads(render_code_quality(Judgement((), None, "gone")))
    assert issue["description"].endswith("could not judge: gone")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_inert(text):
    judgement = hostile(text)
    wrong = Judgement((), text or None, text)
    for shown in (judgement, wrong):
        pages = [render_lines(shown), render_summary(shown), "\n".join(render_annotations(shown)), render_junit(shown)]
        for page in pages:
            page.encode("utf-8")
            bad = {char for char in page if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")}
            assert bad <= {"\n"}
            assert len(page) < 50_000
        root = ET.fromstring(pages[3].encode("utf-8"))
        assert {element.tag for element in root.iter()} <= {"testsuites", "testsuite", "testcase", "failure", "error"}
        assert all(re.match(r"(PASS|FAIL|UNDECIDED|gate:)", line) for line in pages[0].split("\n"))
        commands = pages[2].split("\n")
        assert len(commands) == len(render_annotations(shown))
        assert all(re.fullmatch(r"::(error|warning) title=[^:,\n]*::.*", line) for line in commands)
        rows = [line for line in pages[1].split("\n") if line.startswith("|")]
        assert all(line.count("|") == 10 for line in rows)
        assert not re.search(r"<script|\]\(|!\[|javascript:", pages[1])
        assert isinstance(json.loads(render_code_quality(shown)), list)
