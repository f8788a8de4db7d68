"""Ranks of the gold's tokens, by hand: distributions, slides, where the model leaves the gold, spans."""

import pytest
from probe_records import ask, ranked, spans
from synthetic import pattern

from lm_eval_illusion.report.ranks import forced_figures, rank_figures, span_figures


def with_ranks(bits, *records):
    questions = pattern(bits)
    for question, record in zip(questions, records, strict=True):
        if record is not None:
            question.probes = {"rank": record}
    return ask(questions)


def test_where_the_model_leaves_the_gold():
    asked = with_ranks(
        "bbnnn",
        ranked(1, 1),
        ranked(1, 3, margin=-2.0),
        ranked(3, 1, margin=-1.0),
        ranked(5, 2, margin=-4.0),
        None,
    )
    found = forced_figures(asked)
    assert (found.items, found.never, found.at_first, found.later) == (4, 1, 2, 1)
    assert found.agreement.value == pytest.approx((1 + 0.5 + 0.5 + 0) / 4)
    assert found.margin_median == -2.0
    assert forced_figures(ask(pattern("b"))) is None


def test_distributions_of_both_models():
    dense = with_ranks("bbbn", ranked(1, 1), ranked(1, 2), ranked(2, 1), ranked(7, 1))
    pruned = with_ranks("brrn", ranked(1, 1), ranked(4, 2), ranked(3, 1), ranked(5, 1))
    table = {figures.group: figures for figures in rank_figures(dense, pruned)}
    assert list(table) == ["all", "turned_near", "turned_far", "failures"]
    everything = table["all"]
    assert (everything.items, everything.slid, everything.rose) == (4, 2, 1)
    assert everything.dense_first == pytest.approx([1, 1, 1.5, 3.25, 5.5])
    assert everything.pruned_first == pytest.approx([1.6, 2.5, 3.5, 4.25, 4.7])
    assert (everything.dense_parted, everything.pruned_parted) == (3, 3)
    assert everything.dense_parting[2] == 2.0  # 2 at the second token, 2 and 7 at the first
    assert everything.dense_within == {"1": 0.5, "4": 0.75, "10": 1.0, "100": 1.0}
    assert everything.pruned_within == {"1": 0.25, "4": 0.75, "10": 1.0, "100": 1.0}
    turned = table["turned_near"]
    assert (turned.items, turned.slid, turned.rose) == (2, 2, 0)
    assert (turned.dense_first[2], turned.pruned_first[2]) == (1.5, 3.5)
    assert table["failures"].items == 3


def test_gold_at_rank_three():
    (everything, *_) = rank_figures(with_ranks("b", ranked(1)), with_ranks("r", ranked(3)))
    assert (everything.pruned_first, everything.pruned_parting) == ([3.0] * 5, [3.0] * 5)
    assert (everything.dense_parted, everything.dense_parting) == (0, None)


def test_only_items_with_the_probe_in_both_runs_are_set_against_each_other():
    dense = with_ranks("bb", ranked(1), ranked(1))
    table = rank_figures(dense, with_ranks("rr", None, ranked(9)))
    assert [figures.items for figures in table] == [1, 1, 1, 1]
    assert table[0].pruned_first[2] == 9.0


def test_a_probe_of_one_run_alone():
    table = rank_figures(with_ranks("bb", None, None), with_ranks("rr", ranked(2), ranked(9)))
    assert (table[0].items, table[0].dense_first, table[0].pruned_first[2]) == (2, None, 5.5)
    assert (table[0].slid, table[0].dense_parted) == (None, None)
    assert rank_figures(ask(pattern("b")), ask(pattern("b"))) == []


def test_no_item_of_a_group():
    table = {figures.group: figures for figures in rank_figures(with_ranks("b", ranked(1)), with_ranks("b", ranked(1)))}
    assert (table["failures"].items, table["failures"].pruned_first, table["failures"].pruned_within) == (0, None, None)
    assert (table["failures"].slid, table["failures"].rose) == (0, 0)


def test_span_rank():
    questions = pattern("bbb")
    for question, record in zip(questions, [spans(1, 11), spans(3, 11), spans(6, 11)], strict=True):
        question.probes = {"rank_spans": record}
    found = span_figures(ask(questions))
    assert (found.items, found.median_rank, found.median_above) == (3, 3.0, 0.2)
    assert found.first.value == pytest.approx(1 / 3)
    assert span_figures(ask(pattern("b"))) is None
