"""A user's own questions: both formats, every bad row by its line, and a round through the folder's own files."""

import json

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.own import BadRowsError, read_own
from lm_eval_illusion.pairs.own_folder import squad_text
from lm_eval_illusion.pairs.questions import load_squad

PASSAGE = "Anna Berg wrote the letter in March 1912 beside the river Sael, and Omar Said carried it."
GOOD = {"id": "a", "question": "Who wrote the letter?", "passage": PASSAGE, "answers": ["Anna Berg"], "language": "en"}


def write(path, *rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def row(**changes):
    return {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}


def test_every_way_to_write_a_row(tmp_path):
    rows = [
        row(title="Letters", type="name", distractors=["Omar Said", "Ines Roca", "Emil Kahn"], note="passed over"),
        "",
        row(id=7, passage=..., context=f"\ufeff {PASSAGE}\n", answers=..., answer="March 1912", language=...),
        row(id="c", answers=[{"text": "Anna Berg"}, {"text": "Berg"}, {"text": "Berg "}], language="en-GB"),
        row(id="d", answers={"text": ["1912"], "answer_start": [3]}, question="When?\u2028In which year?"),
        row(id="a", language="sw"),
    ]
    found = read_own(write(tmp_path / "q.jsonl", *rows), "mine", "en")
    assert {code: [q.item_id for q in asked] for code, asked in found.items()} == {
        "en": ["mine/en/a", "mine/en/7", "mine/en/c", "mine/en/d"],
        "sw": ["mine/sw/a"],
    }
    first, second, third, fourth = found["en"]
    assert (first.title, first.kind, first.distractors) == ("Letters", "name", ("Omar Said", "Ines Roca", "Emil Kahn"))
    assert (second.passage, second.answers, second.title) == (PASSAGE, ("March 1912",), second.cluster)
    assert third.answers == ("Anna Berg", "Berg")
    assert (fourth.answers, fourth.question) == (("1912",), "When? In which year?")
    assert len({q.cluster for q in found["en"]}) == 1
    assert found["sw"][0].cluster != first.cluster


def test_what_is_written_reads_the_same(tmp_path):
    rows = [
        row(title="One"),
        row(id="b", passage="Paris lies in France.", answer="Paris", answers=...),
        row(id="c", title="One", distractors=["Omar Said", "Ines Roca", "Emil Kahn"], type="name"),
    ]
    found = read_own(write(tmp_path / "q.jsonl", *rows), "mine")["en"]
    (tmp_path / "questions.en.json").write_text(squad_text(found, "en"), encoding="utf-8")
    again = load_squad(tmp_path / "questions.en.json", dataset="mine", language="en")
    assert {q.source_id: q for q in again} == {q.source_id: q for q in found}
    assert {q.source_id: q for q in read_own(tmp_path / "questions.en.json", "mine", "en")["en"]} == {
        q.source_id: q for q in found
    }


BAD = {
    "not JSON": ("{'id': 1}", "not JSON"),
    "a list": ('["a"]', "a JSON list, not an object"),
    "id": (row(id=...), "no id"),
    "id of another kind": (row(id=True), "no id"),
    "passage": (row(passage=" "), "no passage"),
    "passage of another kind": (row(passage=["x"]), "passage is a JSON list, not a text"),
    "question": (row(question=...), "no question"),
    "answers": (row(answers=[]), "no answers"),
    "an empty answer": (row(answers=["Anna Berg", ""]), "no answers"),
    "an answer that is no text": (row(answers=[1912]), "no answers"),
    "an answer of marks": (row(answers=["--"]), "the answer '--' has no letter or digit"),
    "an answer from elsewhere": (row(answers=["Tara Moss"]), "'Tara Moss' does not occur in the passage"),
    "language": (row(language=...), "no language; .* --language xx"),
    "unknown language": (row(language="xx"), "'xx': no prompt labels for this language; known: ar, bn, de"),
    "two distractors": (row(distractors=["Omar Said", "Ines Roca"]), "three distractors expected, found 2"),
    "a right distractor": (row(distractors=["Anna Berg", "Ines Roca", "Emil Kahn"]), "'Anna Berg' breaks a rule"),
    "a number among names": (row(distractors=["1912", "Ines Roca", "Emil Kahn"]), "'1912' breaks a rule"),
    "distractors of another kind": (row(distractors="Omar Said"), "distractors is not a list of texts"),
    "twice": (row(), r"id 'a' occurs twice \(before: line 1\)"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_a_bad_row_is_named_by_its_line(case, tmp_path):
    bad, why = BAD[case]
    path = write(tmp_path / "q.jsonl", GOOD, "", bad)
    with pytest.raises(BadRowsError, match=rf"q\.jsonl: 1 of 2 rows cannot be used, the first: line 3: .*{why}"):
        read_own(path, "mine")


def test_all_bad_rows_are_told(tmp_path):
    rows = [row(id=str(n), question=... if n % 2 else "Who?") for n in range(60)]
    with pytest.raises(BadRowsError, match="30 of 60 rows") as raised:
        read_own(write(tmp_path / "q.jsonl", *rows), "mine")
    assert raised.value.rows == tuple(f"line {n}: no question" for n in range(2, 61, 2))


def test_rows_of_a_squad_file_are_named_by_their_place(tmp_path):
    asked = [{"id": "a", "question": "Who?", "answers": [{"text": "Anna Berg"}]}, {"id": "b", "answers": []}, 5]
    whole = {"data": [{"paragraphs": [{"context": PASSAGE, "qas": asked}, {"context": PASSAGE}]}, 3]}
    with pytest.raises(BadRowsError, match="4 of 5 rows") as raised:
        read_own(write(tmp_path / "q.json", whole), "mine", "en")
    places = ["data[0].paragraphs[0].qas[1]", "data[0].paragraphs[0].qas[2]", "data[0].paragraphs[1]", "data[1]"]
    assert [text.split(":")[0] for text in raised.value.rows] == places


def test_files_that_hold_no_rows(tmp_path):
    with pytest.raises(IllusionError, match=r"cannot read questions from .*none.jsonl: No such file"):
        read_own(tmp_path / "none.jsonl", "mine")
    with pytest.raises(IllusionError, match=r"holds no questions; expected"):
        read_own(write(tmp_path / "q.jsonl", ""), "mine")
    with pytest.raises(IllusionError, match=r"holds one JSON list; expected"):
        read_own(write(tmp_path / "q.jsonl", "[{}, {}]"), "mine")
    with pytest.raises(IllusionError, match=r"is not in SQuAD format"):
        read_own(write(tmp_path / "q.jsonl", '{"data": 3}'), "mine")
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    with pytest.raises(IllusionError, match=r"latin is not UTF-8"):
        read_own(tmp_path / "latin", "mine")
    with pytest.raises(IllusionError, match=r"--language 'tlh': no prompt labels for this language; known: ar, bn"):
        read_own(write(tmp_path / "q.jsonl", GOOD), "mine", "tlh")
