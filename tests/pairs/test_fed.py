"""The file that an earlier run hands on is read strictly."""

import json
import re

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.fed import read_fed

GOOD = {
    "schema": 1,
    "from": [{"results": "results_1.json", "sha256": "ab"}],
    "items": ["d/en/1", "d/en/2"],
    "answers": {"d/en/1": {"gen": "Rome", "mc": ""}},
}


def written(tmp_path, content):
    path = tmp_path / "fed.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def test_a_fed_file(tmp_path):
    fed = read_fed(written(tmp_path, GOOD))
    assert fed.items == {"d/en/1", "d/en/2"}
    assert fed.answer("d/en/1", "gen") == "Rome"
    assert fed.answer("d/en/1", "mc") == ""
    assert fed.answer("d/en/1", "revise1_gen") is None
    assert fed.answer("d/en/2", "gen") is None


def test_a_changed_file_is_read_again(tmp_path):
    read_fed(written(tmp_path, GOOD))
    fed = read_fed(written(tmp_path, {**GOOD, "items": None, "answers": None}))
    assert fed.items is None
    assert fed.answer("d/en/1", "gen") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "fed.json is not JSON"),
        ([], "it holds a list; an object was expected"),
        ({**GOOD, "more": 1}, "its keys are answers, from, items, more, schema; schema, from, items, answers were"),
        ({k: v for k, v in GOOD.items() if k != "items"}, "its keys are answers, from, schema; "),
        ({**GOOD, "schema": 2}, "its schema is 2; 1 was expected"),
        ({**GOOD, "schema": True}, "its schema is True; 1 was expected"),
        ({**GOOD, "from": [{"results": "r"}]}, '"from" is not a list of {"results": file name, "sha256": hex}'),
        ({**GOOD, "from": {}}, '"from" is not a list'),
        ({**GOOD, "items": [1]}, '"items" is neither null nor a list of item ids'),
        ({**GOOD, "items": "d/en/1"}, '"items" is neither null nor a list'),
        ({**GOOD, "answers": {"d/en/1": {"gen": None}}}, '"answers" is neither null nor {item id: {condition: text}}'),
        ({**GOOD, "answers": {"d/en/1": "Rome"}}, '"answers" is neither null nor'),
    ],
)
def test_what_is_not_understood_is_an_error(tmp_path, content, message):
    pattern = rf"fed\.json.*{re.escape(message.removeprefix('fed.json'))}.*lm-eval-illusion run --answers"
    with pytest.raises(IllusionError, match=pattern):
        read_fed(written(tmp_path, content))


def test_a_missing_file(tmp_path):
    with pytest.raises(IllusionError, match=r"cannot read .*nothing\.json: No such file.*run --answers RUN"):
        read_fed(str(tmp_path / "nothing.json"))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IllusionError, match=r"cannot read .*: Is a directory; write it anew with"):
        read_fed(str(tmp_path))
