"""Prompts in the language's own words, and the options of --metadata."""

import subprocess
import sys

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.pairs.catalogue import DATASETS
from lm_eval_illusion.pairs.prompts import LABELS, build_prompt, delimiter_of
from lm_eval_illusion.pairs.task_options import TaskOptions, read_options


def test_a_prompt():
    assert build_prompt("\ufeffA b.\nC d. ", "Who?", "en") == "Passage: A b. C d.\nQuestion: Who?\nAnswer:"
    assert build_prompt("甲。", "谁？", "zh") == "文章：甲。\n问题：谁？\n答案："
    assert build_prompt("x", "y", "zh-Hant").endswith("答案：")


def test_every_language_of_every_set_has_labels():
    assert {code for entry in DATASETS.values() for code in entry.languages} <= set(LABELS)
    for labels in LABELS.values():
        assert all(label[-1] in ":：" for label in (labels.passage, labels.question, labels.answer))


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


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            {"illusion_item": 5},
            r"unknown key 'illusion_item'.*known: illusion_data, illusion_items_per_language",
        ),
        ({"illusion_items_per_language": 0}, "illusion_items_per_language is 0; a whole number of at least 1"),
        ({"illusion_items_per_language": "many"}, "illusion_items_per_language is 'many'"),
        ({"illusion_items_per_language": True}, "illusion_items_per_language is True"),
        ({"illusion_seed": -1}, "illusion_seed is -1; a whole number of at least 0"),
        ({"illusion_data": 3}, "illusion_data is 3; the path of a folder"),
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
