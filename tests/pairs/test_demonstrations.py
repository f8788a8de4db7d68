"""Which questions demonstrate, and what they look like under each condition."""

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.demonstrations import (
    before,
    choose_shots,
    dressed,
    earlier_of,
    one_more,
    short_half,
)
from lm_eval_illusion.pairs.options import Options

ITEM = {
    "item_id": "d/en/i",
    "dataset": "d",
    "language": "en",
    "source_id": "i",
    "cluster": "own",
    "answers": ["Rome", "Roma"],
    "choices_near": ["Rome", "Oslo", "Bern", "Kiel"],
    "choices_far": ["Lima", "Rome", "Cuzco", "Quito"],
}
OPTIONS = Options(("Anna", "Omar", "Lena", "Juri"), 2, ("passage:name", "passage:name", "gold", "passage:name"))


def shot(name, length=10, cluster=None, gold="Lena"):
    return {
        "item_id": f"d/en/{name}",
        "dataset": "d",
        "language": "en",
        "source_id": name,
        "cluster": cluster or name,
        "passage": "P.",
        "question": "Q?",
        "prompt": "x" * length,
        "gold_text": gold,
    }


def wear(found):
    return found


def test_the_shorter_half_and_one_more_out_of_the_longer():
    pool = [shot(str(n), length=10 + n) for n in range(8)]
    assert [s["source_id"] for s in short_half(pool)] == ["0", "1", "2", "3"]
    for number in range(40):
        more = one_more({**ITEM, "source_id": str(number)}, pool, seed=0)
        assert more["source_id"] in {"4", "5"}  # the shorter part of the longer half
        shots = choose_shots({**ITEM, "source_id": str(number)}, short_half(pool), 4, 1234, wear)
        assert more not in shots
    assert {one_more({**ITEM, "source_id": str(n)}, pool, seed=0)["source_id"] for n in range(40)} == {"4", "5"}
    assert any(
        one_more({**ITEM, "source_id": str(n)}, pool, seed=0) != one_more({**ITEM, "source_id": str(n)}, pool, seed=1)
        for n in range(40)
    )


def test_one_more_is_never_of_the_passage_nor_an_option():
    pool = [
        shot("a", 1),
        shot("b", 1),
        shot("c", 1),
        shot("same", 20, cluster="own"),
        shot("option", 20, gold="oslo"),
        shot("far", 20, gold="LIMA"),
        shot("alias", 20, gold="Roma"),
        shot("good", 30),
    ]
    assert one_more(ITEM, pool, seed=0)["source_id"] == "good"
    assert one_more(ITEM, pool[::-1], seed=0)["source_id"] == "good"
    with pytest.raises(IllusionError, match=r"d/en/i: no question about another passage is left for one more"):
        one_more(ITEM, pool[:-1], seed=0)
    with pytest.raises(IllusionError, match="one more demonstration"):
        one_more(ITEM, [shot("a"), shot("b")], seed=0)  # all of one length: no longer half


def test_it_stands_in_front_as_the_harness_would_put_it():
    assert before({"prompt": "Q\nAnswer:", "gold_text": "Lena"}, "R\nAnswer:", "en") == "Q\nAnswer: Lena\n\nR\nAnswer:"
    assert before({"prompt": "答案：", "gold_text": "甲"}, "答案：", "zh") == "答案：甲\n\n答案："


def test_a_candidate_that_cannot_wear_the_form_is_passed_over():
    pool = [shot(name) for name in "abcdef"]
    plain = choose_shots(ITEM, pool, 6, 1, wear)
    first = plain[0]["source_id"]
    without = choose_shots(ITEM, pool, 5, 1, lambda s: None if s["source_id"] == first else s)
    assert without == plain[1:]
    assert choose_shots(ITEM, pool, 3, 1, lambda s: None) == []


def item(condition):
    return {**ITEM, "condition": condition}


def never(found):
    raise AssertionError("options were asked for")


@pytest.mark.parametrize("condition", ["beam4", "beam8", "sample", "rank", "rank_spans", "mc_graded", "oneshot"])
def test_what_reads_the_pair_s_prompt_gets_its_demonstrations(condition):
    one = shot("a")
    assert dressed(one, item(condition), never) is one
    assert dressed(one, ITEM, never) is one


@pytest.mark.parametrize(
    ("condition", "prompt", "answer"),
    [
        ("mc_letters", "Passage: P.\nQuestion: Q?\nOptions:\nA. Anna\nB. Omar\nC. Lena\nD. Juri\nAnswer:", "C"),
        ("shown", "Passage: P.\nQuestion: Q?\nOptions:\n- Anna\n- Omar\n- Lena\n- Juri\nAnswer:", "Lena"),
        ("shown_nogold", "Passage: P.\nQuestion: Q?\nOptions:\n- Anna\n- Omar\n- Lena\n- Juri\nAnswer:", "Lena"),
        ("closed_mc", "Question: Q?\nAnswer:", "Lena"),
        ("closed_gen", "Question: Q?\nAnswer:", "Lena"),
        ("question_only", "Question: Q?\nAnswer:", "Lena"),
        ("choices_only", "Answer:", "Lena"),
    ],
)
def test_forms(condition, prompt, answer):
    worn = dressed(shot("a"), item(condition), lambda s: OPTIONS)
    assert worn is not None
    assert (worn["prompt"], worn["gold_text"], worn["item_id"]) == (prompt, answer, "d/en/a")


@pytest.mark.parametrize("condition", ["revise1_mc", "revise1_gen", "revise2_mc", "revise2_gen"])
def test_earlier_answers_are_right_half_of_the_time(condition):
    told = []
    for number in range(300):
        worn = dressed(shot(str(number)), item(condition), lambda s: OPTIONS)
        assert worn is not None
        assert worn["gold_text"] == "Lena"
        told.append(
            worn["prompt"].removeprefix("Passage: P.\nQuestion: Q?\nEarlier answer: ").removesuffix("\nAnswer:")
        )
    assert 115 < told.count("Lena") < 185
    assert all(25 < told.count(wrong) < 80 for wrong in ("Anna", "Omar", "Juri"))
    assert earlier_of(OPTIONS, "d", "i", "0") == told[0]


@pytest.mark.parametrize("condition", ["mc_letters", "shown", "shown_nogold", "revise1_gen"])
def test_a_question_without_options_or_with_the_answer_among_them_does_not_demonstrate(condition):
    assert dressed(shot("a"), item(condition), lambda s: None) is None
    leaking = Options(("Anna", "ROMA", "Lena", "Juri"), 2, ("", "", "gold", ""))
    assert dressed(shot("a"), item(condition), lambda s: leaking) is None


@pytest.mark.parametrize("condition", ["closed_gen", "question_only", "choices_only"])
def test_no_options_are_looked_for_where_none_are_shown(condition):
    assert dressed(shot("a"), item(condition), never) is not None
