"""Hostile text and damaged folders through report, pages and gate: never a traceback, never a silent pass."""

import copy
import json
import tempfile
import unicodedata
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from synthetic import pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError, one_line
from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.gate.conduct import Judgement, run_gate
from lm_eval_illusion.report.gate.github import render_annotations, render_summary
from lm_eval_illusion.report.gate.gitlab import render_code_quality
from lm_eval_illusion.report.gate.judge import judge
from lm_eval_illusion.report.gate.junit import render_junit
from lm_eval_illusion.report.gate.rule_file import Rules
from lm_eval_illusion.report.gate.rules import parse_rule
from lm_eval_illusion.report.gate.text import render_lines

UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
TEXTS = (
    "generation drop <= 0.6",
    "flips <= 0.9",
    "MC drop <= 0.9, possible",
    "gap <= 0.9, each language",
    "coverage >= 0.5",
)
GIVEN = Rules(tuple(rule for text in TEXTS for rule in parse_rule(text, "here")), max_left_out=0.0)

quick = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def judged(root, *paths):
    """Gate, report and all pages; an error that a person can mend is a judgement too, anything else fails the test."""
    try:
        if len(paths) == 2 and paths[0] == "dense":
            report = build_report([root / path for path in paths])
            judgement = Judgement(tuple(judge(report.file, GIVEN)))
            _read_again(report, root)
        else:
            judgement = run_gate([root / path for path in paths], GIVEN)
    except IllusionError as error:
        judgement = Judgement((), "gate.yaml", one_line(error))
    pages = [render_lines(judgement), render_summary(judgement), "\n".join(render_annotations(judgement))]
    for page in [*pages, render_junit(judgement)]:
        page.encode("utf-8")
        assert {c for c in page if unicodedata.category(c) in UNSEEN} <= {"\n", "\u200c", "\u200d"}  # joiners stay
    ET.fromstring(render_junit(judgement).encode("utf-8"))
    assert isinstance(json.loads(render_code_quality(judgement)), list)
    return judgement


def _read_again(report, root):
    """Every file of the report can be read."""
    write_report(report, root / "out")
    json.loads((root / "out" / "report.json").read_text(encoding="utf-8"))
    lines = (root / "out" / "items.jsonl").read_text(encoding="utf-8").split("\n")
    assert len([json.loads(line) for line in lines if line]) == len(report.items)
    page = (root / "out" / "report.md").read_text(encoding="utf-8")
    assert not {c for c in page if unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")} - {"\n"}
    assert "<script" not in page.casefold()


def places(letters):
    """Items with no accuracy of 0 or 1, and none that two conditions or runs share."""
    questions = pattern(letters)
    for question in questions[:3]:
        question.far = not question.far
    return questions


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Path -> bytes of two runs that pass."""
    root = tmp_path_factory.mktemp("good")
    write_run(root / "dense", places("b" * 26 + "rrrr" + "nngg"))
    write_run(root / "pruned", places("b" * 22 + "rrrrrrr" + "nnnnn"), pruning=receipt())
    files = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    judgement = judged(root, "dense", "pruned")
    assert judgement.code == 0, render_lines(judgement)
    return Files(files)


class Files(dict):
    """Path -> bytes; without a repr, which hypothesis would take long over."""

    def __repr__(self):
        return f"{len(self)} files"


def names(good, part, run=""):
    return sorted(name for name in good if part in name and name.startswith(run))


def laid(files, root):
    for name, held in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(held)
    return root


def observed(judgement):
    return [(line.pruned, line.rule, line.scope, line.observed, line.items) for line in judgement.lines]


def never_passes(files):
    with tempfile.TemporaryDirectory() as folder:
        judgement = judged(laid(files, Path(folder)), "dense", "pruned")
        assert judgement.code != 0, render_lines(judgement)
        return judgement


@quick
@given(st.data())
def test_a_truncated_file_never_passes(good, data):
    name = data.draw(st.sampled_from(sorted(good)))
    length = data.draw(st.integers(0, len(good[name].rstrip()) - 1))
    never_passes({**good, name: good[name][:length]})


@quick
@given(st.data())
def test_lines_twice_or_missing_never_pass(good, data):
    name = data.draw(st.sampled_from(names(good, "samples_")))
    lines = good[name].splitlines(keepends=True)
    index = data.draw(st.integers(0, len(lines) - 1))
    changed = [*lines, lines[index]] if data.draw(st.booleans()) else lines[:index] + lines[index + 1 :]
    never_passes({**good, name: b"".join(changed)})


@quick
@given(st.data())
def test_a_line_in_place_of_another_never_passes(good, data):
    name, other = (data.draw(st.sampled_from(names(good, "samples_"))) for _ in range(2))
    lines, theirs = good[name].splitlines(keepends=True), good[other].splitlines(keepends=True)
    index, taken = data.draw(st.integers(0, len(lines) - 1)), data.draw(st.integers(0, len(theirs) - 1))
    if lines[index] == theirs[taken]:
        return
    changed = {**good, name: b"".join([*lines[:index], theirs[taken], *lines[index + 1 :]])}
    before, after = (json.loads(line)["illusion"] for line in (lines[index], theirs[taken]))
    if {**before, "right": 0} == {**after, "right": 0}:
        return
    with tempfile.TemporaryDirectory() as folder:
        judgement = judged(laid(changed, Path(folder)), "dense", "pruned")
    assert judgement.code != 0 or observed(judgement) == PASSED[0]


@quick
@given(st.data())
def test_swapped_samples_never_pass(good, data):
    one, two = data.draw(st.lists(st.sampled_from(names(good, "samples_")), min_size=2, max_size=2, unique=True))
    never_passes({**good, one: good[two], two: good[one]})


def test_a_missing_file_never_passes(good):
    for name in good:
        never_passes({key: held for key, held in good.items() if key != name})


def test_two_results_files_never_pass(good):
    (name,) = names(good, "results_", "dense")
    never_passes({**good, name.replace("results_", "results_2"): good[name]})


def paths_of(value, before=()):
    yield before
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from paths_of(child, (*before, key))


def put(value, path, new):
    if not path:
        return new
    whole = copy.deepcopy(value)
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return whole


WRONG = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        -1,
        7,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\x00",
        "\ud800",
        "1",
        [],
        [[]],
        {},
        {"a": 1},
        10**400,
    ]
)
PASSED: list = []


@pytest.fixture(scope="module", autouse=True)
def passed(good):
    with tempfile.TemporaryDirectory() as folder:
        PASSED.append(observed(judged(laid(good, Path(folder)), "dense", "pruned")))


def damaged(good, name, index, path, new):
    lines = good[name].splitlines(keepends=True) if name.endswith("jsonl") else [good[name]]
    held = put(json.loads(lines[index]), path, new)
    lines[index] = json.dumps(held).encode() + b"\n"
    return {**good, name: b"".join(lines)}


@settings(quick, max_examples=100)
@given(st.data())
def test_a_wrong_type_in_a_record_changes_no_figure_that_passes(good, data):
    name = data.draw(st.sampled_from(names(good, "samples_")))
    lines = good[name].splitlines()
    index = data.draw(st.integers(0, len(lines) - 1))
    record = json.loads(lines[index])
    inner = data.draw(st.booleans())
    path = data.draw(st.sampled_from([p for p in paths_of(record) if not inner or p[:1] == ("illusion",)]))
    with tempfile.TemporaryDirectory() as folder:
        root = laid(damaged(good, name, index, path, data.draw(WRONG)), Path(folder))
        judgement = judged(root, "dense", "pruned")
    assert judgement.code != 0 or observed(judgement) == PASSED[0]


@settings(quick, max_examples=100)
@given(st.data())
def test_a_wrong_type_in_a_results_file_changes_no_figure_that_passes(good, data):
    name = data.draw(st.sampled_from(names(good, "results_")))
    path = data.draw(st.sampled_from(list(paths_of(json.loads(good[name])))))
    with tempfile.TemporaryDirectory() as folder:
        root = laid(damaged(good, name, 0, path, data.draw(WRONG)), Path(folder))
        judgement = judged(root, "dense", "pruned")
    kept = [row for row in observed(judgement) if "coverage" not in row[1]]
    assert judgement.code != 0 or [row[1:] for row in kept] == [r[1:] for r in PASSED[0] if "coverage" not in r[1]]


@quick
@given(st.data())
def test_a_changed_byte_leaves_no_traceback(good, data):
    name = data.draw(st.sampled_from(sorted(good)))
    at = data.draw(st.integers(0, len(good[name]) - 1))
    byte = data.draw(st.binary(min_size=1, max_size=3))
    with tempfile.TemporaryDirectory() as folder:
        root = laid({**good, name: good[name][:at] + byte + good[name][at + 1 :]}, Path(folder))
        judged(root, "dense", "pruned")


@pytest.fixture(scope="module")
def stored(good, tmp_path_factory):
    root = laid(good, tmp_path_factory.mktemp("stored"))
    write_report(build_report([root / "dense", root / "pruned"]), root / "report")
    return root


@quick
@given(st.data())
def test_a_damaged_report_leaves_no_traceback(good, stored, data):
    held = json.loads((stored / "report" / "report.json").read_text(encoding="utf-8"))
    place = data.draw(st.sampled_from([("comparisons",), ("runs",), ("settings",), ("notes",), ("items_sha256",), ()]))
    inner = held
    for key in place:
        inner = inner[key]
    path = place + data.draw(st.sampled_from([p for p in paths_of(inner) if len(p) < 7]))
    text = json.dumps(put(held, path, data.draw(WRONG)))
    if data.draw(st.integers(0, 5)) == 0:
        text = text[: data.draw(st.integers(0, len(text)))]
    with tempfile.TemporaryDirectory() as folder:
        root = laid(good, Path(folder))
        (root / "report").mkdir()
        (root / "report" / "report.json").write_text(text, encoding="utf-8")
        (root / "report" / "items.jsonl").write_bytes((stored / "report" / "items.jsonl").read_bytes())
        judged(root, "report")
        judged(root, "report", "pruned")


HOSTILE = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=st.characters(codec="utf-8", categories=["Cc", "Cf", "Co", "Cn", "Zl", "Zp"]), max_size=12),
    st.sampled_from(
        ["]]>", "<script>alert(1)</script>", "\u202ex\u2066", "|\n|", "::error::x", "`", "\x00", "\ud800", "$\\frac$"]
    ),
)


@settings(quick, max_examples=30)
@given(st.lists(HOSTILE, min_size=6, max_size=6), st.text("<>&\"'|:%\u202e\n[]", max_size=12))
@example(["\ud800"] * 6, "::error::x")
@example(["x" * 100_000] * 6, "]]>")
def test_hostile_text_everywhere(texts, folder_name):
    language, dataset, answer, question, passage, template = texts
    name = "".join(c for c in folder_name if c not in "\n/\x00.") or "pruned"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        method = receipt(method=dataset) if len(template) % 2 else None
        for run, letters, pruning in (("dense", "b" * 32 + "r" * 8, None), (name, "b" * 28 + "r" * 12, method)):
            write_run(root / run, pattern(letters))
            for path in (root / run).rglob("samples_*"):
                lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
                for line in lines[:20]:
                    line["doc"].update(question=question, passage=passage)
                    line["illusion"].update(answer=answer, gold_text=answer)
                for line in lines[:3]:
                    line["illusion"].update(language=language, dataset=dataset, cluster=passage)
                path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            (results,) = (root / run).rglob("results_*")
            held = json.loads(results.read_text(encoding="utf-8"))
            held |= {"chat_template": template, "chat_template_sha": template, "system_instruction": question}
            held["config"]["illusion"]["receipt"] = pruning
            held["config"]["illusion"]["model"] = {"pretrained": answer, "dtype": language}
            results.write_text(json.dumps(held), encoding="utf-8")
        judged(root, "dense", name)
