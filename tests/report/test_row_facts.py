"""What rows add to the records of older runs, and whether options are the same."""

import pytest

from lm_eval_illusion.pairs.results import process_beam, process_sample, process_shown
from lm_eval_illusion.report.row_facts import completed, options_digest
from tests.pairs.probed import row, said, several

PROMPT = "Passage: Paris or Oslo.\nQuestion: Where?\nAnswer:"
MADE = {
    "shown": lambda doc: process_shown(doc, said("Oslo")),
    "beam4": lambda doc: process_beam(doc, several("Oslo", "Paris, not Rome")),
    "sample": lambda doc: process_sample(doc, several("Oslo", "Paris", "New York", "Rome")),
}
NEW = ("item_control", "temperature", "top_p", "seed")


@pytest.mark.parametrize("condition", MADE)
def test_an_older_record_is_read_as_a_new_one(condition):
    doc = row(condition, prompt=PROMPT)
    record = MADE[condition](doc)["illusion"]
    older = {name: value for name, value in record.items() if name not in NEW}
    assert older != record
    assert completed(older, doc) == record


def test_a_record_that_says_it_itself_is_left_alone():
    doc = row("sample", prompt=PROMPT)
    record = {**MADE["sample"](doc)["illusion"], "item_control": 0.125, "temperature": 2.0}
    assert completed(record, doc) is record


def test_without_a_row_nothing_is_added():
    record = {"condition": "shown", "valid": True, "answer": "Oslo"}
    assert completed(record, {}) is record
    invalid = {**record, "valid": False}
    assert completed(invalid, row("shown")) is invalid


def test_options_are_the_same_in_the_same_order():
    doc = row("shown")
    digest = options_digest(doc)
    assert digest == options_digest({**doc, "condition": "beam4", "prompt": "another"})
    assert digest != options_digest({**doc, "choices_near": doc["choices_near"][::-1]})
    assert digest != options_digest({**doc, "gold_near": 0 if doc["gold_near"] else 1})
    assert options_digest({"question": "Where?"}) is None
