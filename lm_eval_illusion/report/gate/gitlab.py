"""GitLab: a code quality report, which merge requests show beside the change."""

from __future__ import annotations

import hashlib
import json

from lm_eval_illusion.report.gate.conduct import Judgement
from lm_eval_illusion.report.gate.text import figures, verdict_of
from lm_eval_illusion.report.render.safe import inert

__all__ = ["render_code_quality"]

_SEVERITY = {"fail": "critical", "undecided": "major"}


def render_code_quality(judgement: Judgement) -> str:
    """A JSON list of what did not pass; the place is the rules file, since no line of code is at fault."""
    path = inert(judgement.source or "gate.yaml", 400)
    found = [
        _issue(path, line.verdict, f"{line.pruned}: {line.rule} [{line.scope}]", f"{figures(line)}: {line.why}")
        for line in judgement.lines
        if line.verdict != "pass"
    ]
    if judgement.error is not None:
        found.append(_issue(path, "undecided", "the runs can be judged", verdict_of(judgement)))
    return json.dumps(found, indent=1, ensure_ascii=True) + "\n"


def _issue(path: str, verdict: str, what: str, why: str) -> dict[str, object]:
    return {
        "description": inert(f"{what}: {why}", 600),
        "check_name": f"lm-eval-illusion-gate-{verdict}",
        "fingerprint": hashlib.sha256(what.encode("utf-8", "backslashreplace")).hexdigest(),
        "severity": _SEVERITY[verdict],
        "location": {"path": path, "lines": {"begin": 1}},
    }
