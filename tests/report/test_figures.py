"""Figures worked out by hand on eight items.

dense  b b b b r r g n -> R 6/8, G 5/8
pruned b r r n r n g n -> R 4/8, G 2/8
"""

import pytest
from synthetic import Question, pattern, receipt, write_run

from lm_eval_illusion.report import build_report
from lm_eval_illusion.report.build import DEFAULTS

RANKS = {1: (1, 3), 2: (2, 4), 4: (6, 9)}


def build(tmp_path, dense, pruned, **settings):
    one = write_run(tmp_path / "a", dense)
    two = write_run(tmp_path / "b", pruned, pruning=receipt())
    return build_report([one, two], settings=DEFAULTS.model_copy(update=settings))


@pytest.fixture
def eight(tmp_path):
    dense, pruned = pattern("bbbbrrgn"), pattern("brrnrngn")
    for number, (before, after) in RANKS.items():
        dense[number].rank, pruned[number].rank = before, after
    return build(tmp_path, dense, pruned).file.comparisons[0]


@pytest.fixture
def row(eight):
    assert [r.scope for r in eight.rows] == ["overall", "language"]
    return eight.rows[1]


def test_accuracies_and_gaps(row):
    assert (row.joined, row.excluded, row.unmatched, row.clusters) == (8, 0, 0, 8)
    assert row.dense.near.accuracy.value == 0.75
    assert row.dense.generation.value == 0.625
    assert row.dense.near.gap.value == pytest.approx(0.125)
    assert row.pruned.near.gap.value == pytest.approx(0.25)
    assert row.dense.near.corrected_gap.value == pytest.approx(2 / 3 - 0.625)
    assert row.pruned.near.corrected_gap.value == pytest.approx(1 / 3 - 0.25)
    assert row.dense.near.chance == 0.25


def test_gap_is_the_difference_of_quadrants(row):
    for model, counts in ((row.dense, (4, 2, 1, 1)), (row.pruned, (1, 3, 1, 3))):
        assert tuple(model.near.counts.values()) == counts
        shares = model.near.quadrants
        assert model.near.gap.value == pytest.approx(shares["recognition_only"].value - shares["generation_only"].value)


def test_recognition_among_failures(row):
    assert row.dense.near.recognised_failures.value == pytest.approx(2 / 3)
    assert row.dense.near.recognised_failures.items == 3
    assert row.dense.near.recognised_failures_corrected.value == pytest.approx((2 / 3 - 0.25) / 0.75)
    assert row.pruned.near.recognised_failures.value == pytest.approx(0.5)
    assert row.pruned.near.recognised_failures_corrected.value == pytest.approx(1 / 3)


def test_contrast(row):
    near = row.contrast.near
    assert near.excess_gap.value == pytest.approx(0.125)
    assert near.excess_p == 1.0  # changes +1, +1, -1
    assert near.induced.value == pytest.approx(2 / 4 - 0.25)
    assert (near.induced.items, near.induced_count) == (4, 2)
    assert near.transitions["both"] == {"both": 1, "recognition_only": 2, "generation_only": 0, "neither": 1}
    assert near.transitions["recognition_only"]["neither"] == 1
    assert (near.rank.items, near.rank.dense_median, near.rank.pruned_median) == (3, 2.0, 4.0)


def test_flips_and_holm(row):
    near, generation = row.contrast.near.accuracy, row.contrast.generation
    assert (near.lost, near.won, near.delta.value, near.flips, near.p) == (2, 0, -0.25, 0.25, 0.5)
    assert (generation.lost, generation.won, generation.p) == (3, 0, 0.25)
    assert near.p_cluster is None
    assert (near.p_holm, generation.p_holm) == (0.5, 0.5)  # .25 x 2, then .5 kept monotone
    assert row.contrast.far.accuracy.p_holm is None  # far is no member of the family


def test_clustered_p_enters_holm(tmp_path):
    dense = pattern("bbbbbbbb")
    pruned = pattern("nnnnnnbb")
    for number, question in enumerate([*dense, *pruned]):
        question.cluster = f"p{number % 8 // 2}"
    row = build(tmp_path, dense, pruned).file.comparisons[0].rows[1]
    flips = row.contrast.generation
    assert flips.p == pytest.approx(2 / 64)
    assert flips.p_cluster == pytest.approx(2 / 8)  # three passages lost two each
    assert flips.p_holm == pytest.approx(0.5)
    assert row.clusters == 4


def test_holm_counts_languages(tmp_path):
    dense = [q for language in ("en", "sw") for q in pattern("bbbbbb", language=language)]
    pruned = [*pattern("nnnnnn", language="en"), *pattern("bbbbbb", language="sw")]
    rows = build(tmp_path, dense, pruned).file.comparisons[0].rows
    english, swahili = rows[1:]
    assert english.contrast.generation.p == pytest.approx(2 / 64)
    assert english.contrast.generation.p_holm == pytest.approx(4 * 2 / 64)
    assert swahili.contrast.generation.p_holm == 1.0
    assert rows[0].contrast.generation.p_holm is None


def test_ties_are_not_right_and_are_counted(tmp_path):
    dense, pruned = pattern("bbbb"), pattern("bbbb")
    pruned[0].tie = True
    row = build(tmp_path, dense, pruned).file.comparisons[0].rows[0]
    assert (row.pruned.near.ties, row.pruned.near.accuracy.value) == (1, 0.75)


def test_zero_over_zero_is_undefined(tmp_path):
    row = build(tmp_path, pattern("nnnn"), pattern("nnnn")).file.comparisons[0].rows[0]
    assert row.contrast.near.induced is None  # dense has no "both"
    assert row.contrast.near.rank.dense_median is None
    row = build(tmp_path / "2", pattern("bbbb"), pattern("bbbb")).file.comparisons[0].rows[0]
    assert row.dense.near.recognised_failures.value is None  # no failure to recognise
    assert row.dense.near.recognised_failures.items == 0


def test_guessing_is_not_interpretable(tmp_path):
    row = build(tmp_path, pattern("b" * 40), pattern("r" * 10 + "n" * 30)).file.comparisons[0].rows[0]
    assert row.pruned.near.gap.value == 0.25
    assert row.pruned.near.corrected_gap.value == pytest.approx(0.0)
    assert not row.pruned.near.interpretable
    assert row.dense.near.interpretable


def test_sensitivity_and_unknown_pmi(tmp_path):
    dense, pruned = pattern("bbrr"), pattern("bbrr")
    for question in (*dense, *pruned):
        question.extra_right = {"sum": False, "pmi": None}
    table = build(tmp_path, dense, pruned).file.comparisons[0].rows[0].dense.near.sensitivity
    assert table["chars"] == {"standard": 0.5, "exact": 0.5, "f1": 0.5, "contained": 0.5, "anywhere": 0.5}
    assert table["sum"]["standard"] == -0.5
    assert table["pmi"]["standard"] is None


def test_near_and_far_differ(tmp_path):
    dense = [Question(n, near=n < 4, far=True, gen=n < 2) for n in range(8)]
    row = build(tmp_path, dense, dense).file.comparisons[0].rows[0]
    assert (row.dense.near.gap.value, row.dense.far.gap.value) == (0.25, 0.75)
    assert row.dense.far_less_near.value == 0.5


def test_form_of_answers(tmp_path):
    dense = pattern("bbbb")
    pruned = pattern("bbbb")
    pruned[0].flags = {"empty": True}
    pruned[1].flags = {"cut": None}
    row = build(tmp_path, dense, pruned).file.comparisons[0].rows[0]
    assert (row.pruned.failures.empty, row.pruned.failures.cut, row.dense.failures.cut) == (0.25, None, 0.0)


def test_unknown_ranks_are_left_out(tmp_path):
    dense, pruned = pattern("bb"), pattern("rr")
    dense[0].rank, dense[1].rank, pruned[1].rank = None, 1, 5
    rank = build(tmp_path, dense, pruned).file.comparisons[0].rows[0].contrast.near.rank
    assert (rank.items, rank.dense_median, rank.pruned_median) == (1, 1.0, 5.0)


def test_official_mean_leaves_english_out_and_weighs_languages_alike(tmp_path):
    runs = [*pattern("bbbb", language="en"), *pattern("bbbb", language="sw"), *pattern("nn", language="te")]
    comparison = build(tmp_path, runs, runs).file.comparisons[0]
    mean = comparison.official[0]
    assert mean.languages == ["sw", "te"]
    assert (mean.dense.near.value, mean.dense.generation.value) == (0.5, 0.5)
    assert (mean.dense.exact, mean.dense.f1) == (0.5, 0.5)
    assert comparison.rows[0].dense.near.accuracy.value == 0.8


def test_datasets_have_rows_of_their_own(tmp_path):
    runs = [
        *pattern("bb", dataset="tydiqa"),
        *pattern("nn", dataset="xquad"),
        *pattern("nn", dataset="xquad", language="de"),
    ]
    rows = build(tmp_path, runs, runs).file.comparisons[0].rows
    assert [(r.scope, r.dataset, r.language) for r in rows] == [
        ("overall", None, None),
        ("dataset", "tydiqa", None),
        ("dataset", "xquad", None),
        ("language", "tydiqa", "en"),
        ("language", "xquad", "de"),
        ("language", "xquad", "en"),
    ]


def test_a_language_wholly_excluded_keeps_its_row(tmp_path):
    gone = pattern("bb", language="sw", valid=False, invalid_reason="does_not_fit")
    dense = [*pattern("bb"), *gone]
    row = build(tmp_path, dense, dense).file.comparisons[0].rows[2]
    assert (row.language, row.joined, row.excluded, row.dense) == ("sw", 0, 2, None)
    assert row.excluded_reasons == {"does_not_fit": 2}


def test_the_same_run_twice_changes_nothing(tmp_path):
    dense = pattern("bbrrggnn" * 5)
    comparison = build(tmp_path, dense, dense).file.comparisons[0]
    row = comparison.rows[0]
    assert row.contrast.near.excess_gap.value == 0
    assert (row.contrast.near.accuracy.flips, row.contrast.generation.flips) == (0, 0)
    assert row.contrast.generation.p == 1.0
    assert row.contrast.near.excess_equivalence.verdict == "equivalent"
    assert any("exactly the scores and answers" in note.text for note in comparison.notes)


def test_small_samples_are_undecided(tmp_path):
    comparison = build(tmp_path, pattern("b" * 29), pattern("n" * 29)).file.comparisons[0]
    assert not comparison.rows[0].decided
    assert comparison.rows[0].contrast.generation.equivalence.verdict == "undecided"
    assert any(line.startswith("Undecided: 29 items") for line in comparison.headline)
    crowded = pattern("b" * 40)
    for question in crowded:
        question.cluster = f"p{question.number % 7}"
    assert not build(tmp_path / "2", crowded, crowded).file.comparisons[0].rows[0].decided
