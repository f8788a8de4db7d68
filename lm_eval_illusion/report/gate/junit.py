"""JUnit XML: a test case for each line. A strict reader accepts it, whatever a model wrote or a folder is called."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from itertools import groupby

from lm_eval_illusion.report.gate.conduct import Judgement
from lm_eval_illusion.report.gate.judge import Line
from lm_eval_illusion.report.gate.text import figures
from lm_eval_illusion.report.render.safe import inert

__all__ = ["render_junit"]

_LONGEST = 1000


def render_junit(judgement: Judgement) -> str:
    """The file: a suite for each run; a failed rule is a failure, what could not be judged an error."""
    root = ET.Element("testsuites", {"name": "lm-eval-illusion gate"})
    totals: list[tuple[int, int, int]] = []
    for name, lines in groupby(judgement.lines, key=lambda line: f"{line.pruned} against {line.dense}"):
        totals.append(_suite(root, name, list(lines)))
    if judgement.error is not None or not judgement.lines:
        suite = ET.SubElement(root, "testsuite", {"name": "gate", **_counts((1, 0, 1))})
        case = ET.SubElement(suite, "testcase", {"classname": "gate", "name": "the runs can be judged", "time": "0"})
        said = _text(judgement.error or "nothing was judged")
        ET.SubElement(case, "error", {"type": "undecided", "message": said}).text = said
        totals.append((1, 0, 1))
    whole = [sum(column) for column in zip(*totals, strict=True)]
    for key, value in _counts(whole).items():
        root.set(key, value)
    ET.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(root: ET.Element, name: str, lines: list[Line]) -> tuple[int, int, int]:
    verdicts = [line.verdict for line in lines]
    counts = (len(lines), verdicts.count("fail"), verdicts.count("undecided"))
    suite = ET.SubElement(root, "testsuite", {"name": _text(name), **_counts(counts)})
    for line in lines:
        case = ET.SubElement(
            suite,
            "testcase",
            {"classname": _text(line.pruned), "name": _text(f"{line.rule} [{line.scope}]"), "time": "0"},
        )
        said = _text(f"{figures(line)}: {line.why}")
        if line.verdict == "pass":
            ET.SubElement(case, "system-out").text = said
        else:
            kind = "failure" if line.verdict == "fail" else "error"
            ET.SubElement(case, kind, {"type": line.verdict, "message": said}).text = said
    return counts


def _counts(counts: Iterable[int]) -> dict[str, str]:
    tests, failures, errors = counts
    return {"tests": str(tests), "failures": str(failures), "errors": str(errors), "time": "0"}


def _text(text: str) -> str:
    """Without control, format, surrogate and unassigned characters, which XML 1.0 forbids or readers stumble over."""
    return inert(text, _LONGEST)
