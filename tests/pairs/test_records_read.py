"""Every condition has its `process_*`, and the report reads every record it writes, valid or not."""

import json
import math

import pytest

from lm_eval_illusion.pairs import results
from lm_eval_illusion.pairs.conditions import CONDITIONS, HALVES
from lm_eval_illusion.report.halves import parse_half

from .probed import PROCESS, row, said, scored, several

RANKS = {
    "ranks": [3, 1],
    "logprobs": [-2.5, -0.25],
    "leave": 0,
    "margin": -1.25,
    "agreement": 0.5,
    "gold_logprob": -2.75,
    "greedy_logprob": -1.5,
    "gold_tokens": 2,
    "greedy_tokens": 1,
}


def responses(condition, *, valid):
    lost = {} if valid else {"non_finite": True}
    kind = CONDITIONS[condition].kind
    if kind == "several":
        return [several("Oslo", "Paris", **lost), *([] if valid else [said("", fits=False), said("", **lost)])]
    if kind == "rank":
        none = dict.fromkeys(RANKS) | {"ranks": [None], "logprobs": [None]}
        return [said("Oslo", ranks=RANKS)] if valid else [said("Oslo", ranks=none, **lost), said("", fits=False)]
    if kind == "generation":
        return [said("Paris", **lost)]
    n = {"choices_only": 7, "question_only": 7, "rank_spans": 5}.get(condition, 4)
    return (
        [scored(*[-1.0 - i for i in range(n)])] if valid else [scored(*[math.nan] * n), scored(*[-1.0] * n, fits=False)]
    )


def test_every_condition_has_its_process():
    assert set(PROCESS) == set(CONDITIONS)
    assert {process.__name__ for process in PROCESS.values()} < set(results.__all__)


@pytest.mark.parametrize("condition", [name for name in CONDITIONS if name not in HALVES])
@pytest.mark.parametrize("valid", [True, False])
def test_the_report_reads_the_record(condition, valid):
    for told in responses(condition, valid=valid):
        out = PROCESS[condition](row(condition), told)
        record = json.loads(json.dumps(out["illusion"], allow_nan=False))
        assert record == out["illusion"]
        half = parse_half(record)
        assert (half.condition, half.valid, len(out) > 1) == (condition, valid, valid)
        names = set(type(half).model_fields) - {"schema_"}
        if CONDITIONS[condition].kind not in ("choice", "generation"):
            assert names - {"hits", "draws", "pass_at", "control_pass_at", "temperature", "top_p", "seed"} <= set(
                record
            )
