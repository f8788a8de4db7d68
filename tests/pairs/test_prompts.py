"""Prompts in the language's own words, and the options of --metadata."""

import subprocess
import sys

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.prompts import LABELS, build_prompt, compose, delimiter_of
from lm_eval_illusion.pairs.task_options import TaskOptions, read_options


def test_a_prompt():
    assert build_prompt("\ufeffA b.\nC d. ", "Who?", "en") == "Passage: A b. C d.\nQuestion: Who?\nAnswer:"
    assert build_prompt("甲。", "谁？", "zh") == "文章：甲。\n问题：谁？\n答案："
    assert build_prompt("x", "y", "zh-Hant").endswith("答案：")


def test_parts_of_a_prompt():
    assert compose("en") == "Answer:"
    assert compose("en", question="Who?") == "Question: Who?\nAnswer:"
    listed = compose("en", passage="A.", question="Who?", options=["Rome", "New\nYork"])
    assert listed == "Passage: A.\nQuestion: Who?\nOptions:\n- Rome\n- New York\nAnswer:"
    lettered = compose("zh", question="谁？", options=["甲", "乙", "丙", "丁"], lettered=True)
    assert lettered == "问题：谁？\n选项：\nA. 甲\nB. 乙\nC. 丙\nD. 丁\n答案："
    assert compose("ru", question="Кто?", earlier=" Анна ") == "Вопрос: Кто?\nПредыдущий ответ: Анна\nОтвет:"
    assert compose("en", question="Who?", earlier="") == "Question: Who?\nEarlier answer:\nAnswer:"


def test_every_language_of_every_set_has_labels():
    assert {code for entry in DATASETS.values() for code in entry.languages} <= set(LABELS)
    for code, labels in LABELS.items():
        told = [labels.passage, labels.question, labels.answer, labels.options, labels.earlier]
        assert all(label[-1] == labels.answer[-1] and label[-1] in ":：" for label in told), code
        assert len(set(told)) == 5, code
        assert all(label == label.strip() for label in told), code


def test_delimiters_go_with_colons():
    for code, labels in LABELS.items():
        assert delimiter_of(code) == ("" if labels.answer.endswith("：") else " ")


def test_an_unknown_language_lists_the_known():
    with pytest.raises(IllusionError, match=r"no prompt labels for language 'xx'; known: ar, bn.*prompts\.py"):
        build_prompt("x", "y", "xx")


def test_options():
    told = {"illusion_data": "d", "illusion_items_per_language": 5, "illusion_seed": 2, "pretrained": "m", "version": 1}
    assert read_options(told) == TaskOptions("d", 5, 2)
    assert read_options({"revision": "main", "illusion_data": None}) == TaskOptions()
    probes = {
        "illusion_items": "a.json",
        "illusion_answers": "b.json",
        "illusion_samples": 4,
        "illusion_temperature": 1,
        "illusion_top_p": 1.0,
        "illusion_sample_seed": 7,
    }
    assert read_options(probes) == TaskOptions(None, None, 0, "a.json", "b.json", 4, 1.0, 1.0, 7)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            {"illusion_item": 5},
            r"unknown key 'illusion_item'.*known: illusion_answers, illusion_data, illusion_items, illusion_items_per",
        ),
        ({"illusion_items_per_language": 0}, "illusion_items_per_language is 0; a whole number of at least 1"),
        ({"illusion_items_per_language": "many"}, "illusion_items_per_language is 'many'"),
        ({"illusion_items_per_language": True}, "illusion_items_per_language is True"),
        ({"illusion_seed": -1}, "illusion_seed is -1; a whole number of at least 0"),
        ({"illusion_data": 3}, "illusion_data is 3; the path of a folder"),
        ({"illusion_items": 3}, "illusion_items is 3; the path of a file"),
        ({"illusion_answers": []}, r"illusion_answers is \[\]; the path of a file"),
        ({"illusion_samples": 0}, "illusion_samples is 0; a whole number of at least 1"),
        ({"illusion_samples": 2.5}, "illusion_samples is 2.5; a whole number of at least 1"),
        ({"illusion_temperature": 0}, "illusion_temperature is 0; a number above 0 was expected, as in"),
        ({"illusion_temperature": "hot"}, "illusion_temperature is 'hot'; a number above 0"),
        ({"illusion_temperature": float("inf")}, "illusion_temperature is inf; a number above 0"),
        ({"illusion_temperature": float("nan")}, "illusion_temperature is nan; a number above 0"),
        ({"illusion_top_p": 1.01}, "illusion_top_p is 1.01; a number above 0 and at most 1 was expected"),
        ({"illusion_top_p": True}, "illusion_top_p is True; a number above 0 and at most 1"),
        ({"illusion_sample_seed": -1}, "illusion_sample_seed is -1; a whole number of at least 0"),
    ],
)
def test_options_that_are_wrong(told, message):
    with pytest.raises(IllusionError, match=message):
        read_options(told)


def test_pairs_imports_neither_torch_nor_the_harness():
    code = (
        "import sys, lm_eval_illusion.pairs as p; [getattr(p, n) for n in p.__all__]; p.build('illusion_mini', 'en');"
        "print([m for m in ('torch', 'lm_eval', 'datasets', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_of_the_package():
    import lm_eval_illusion.pairs

    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'; it has: .*build"):
        lm_eval_illusion.pairs.nothing  # noqa: B018
