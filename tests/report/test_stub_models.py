"""Models whose nature is known, asked the shipped questions: what the report concludes is what they are.

Each is a plain function from a row to a response. Its answers go through `process_*` into a run folder, and that
through `build_report`, beside a model that knows everything.
"""

import math

import numpy as np
import pytest
from stubs import (
    KNOWS,
    WRONG,
    answering,
    drawn,
    model,
    picking,
    ranks,
    says,
    says_several,
    shipped,
    write_fed,
    write_stub_run,
)
from synthetic import receipt

from lm_eval_illusion.pairs.conditions import CONDITIONS
from lm_eval_illusion.report import build_report
from lm_eval_illusion.report.recovery import linearised
from lm_eval_illusion.report.stats import Clusters, mean_interval
from tests.pairs.probed import PROCESS

LANGUAGES = ("ar", "en", "zh")
ITEMS = 24 * len(LANGUAGES)
ASKED = ("mc", "mc_far", "gen", "shown", "beam4", "sample", "rank")
LOOP = "zebra " * 12


def gold(doc):
    return says(doc["gold_text"])


def guesses_among_the_shown(doc, salt="shown"):
    shown = [line.removeprefix("- ") for line in doc["prompt"].split("\n") if line.startswith("- ")]
    assert shown == doc["choices_near"]
    return says(shown[drawn(doc, salt, 4)])


def knows_half(doc):
    return gold(doc) if drawn(doc, "knows", 2) else guesses_among_the_shown(doc)


def copies_spans(doc, salt="draw"):
    """Eight draws of one of six spans of the passage: the near options, all in it, and two that are no option."""
    assert all(choice in doc["passage"] for choice in doc["choices_near"])
    spans = [*doc["choices_near"], WRONG, "ibex"]
    return says_several([spans[drawn(doc, f"{salt}{draw}", 6)] for draw in range(8)])


def elsewhere(doc):
    """The row with options of other passages in the place of some: every distractor of one item in three or more."""
    there, gold = drawn(doc, "elsewhere", 3), doc["gold_near"]
    near = [text if i in (gold, *range(there)) else f"ibex{i}" for i, text in enumerate(doc["choices_near"])]
    return {**doc, "choices_near": near}


def copies_what_is_there(doc):
    """Eight draws of one of six spans: the near options that stand in the passage, and words that are no option."""
    spans = [text for text in doc["choices_near"] if text in doc["passage"]]
    spans += ["gnu", "okapi", "kudu", "eland", "oryx"][: 6 - len(spans)]
    return says_several([spans[drawn(doc, f"there{draw}", 6)] for draw in range(8)])


def wrong_four_times_and_right_the_fifth(doc):
    return says_several([*[WRONG] * 4, doc["gold_text"], *[WRONG] * 3])


def gold_second(doc):
    return says_several([WRONG, doc["gold_text"], WRONG, WRONG])


def repeats(doc):
    return says(LOOP, finish="length")


def repeats_several(n):
    return lambda doc: says_several([LOOP] * n, finish="length")


RECOGNISES = picking("mc", lambda doc, gold, n: gold)
GUESSES = picking("mc", lambda doc, gold, n: drawn(doc, "mc", n))
MODELS = {
    "guesser": model(mc=GUESSES, shown=guesses_among_the_shown),
    "half": model(shown=knows_half),
    "copier": model(mc=GUESSES, sample=copies_spans),
    "shown-only": model(mc=RECOGNISES, shown=gold),
    "second-in-beam": model(mc=RECOGNISES, beam4=gold_second),
    "fifth-draw": model(mc=RECOGNISES, sample=wrong_four_times_and_right_the_fifth),
    "repeats": model(gen=repeats, shown=repeats, beam4=repeats_several(4), sample=repeats_several(8)),
    "recognises": model(mc=RECOGNISES, rank=lambda doc: ranks(3, WRONG)),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Name of a model -> the report's row over all its items, against the model that knows everything."""
    folder = tmp_path_factory.mktemp("stubs")
    dense = write_stub_run(folder / "knows", KNOWS, LANGUAGES, ASKED)
    runs = [write_stub_run(folder / name, stub, LANGUAGES, ASKED, pruning=receipt()) for name, stub in MODELS.items()]
    report = build_report([dense, *runs])
    return {name: comparison.rows[0] for name, comparison in zip(MODELS, report.file.comparisons, strict=True)}


def recovery(row, probe):
    found = {figures.probe: figures for figures in row.pruned_probes.recovery}
    return found[probe]


def counts(row):
    return {name: count for name, count in row.pruned_probes.verdicts.counts.items() if count}


def demoted_by(row):
    return {name: count for name, count in row.pruned_probes.verdicts.demoted_by.items() if count}


def covers_zero(estimate):
    return estimate.low <= 0 <= estimate.high


def test_the_model_that_knows_everything_produces_everything(rows):
    for row in rows.values():
        assert {name: n for name, n in row.dense_probes.verdicts.counts.items() if n} == {"produced": ITEMS}
        assert all(figures.items == 0 and figures.corrected is None for figures in row.dense_probes.recovery)


def test_a_guesser_among_the_shown_candidates_recovers_nothing_beyond_chance(rows):
    found = recovery(rows["guesser"], "shown")
    assert found.items == ITEMS
    assert 0.1 < found.recovered.value < 0.4  # about one in four looks recovered
    assert covers_zero(found.corrected)


def test_what_is_known_in_half_of_the_items_is_seen_through_the_guesses(rows):
    # (1/2 + 1/8 - 1/8)/(1 - 1/8)
    found = recovery(rows["half"], "shown").corrected
    assert 0.2 < found.low < 4 / 7 < found.high


@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_a_copier_of_one_of_six_spans_recovers_nothing_beyond_chance(rows, k):
    found = recovery(rows["copier"], f"sample pass@{k}")
    chance = 1 - (5 / 6) ** k
    assert abs(found.recovered.value - chance) < 0.12  # 77 % in eight draws
    assert covers_zero(found.corrected)


@pytest.mark.parametrize(("condition", "stub"), [("shown", guesses_among_the_shown), ("sample", copies_spans)])
def test_of_twenty_such_models_hardly_one_seems_to_recover(condition, stub):
    docs = [doc for language in LANGUAGES for doc in shipped(condition, language)]
    clusters = Clusters.from_keys(*([doc[key] for doc in docs] for key in ("dataset", "language", "cluster")))
    seen = 0
    for salt in range(20):
        records = [PROCESS[condition](doc, stub(doc, f"{salt}/"))["illusion"] for doc in docs]
        hits = {i: float(record["right"]["standard"]) for i, record in enumerate(records)}
        values = linearised(hits, {i: record["control"] for i, record in enumerate(records)})
        bounds = (-math.inf, 1.0)
        found = mean_interval(np.array(list(values.values())), clusters, scale="difference", bounds=bounds)
        seen += not covers_zero(found)
    assert seen <= 3  # 1 expected at 95 %; four or more have a chance of 1.6 %


def test_a_copier_recovers_nothing_where_many_distractors_stand_in_other_passages(tmp_path):
    asked = ("mc", "mc_far", "gen", "sample")
    stub = model(sample=copies_what_is_there)
    runs = [
        write_stub_run(tmp_path / "knows", KNOWS, LANGUAGES, asked, change=elsewhere),
        write_stub_run(tmp_path / "copier", stub, LANGUAGES, asked, change=elsewhere, pruning=receipt()),
    ]
    found = recovery(build_report(runs).file.comparisons[0].rows[0], "sample pass@8")
    assert found.items == ITEMS
    assert found.recovered.value > 0.6
    assert 0.3 * ITEMS < found.corrected.items < 0.7 * ITEMS
    assert covers_zero(found.corrected)


def test_answering_only_when_candidates_are_shown(rows):
    verdicts = rows["shown-only"].pruned_probes.verdicts
    assert counts(rows["shown-only"]) == {"demoted": ITEMS}
    assert verdicts.demoted_by == {"shown": ITEMS, "beam4": 0, "sample": 0}
    assert verdicts.demoted_by_shown_alone == ITEMS
    assert recovery(rows["shown-only"], "shown").corrected.value == pytest.approx(1.0)
    shares = {step.name: step.share.value for step in rows["shown-only"].pruned_probes.ladder}
    assert (shares["gen"], shares["shown"], shares["mc"]) == (0.0, 1.0, 1.0)


def test_gold_second_in_the_beam(rows):
    found = recovery(rows["second-in-beam"], "beam4")
    assert counts(rows["second-in-beam"]) == {"demoted": ITEMS}
    assert demoted_by(rows["second-in-beam"]) == {"beam4": ITEMS}
    assert (found.hits, found.recovered.value, found.first.value, found.control) == (ITEMS, 1.0, 0.0, 0.0)


def test_right_on_the_fifth_draw(rows):
    assert counts(rows["fifth-draw"]) == {"demoted": ITEMS}
    assert demoted_by(rows["fifth-draw"]) == {"sample": ITEMS}
    for k in (1, 2, 4, 8):
        assert recovery(rows["fifth-draw"], f"sample pass@{k}").recovered.value == pytest.approx(k / 8)
    assert recovery(rows["fifth-draw"], "sample pass@8").first.value == 0.0


def test_only_repeating(rows):
    verdicts = rows["repeats"].pruned_probes.verdicts
    assert counts(rows["repeats"]) == {"lost": ITEMS}
    assert verdicts.failures["lost"] == {
        "empty": 0,
        "cut": ITEMS,
        "repeated": ITEMS,
        "unclosed_thought": 0,
        "gold_inside": 0,
    }
    assert {recovery(rows["repeats"], probe).hits for probe in ("shown", "beam4", "sample pass@8")} == {0}


def test_recognising_without_any_recovery(rows):
    assert counts(rows["recognises"]) == {"recognised_only": ITEMS}


def test_gold_at_rank_three(rows):
    figures = {f.group: f for f in rows["recognises"].probe_contrast.ranks}
    turned = figures["turned_near"]
    assert turned.items == ITEMS
    assert (set(turned.dense_first), set(turned.pruned_first)) == ({1.0}, {3.0})
    assert (turned.slid, turned.rose) == (ITEMS, 0)
    assert turned.pruned_within == {"1": 0.0, "4": 1.0, "10": 1.0, "100": 1.0}
    forced = rows["recognises"].pruned_probes.forced
    assert (forced.items, forced.never, forced.at_first, forced.later) == (ITEMS, 0, ITEMS, 0)


def test_each_item_moved_from_produced_to_what_the_model_is(rows):
    for name, verdict in (("shown-only", "demoted"), ("repeats", "lost"), ("recognises", "recognised_only")):
        moves = rows[name].probe_contrast.verdicts
        assert moves["produced"][verdict] == ITEMS


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The row of a model asked under every condition.

    It copies the demonstration, mends its answer in the first round and spoils it in the second, names every candidate
    where they are shown, and finds the gold among options without the passage.
    """
    folder = tmp_path_factory.mktemp("everything")
    languages = ("en", "sw")
    stub = model(
        oneshot=answering("oneshot", lambda doc: doc["demonstration_answers"][0]),
        shown=answering("shown", lambda doc: ", ".join(doc["choices_near"])),
        revise1_gen=gold,
        revise1_mc=picking("revise1_mc", lambda doc, gold, n: gold),
        choices_only=picking("choices_only", lambda doc, gold, n: gold),
        mc_graded=picking("mc_graded", lambda doc, gold, n: doc["distances_graded"].index("paragraph")),
    )
    fed = [write_fed(folder / f"{number}.json", languages, told) for number, told in enumerate((KNOWS, stub))]
    runs = [
        write_stub_run(folder / "knows", KNOWS, languages, CONDITIONS, fed=fed[0]),
        write_stub_run(folder / "pruned", stub, languages, CONDITIONS, fed=fed[1], pruning=receipt()),
    ]
    return build_report(runs).file.comparisons[0].rows[0]


def test_the_demonstration_s_answer_is_part_of_the_control(everything):
    found = recovery(everything, "oneshot")
    assert (found.items, found.hits, found.control) == (48, 0, 0.25)
    assert found.corrected.value == pytest.approx(-1 / 3)


def test_naming_every_candidate_does_not_demote(everything):
    found = recovery(everything, "shown")
    assert found.control > 0.9
    assert demoted_by(everything) == {"revise1_gen": 48}


def test_rounds_of_self_correction(everything):
    found = {(f.round, f.format): (f.right_before, f.mended, f.spoilt) for f in everything.pruned_probes.revisions}
    assert found == {(1, "gen"): (0, 48, 0), (2, "gen"): (48, 0, 48), (1, "mc"): (0, 48, 0), (2, "mc"): (48, 0, 48)}


def test_leaks_and_distances_and_spans(everything):
    probes = everything.pruned_probes
    shares = {name: estimate.value for name, estimate in probes.accuracies.items()}
    assert (shares["choices_only"], shares["choices_only_far"], shares["question_only"]) == (1.0, 1.0, 0.0)
    assert (shares["mc_letters"], shares["closed_mc"], shares["closed_gen"]) == (0.0, 0.0, 0.0)
    preferred = {point.distance: point.preferred.value for point in probes.graded}
    assert preferred["paragraph"] == 0.0
    assert set(preferred) >= {"paragraph", "language", "random"}
    assert probes.span_rank.first.value == 0.0
    assert everything.dense_probes.span_rank.first.value == 1.0
    assert everything.dense_probes.span_rank.median_rank == 1
