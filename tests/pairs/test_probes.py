"""Rows of every probe: what they add to the base row, and which rows are asked."""

import json

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.conditions import CONDITIONS, HALVES
from lm_eval_illusion.pairs.normalise import normalise
from lm_eval_illusion.pairs.probes import EXTRAS
from lm_eval_illusion.pairs.tables import SPLIT, keep_demonstrations, keep_sampled, load

from .made import write_folder

SET = {"pairs_dataset": "tydiqa", "pairs_language": "en", "illusion_items_per_language": 6}
PROBES = [name for name in CONDITIONS if name not in HALVES]
ADDED = {
    "mc_letters": {"letters", "gold_letter"},
    "mc_graded": {"choices_graded", "gold_graded", "sources_graded", "distances_graded"},
    "beam4": {"beams"},
    "beam8": {"beams"},
    "sample": {"samples", "temperature", "top_p", "sample_seed"},
    "oneshot": {"demonstration_item", "demonstration_answers"},
    "choices_only": {"choices_both", "gold_both", "sources_both"},
    "question_only": {"choices_both", "gold_both", "sources_both"},
    "rank_spans": {"choices_spans", "gold_spans"},
    **{name: {"earlier"} for name in ("revise1_mc", "revise1_gen", "revise2_mc", "revise2_gen")},
}


def feed(folder, ids=None, answers=None):
    path = folder / "fed.json"
    path.write_text(json.dumps({"schema": 1, "from": [], "items": ids, "answers": answers}), encoding="utf-8")
    return str(path)


@pytest.fixture
def ask(data_folder, tmp_path):
    """Return a function that gives the asked rows of a condition, earlier answers known for all of them."""
    base = keep_sampled(load(**SET, illusion_data=data_folder)[SPLIT]).to_list()
    answers = {row["item_id"]: {c: f"{c} said" for c in CONDITIONS} for row in base}
    fed = feed(tmp_path, answers=answers)

    def rows(condition=None, **told):
        named = {} if condition is None else {"pairs_condition": condition}
        table = load(**{**SET, "illusion_data": data_folder, "illusion_answers": fed, **named, **told})
        return keep_sampled(table[SPLIT]).to_list()

    return rows


def test_every_probe_adds_to_the_base_row(ask):
    base = ask()
    for condition in PROBES:
        for row, plain in zip(ask(condition), base, strict=True):
            assert row["condition"] == condition
            assert set(row) - set(plain) == {"condition"} | ADDED.get(condition, set())
            same = set(plain) - {"prompt"}
            assert {key: row[key] for key in same} == {key: plain[key] for key in same}
            assert (row["prompt"] == plain["prompt"]) == CONDITIONS[condition].same_prompt, condition


def test_letters(ask):
    for row in ask("mc_letters"):
        assert row["letters"] == ["A", "B", "C", "D"]
        assert row["gold_letter"] == row["gold_near"]
        letter = row["letters"][row["gold_letter"]]
        assert f"\n{letter}. {row['gold_text']}\n" in row["prompt"]
        listed = "".join(f"{a}. {b}\n" for a, b in zip("ABCD", row["choices_near"], strict=True))
        assert row["prompt"].endswith(f"Options:\n{listed}Answer:")


def test_shown_with_and_without_the_gold(ask):
    for shown, without in zip(ask("shown"), ask("shown_nogold"), strict=True):
        listed = [line[2:] for line in shown["prompt"].splitlines() if line.startswith("- ")]
        assert listed == shown["choices_near"]
        listed = [line[2:] for line in without["prompt"].splitlines() if line.startswith("- ")]
        assert listed == [c for i, c in enumerate(without["choices_near"]) if i != without["gold_near"]]


def test_closed_and_alone(ask):
    for condition in ("closed_mc", "closed_gen", "question_only"):
        assert all(row["prompt"] == f"Question: {row['question']}\nAnswer:" for row in ask(condition))
    for row in ask("choices_only"):
        assert row["prompt"] == "Answer:"
        assert row["choices_both"][:4] == row["choices_near"]
        assert row["choices_both"][4:] == [c for i, c in enumerate(row["choices_far"]) if i != row["gold_far"]]
        assert row["choices_both"][row["gold_both"]] == row["gold_text"]
        assert row["sources_both"].count("gold") == 1


def test_numbers_of_beams_and_samples(ask):
    assert {row["beams"] for row in ask("beam4")} == {4}
    assert {row["beams"] for row in ask("beam8")} == {8}
    told = {"illusion_samples": 3, "illusion_temperature": 0.5, "illusion_top_p": 0.9, "illusion_sample_seed": 2}
    for row in ask("sample", **told):
        assert (row["samples"], row["temperature"], row["top_p"], row["sample_seed"]) == (3, 0.5, 0.9, 2)


def test_one_more_demonstration_is_part_of_the_text(ask, data_folder):
    table = load(**SET, illusion_data=data_folder)[SPLIT]
    pool = {row["item_id"]: row for row in keep_demonstrations(table).to_list()}
    plain = {row["item_id"]: row["prompt"] for row in ask()}
    for row in ask("oneshot"):
        shot = pool[row["demonstration_item"]]
        assert row["demonstration_answers"] == [shot["gold_text"]]
        assert row["prompt"] == f"{shot['prompt']} {shot['gold_text']}\n\n{plain[row['item_id']]}"
        assert shot["cluster"] != row["cluster"]
        assert shot["gold_text"] not in {*row["choices_near"], *row["choices_far"], *row["answers"]}


def test_spans_begin_with_the_gold(ask):
    for row in ask("rank_spans"):
        assert row["choices_spans"][row["gold_spans"]] == row["gold_text"]
        spelled = [normalise(text, "en") for text in row["choices_spans"]]
        assert len(set(spelled)) == len(spelled) > 10


def test_earlier_answers_are_those_of_the_round_before(ask):
    for condition in ("revise1_mc", "revise1_gen", "revise2_mc", "revise2_gen"):
        for row in ask(condition):
            assert row["earlier"] == f"{CONDITIONS[condition].answers_from} said"
            assert row["prompt"].endswith(f"\nQuestion: {row['question']}\nEarlier answer: {row['earlier']}\nAnswer:")


def test_the_pool_and_the_asked_rows_hold_nothing_of_this_machine(ask, data_folder, tmp_path):
    elsewhere = str(write_folder(tmp_path / "elsewhere"))
    for condition in (None, *PROBES):
        here = ask(condition)
        assert here == ask(condition, illusion_data=elsewhere)
        assert str(tmp_path) not in json.dumps(here, ensure_ascii=False)


@pytest.mark.parametrize("condition", [*PROBES])
def test_demonstrations_are_drawn_from_what_the_pair_reads(data_folder, condition, tmp_path):
    base = load(**SET, illusion_data=data_folder)[SPLIT]
    first = keep_sampled(base)[0]["item_id"]
    fed = feed(tmp_path, answers={first: {c: "x" for c in CONDITIONS}})
    probe = load(**SET, illusion_data=data_folder, illusion_answers=fed, pairs_condition=condition)[SPLIT]
    plain = {row["item_id"]: row for row in keep_demonstrations(base).to_list()}
    for row in keep_demonstrations(probe).to_list():
        assert {key: row[key] for key in plain[row["item_id"]]} == plain.pop(row["item_id"])
    assert not plain


@pytest.mark.parametrize("condition", [None, "shown", "revise1_gen"])
def test_only_the_named_items_are_asked(ask, tmp_path, condition):
    whole = ask(condition)
    ids = [whole[4]["item_id"], whole[1]["item_id"]]
    answers = {ids[0]: {"gen": "gen said"}, ids[1]: {"gen": "gen said"}}
    path = feed(tmp_path, ids=[*ids, "tydiqa/ko/elsewhere"], answers=answers)
    assert ask(condition, illusion_items=path, illusion_answers=path) == [whole[1], whole[4]]


def test_a_file_that_names_no_items_asks_all(ask, tmp_path):
    assert ask(None, illusion_items=feed(tmp_path)) == ask()


def test_items_that_are_not_asked_here_are_an_error(ask, tmp_path):
    path = feed(tmp_path, ids=[ask()[0]["item_id"], "tydiqa/en/nowhere"])
    with pytest.raises(IllusionError, match=r"fed\.json names 1 items that are not asked here, such as tydiqa/en/now"):
        ask("shown", illusion_items=path)


def test_no_item_of_the_language_is_an_error(ask, tmp_path):
    path = feed(tmp_path, ids=["tydiqa/ko/1"])
    with pytest.raises(IllusionError, match=r"names no item of tydiqa/en, so nothing would be asked; leave its tasks"):
        ask("shown", illusion_items=path)


def test_an_item_without_an_earlier_answer_is_not_asked(ask, tmp_path):
    whole = ask("revise1_gen")
    answers = {whole[2]["item_id"]: {"gen": "gen said"}, whole[3]["item_id"]: {"mc": "mc said"}}
    assert ask("revise1_gen", illusion_answers=feed(tmp_path, answers=answers)) == [whole[2]]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            {"illusion_answers": None},
            "revise2_gen shows .* answers under revise1_gen, but none were given; run revise1",
        ),
        ({}, r"earlier answers under revise1_gen, but .*fed\.json holds none to these questions; .*--answers RUN"),
    ],
)
def test_no_earlier_answer_at_all_is_an_error(ask, tmp_path, told, message):
    path = feed(tmp_path, answers={"tydiqa/en/other": {"gen": "x"}})
    with pytest.raises(IllusionError, match=message):
        ask("revise2_gen", **{"illusion_answers": path, **told})


def test_an_unknown_probe_lists_the_known(data_folder):
    for name in ("beam16", "mc"):
        with pytest.raises(IllusionError, match=rf"unknown pairs_condition '{name}'.*known: mc_letters, mc_graded"):
            load(**SET, illusion_data=data_folder, pairs_condition=name)


def test_the_table_of_extras_is_the_table_of_probes():
    assert list(EXTRAS) == PROBES
