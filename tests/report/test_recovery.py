"""Recovery beside its control, by hand; a guesser and a copier recover nothing; the interval covers what it should."""

import numpy as np
import pytest
from probe_records import ask, beams, samples, writes
from synthetic import Question, pattern

from lm_eval_illusion.report.asked import Asked
from lm_eval_illusion.report.recovery import corrected_recovery, linearised, recovery_figures
from lm_eval_illusion.report.stats import Clusters


def failures(probes, name="shown", bits=None):
    questions = pattern(bits or "n" * len(probes))
    for question, probe in zip(questions, probes, strict=True):
        question.probes = {name: probe}
    return questions


def test_by_hand():
    """Hits 1 0 1 0, controls 0 1/2 0 0: (1/2 - 1/8)/(7/8) = 3/7."""
    probes = [writes(True), writes(False, True, False), writes(True), writes(False)]
    (found,) = recovery_figures(ask(failures(probes)))
    assert (found.probe, found.items, found.hits, found.gained, found.lost, found.p) == ("shown", 4, 2.0, 2, 0, 0.5)
    assert (found.control, found.recovered.value, found.first) == (0.125, 0.5, None)
    assert found.corrected.value == pytest.approx(3 / 7)
    assert found.corrected.low < 3 / 7 < found.corrected.high <= 1
    assert (found.corrected.items, found.corrected.clusters) == (4, 4)


def test_linearised_values_by_hand():
    """theta = (2/3 - 1/6)/(5/6) = 3/5; z = theta + [(h - c) - theta (1 - c)]/(5/6)."""
    z = linearised({4: 1.0, 7: 1.0, 9: 0.0}, {4: 0.0, 7: 0.5, 9: 0.0})
    assert z == pytest.approx({4: 0.6 + 0.4 / (5 / 6), 7: 0.6 + 0.2 / (5 / 6), 9: 0.6 - 0.6 / (5 / 6)})
    assert sum(z.values()) / 3 == pytest.approx(0.6)


def test_without_control_it_is_the_plain_share():
    hits = {0: 1.0, 1: 0.0, 2: 1.0}
    assert linearised(hits, dict.fromkeys(hits, 0.0)) == hits


def test_nothing_can_be_told_where_everything_is_hit():
    assert linearised({0: 1.0}, {0: 1.0}) is None
    assert linearised({}, {}) is None
    (found,) = recovery_figures(ask(failures([writes(True, True), writes(True, True)])))
    assert (found.control, found.corrected, found.recovered.value) == (1.0, None, 1.0)


def test_only_failures_count_and_what_is_spoilt_is_counted_beside():
    probes = [writes(True), writes(False), writes(False), writes(True), writes(False)]
    (found,) = recovery_figures(ask(failures(probes, bits="bbgnn")))
    assert (found.items, found.hits, found.gained, found.lost, found.p) == (2, 1.0, 1, 2, 1.0)


def test_of_chosen_items_what_is_spoilt_is_unknown():
    questions = [*failures([writes(True), writes(True)]), Question(2)]
    (found,) = recovery_figures(ask(questions))
    assert (found.items, found.gained, found.lost, found.p) == (2, 2, None, None)
    questions[2].probes = {"shown": writes(False)}
    (found,) = recovery_figures(ask([*questions, Question(9, language="te")]))  # a language that was not asked at all
    assert (found.items, found.gained, found.lost, found.p) == (2, 2, 1, 1.0)


@pytest.mark.parametrize(("least", "decided"), [((3, 3), True), ((4, 1), False), ((1, 4), False)])
def test_few_failures_decide_nothing(least, decided):
    (found,) = recovery_figures(ask(failures([writes(True)] * 3), least))
    assert found.decided is decided


def test_gold_second_in_the_beam():
    probes = [beams(False, True, control=0.25), beams(False, False), beams(True, False)]
    (found,) = recovery_figures(ask(failures(probes, "beam4")))
    assert (found.hits, found.first.value, found.control) == (2.0, pytest.approx(1 / 3), pytest.approx(0.25 / 3))


def test_wrong_four_times_and_right_the_fifth():
    """c = 1 of n = 5: pass@1 = 1/5, pass@2 = 2/5, pass@4 = 4/5; the first sample is wrong."""
    figures = recovery_figures(ask(failures([samples(False, False, False, False, True)], "sample")))
    assert [f.probe for f in figures] == ["sample pass@1", "sample pass@2", "sample pass@4"]
    assert [f.recovered.value for f in figures] == pytest.approx([0.2, 0.4, 0.8])
    assert [f.gained for f in figures] == [None] * 3
    assert [f.first and f.first.value for f in figures] == [None, None, 0.0]


def test_pass_at_all_draws_is_a_count():
    probes = [samples(*[False] * 7, True), samples(*[False] * 8), samples(*[False] * 8, wrong=8)]
    found = recovery_figures(ask(failures(probes, "sample")))[-1]
    assert (found.probe, found.hits, found.gained, found.lost) == ("sample pass@8", 1.0, 1, 0)
    assert found.control == pytest.approx(1 / 3)
    assert found.corrected.value == pytest.approx(0.0)


def test_a_guesser_among_shown_candidates_recovers_nothing():
    """Each of four candidates picked equally often: hits 1/4, and of the three wrong ones 1/4 on average."""
    probes = [writes(pick == 0, pick == 1, pick == 2, pick == 3) for pick in range(4)] * 10
    (found,) = recovery_figures(ask(failures(probes)))
    assert (found.recovered.value, found.control) == (0.25, pytest.approx(0.25))
    assert found.corrected.value == pytest.approx(0.0, abs=1e-12)
    assert found.corrected.low < 0 < found.corrected.high


def test_no_failures_and_no_generation():
    (found,) = recovery_figures(ask(failures([writes(True)], bits="b")))
    assert (found.items, found.control, found.recovered.value, found.corrected) == (0, None, None, None)
    asked = ask(failures([writes(True)]))
    without = [type(h)(h.near, h.far, None, h.probes) for h in asked.halves]
    assert recovery_figures(Asked(without, asked.places, asked.clusters, (1, 1))) == []


@pytest.mark.parametrize(("hit", "chance"), [(0.25, 0.25), (0.6, 0.1)])
def test_the_interval_covers_the_truth(hit, chance):
    """60 items in 20 passages whose chances differ by passage; hit and control of an item exclude each other."""
    random = np.random.default_rng(20261130)
    truth, runs, inside = (hit - chance) / (1 - chance), 500, 0
    codes = np.repeat(np.arange(20), 3)
    asked = Asked([None] * 60, [("d", "en")] * 60, Clusters(codes, np.zeros(60, dtype=np.int64)), (1, 1))
    for _ in range(runs):
        moved = np.repeat(random.uniform(-0.15, 0.15, 20), 3)
        got = random.uniform(size=60) < hit + moved
        wrong = ~got & (random.uniform(size=60) < 3 * chance / (1 - hit))  # one of three targets
        hits = {i: float(value) for i, value in enumerate(got)}
        found = corrected_recovery(asked, hits, {i: value / 3 for i, value in enumerate(wrong)})
        inside += found.low <= truth <= found.high
    assert 0.93 <= inside / runs <= 0.98
