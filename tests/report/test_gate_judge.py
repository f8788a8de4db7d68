"""The judge: truth tables, metrics worked out by hand, planted runs, and all that can never pass."""

import itertools

import pytest
from synthetic import Question, pattern, receipt, write_run

from lm_eval_illusion.report import build_report
from lm_eval_illusion.report.gate.judge import exit_code, judge
from lm_eval_illusion.report.gate.metrics import METRICS, Reading
from lm_eval_illusion.report.gate.rule_file import Rules
from lm_eval_illusion.report.gate.rules import parse_rule
from lm_eval_illusion.report.gate.verdict import decide

SPARSE = receipt(sparsity=0.5)


def rule(text):
    (found,) = parse_rule(text, "here")
    return found


def rules(*texts, **more):
    return Rules(tuple(one for text in texts for one in parse_rule(text, "here")), **more)


def verdict(text, value, low, high, floor=0.0, **ends):
    return decide(rule(text), Reading(value, low, high, items=100, clusters=100, **ends), floor).verdict


@pytest.mark.parametrize(
    ("text", "figures", "expected"),
    [
        # certain: the interval lies beyond the limit, within it, or holds it
        ("gap near <= 0.1", (0.3, 0.2, 0.4), "fail"),
        ("gap near <= 0.1", (0.0, -0.1, 0.05), "pass"),
        ("gap near <= 0.1", (0.05, 0.0, 0.15), "undecided"),
        ("gap near <= 0.1", (0.15, 0.05, 0.2), "undecided"),
        # the limit itself is kept by <= and not by <
        ("gap near <= 0.1", (0.05, 0.0, 0.1), "pass"),
        ("gap near < 0.1", (0.05, 0.0, 0.1), "undecided"),
        ("gap near <= 0.1", (0.15, 0.1, 0.2), "undecided"),
        ("gap near < 0.1", (0.15, 0.1, 0.2), "fail"),
        ("gap near > 0.1", (0.15, 0.1, 0.2), "undecided"),
        ("gap near >= 0.1", (0.15, 0.1, 0.2), "fail"),
        # possible: the estimate alone
        ("gap near <= 0.1, possible", (0.11, -1.0, 1.0), "fail"),
        ("gap near <= 0.1, possible", (0.1, -1.0, 1.0), "pass"),
        ("gap near < 0.1, possible", (0.1, -1.0, 1.0), "fail"),
        ("gap near <= 0.3, possible", (0.1 + 0.2, 0.0, 1.0), "pass"),  # 0.30000000000000004 is no 0.3 exceeded
        # a least, not a most
        ("coverage >= 0.99", (0.99, 0.99, 0.99), "pass"),
        ("coverage >= 0.99", (0.98, 0.98, 0.98), "fail"),
        ("coverage > 0.99", (0.99, 0.99, 0.99), "fail"),
        ("sparsity reached >= 0.5", (0.6, 0.6, 0.6), "pass"),
    ],
)
def test_truth_table(text, figures, expected):
    assert verdict(text, *figures) == expected


@pytest.mark.parametrize(
    ("ends", "floor", "expected"),
    [
        ((-0.04, 0.04), 0.0, "pass"),
        ((-0.04, 0.06), 0.0, "undecided"),
        ((-0.06, 0.04), 0.0, "undecided"),
        ((0.06, 0.2), 0.0, "fail"),
        ((-0.2, -0.06), 0.0, "fail"),
        ((-0.05, 0.04), 0.0, "undecided"),  # the margin itself is outside
        ((-0.04, 0.04), 0.02, "undecided"),
        ((0.06, 0.2), 0.02, "undecided"),
        ((0.08, 0.2), 0.02, "fail"),
        ((-0.2, -0.06), 0.02, "undecided"),
    ],
)
def test_equivalence_looks_both_ways(ends, floor, expected):
    low, high = ends
    text = "generation drop <= 0.05, equivalent"
    assert verdict(text, (low + high) / 2, -1.0, 1.0, floor, low90=low, high90=high) == expected


@pytest.mark.parametrize(
    ("text", "figures", "floor", "expected"),
    [
        ("generation drop <= 0.1", (0.3, 0.2, 0.4), 0.05, "fail"),
        ("generation drop <= 0.1", (0.3, 0.2, 0.4), 0.1, "undecided"),
        ("generation drop <= 0.1", (0.0, -0.05, 0.05), 0.05, "pass"),
        ("generation drop <= 0.1", (0.0, -0.05, 0.05), 0.06, "undecided"),
        ("generation drop <= 0.1, possible", (0.12, 0.1, 0.2), 0.02, "undecided"),
        ("generation drop <= 0.1, possible", (0.13, 0.1, 0.2), 0.02, "fail"),
        ("generation drop <= 0.1, possible", (0.1, 0.0, 0.2), 0.5, "pass"),
    ],
)
def test_noise_is_left_open(text, figures, floor, expected):
    assert verdict(text, *figures, floor) == expected


def test_no_verdict_turns_from_fail_to_pass_or_back_as_noise_grows():
    order = {"fail": 0, "undecided": 1, "pass": 2}
    for value, width, sure in itertools.product((-0.2, 0.0, 0.1, 0.12, 0.4), (0.0, 0.05, 0.3), ("certain", "possible")):
        seen = [
            verdict(f"gap near <= 0.1, {sure}", value, value - width, value + width, floor) for floor in (0, 0.03, 0.5)
        ]
        ranks = [order[word] for word in seen]
        assert all(abs(rank - 1) <= abs(ranks[0] - 1) for rank in ranks), (value, width, sure, seen)


def judged(tmp_path, dense, pruned, given, *, pruning=SPARSE, **kinds):
    if not (tmp_path / "dense").exists():
        write_run(tmp_path / "dense", dense, **kinds)
        write_run(tmp_path / "pruned", pruned, pruning=pruning, **kinds)
    return judge(build_report([tmp_path / "dense", tmp_path / "pruned"]).file, given)


def planted(turned, n=100):
    """n items that the dense model gets right in both ways; the pruned one loses the answer of some."""
    pruned = pattern("r" * turned + "b" * (n - turned))
    pruned[-1].answer = "Paris!"  # not the dense model's very words: that would be an alarm
    return pattern("b" * n), pruned


@pytest.mark.parametrize(
    ("turned", "limit", "sure", "expected"),
    [
        (1, 0.10, "certain", "pass"),
        (5, 0.10, "certain", "pass"),  # 0.002 to 0.097
        (8, 0.10, "certain", "undecided"),  # 0.022 to 0.136
        (20, 0.10, "certain", "fail"),  # 0.117 to 0.280
        (1, 0.05, "certain", "pass"),
        (5, 0.05, "certain", "undecided"),
        (20, 0.05, "certain", "fail"),
        (1, 0.10, "possible", "pass"),
        (5, 0.10, "possible", "pass"),
        (20, 0.10, "possible", "fail"),
        (0, 0.05, "equivalent", "pass"),
        (1, 0.05, "equivalent", "pass"),  # 90 %: -0.014 to 0.033
        (5, 0.05, "equivalent", "undecided"),  # 90 %: 0.010 to 0.089
        (20, 0.05, "equivalent", "fail"),
    ],
)
def test_planted_runs(tmp_path, turned, limit, sure, expected):
    (line,) = judged(tmp_path, *planted(turned), rules(f"generation drop <= {limit}, {sure}"))
    assert line.observed == pytest.approx(turned / 100)
    assert line.items == 100
    assert line.limit == limit
    assert line.low is not None
    assert line.high is not None
    assert line.low <= line.observed <= line.high
    assert line.verdict == expected
    assert exit_code([line]) == {"pass": 0, "fail": 1, "undecided": 2}[expected]


def test_the_interval_of_a_line_by_hand(tmp_path):
    """5 of 100 turned, one a passage: drop .05, variance of an item .05 (.95), of the mean .0475/99 (CR2).

    Effective items: .0475/(.0475/99) = 99, one pseudo item beside them: centre .05 x .99 = .0495, second moment
    (.05 x 99 + 1)/100 = .0595, half = t(99) sqrt((.0595 - .0495^2)/100) = 1.9842 x .02389 = .0474.
    """
    (line,) = judged(tmp_path, *planted(5), rules("generation drop <= 0.10"))
    assert line.low == pytest.approx(0.0495 - 0.0474, abs=1e-4)
    assert line.high == pytest.approx(0.0495 + 0.0474, abs=1e-4)


def test_every_metric_by_hand(tmp_path):
    """40 items. Dense: 30 both, 10 recognition-only. Pruned: 12 both, 18 rec.-only of these 30; 10 neither of the 10.

    R near 40/40 -> 30/40, G 30/40 -> 12/40. gap = 30/40 - 12/40 = .45; excess = .45 - .25 = .2; rec.-only = 18/40;
    induced = 18/30 - 1/4 = .35; MC drop = .25; generation drop = 18/40; flips near 10/40, generation 18/40.
    """
    dense = pattern("b" * 30 + "r" * 10)
    pruned = pattern("b" * 12 + "r" * 18 + "n" * 10)
    for question in pruned[:4]:
        question.flags = {"empty": True}
    pruned[7].flags = {"repeated": True}
    lines = judged(tmp_path, dense, pruned, rules(*(f"{name} <= 0.6, possible" for name in METRICS)))
    found = {line.rule.split(" <")[0].split(" >")[0]: line.observed for line in lines}
    expected = {
        **{
            f"{name} {distance}": value
            for distance in ("near", "far")
            for name, value in (
                ("gap", 0.45),
                ("excess gap", 0.2),
                ("recognition-only", 0.45),
                ("induced illusion", 0.35),
                ("MC drop", 0.25),
                ("flips", 0.25),
            )
        },
        "generation drop": 0.45,
        "flips generation": 0.45,
        "empty share": 0.1,
        "repeated share": 0.025,
        "sparsity reached": 0.5,
        "coverage": 1.0,
    }
    assert found == {name: pytest.approx(value) for name, value in expected.items()}
    assert {line.items for line in lines} == {40, 30}  # induced illusion: over the dense model's 30
    assert {line.rule.split(",")[0]: line.verdict for line in lines}["sparsity reached > 0.6"] == "fail"


def test_near_and_far_are_never_mixed(tmp_path):
    dense, pruned = planted(0, 60)
    for question in pruned[:30]:
        question.far = False
    lines = judged(tmp_path, dense, pruned, rules("MC drop <= 0.1"))
    assert [(line.rule, line.verdict) for line in lines] == [
        ("MC drop near <= 0.1, certain", "pass"),
        ("MC drop far <= 0.1, certain", "fail"),
    ]


def languages(**bits):
    return [q for language, letters in bits.items() for q in pattern(letters, language=language)]


def test_each_language_has_its_own_line(tmp_path):
    dense, pruned = languages(en="b" * 60, sw="b" * 60), languages(en="b" * 60, sw="r" * 60)
    lines = judged(tmp_path, dense, pruned, rules("generation drop <= 0.1, each language"))
    assert [(line.scope, line.verdict, line.items) for line in lines] == [
        ("tydiqa/en", "pass", 60),
        ("tydiqa/sw", "fail", 60),
    ]


def test_a_data_set_has_its_own_row(tmp_path):
    def made(letters):
        return [*pattern("b" * 40), *pattern(letters, dataset="xquad", language="de")]

    given = rules("generation drop <= 0.1, dataset xquad", "generation drop <= 0.1, dataset mlqa")
    lines = judged(tmp_path, made("b" * 40), made("r" * 40), given)
    assert [(line.scope, line.verdict) for line in lines] == [("dataset xquad", "fail"), ("dataset mlqa", "undecided")]
    assert "data sets with items: tydiqa, xquad" in lines[1].why
    assert lines[1].observed is None


def test_the_only_data_set_is_the_overall_row(tmp_path):
    (line,) = judged(tmp_path, *planted(20), rules("generation drop <= 0.1, dataset tydiqa"))
    assert (line.verdict, line.observed) == ("fail", pytest.approx(0.2))


LENIENT = {"undecided": "pass"}


def never_passes(lines, said):
    assert [line.verdict for line in lines] == ["undecided"] * len(lines)
    assert lines
    assert all(said in line.why for line in lines), lines
    assert exit_code(lines) == 2


def test_the_file_may_let_an_open_interval_pass(tmp_path):
    for word, code in (("undecided", 2), ("pass", 0), ("fail", 1)):
        (line,) = judged(tmp_path, *planted(8), rules("generation drop <= 0.10", undecided=word))
        assert (line.verdict, exit_code([line])) == (word, code)
        assert "the interval holds the limit" in line.why
    assert line.why.endswith("undecided counts as fail here")


def test_too_few_items_never_pass(tmp_path):
    given = rules("generation drop <= 0.5", "gap <= 0.9, possible", "generation drop <= 0.5, equivalent", **LENIENT)
    never_passes(judged(tmp_path, *planted(0, 29), given), "too few: 29 items in 29 passages, expected 30 in 8")


def test_a_rule_may_ask_for_more_items(tmp_path):
    given = rules("generation drop <= 0.5, n >= 101", **LENIENT)
    never_passes(judged(tmp_path, *planted(0), given), "too few: 100 items in 100 passages, expected 101 in 8")
    (line,) = judged(tmp_path, *planted(0), rules("generation drop <= 0.5, n >= 100"))
    assert line.verdict == "pass"


def test_few_passages_never_pass(tmp_path):
    dense, pruned = planted(0)
    for question in [*dense, *pruned]:
        question.cluster = f"p{question.number % 7}"
    never_passes(judged(tmp_path, dense, pruned, rules("generation drop <= 0.5", **LENIENT)), "100 items in 7 passages")


def test_a_language_that_one_run_lacks_never_passes(tmp_path):
    dense, pruned = languages(en="b" * 400, sw="b" * 10), languages(en="b" * 399 + "r", sw="b" * 10)
    for question in pruned:
        if question.language == "sw":
            question.valid, question.invalid_reason = False, "non_finite"
    given = rules("generation drop <= 0.1", "generation drop <= 0.1, each language", languages=("en", "sw"), **LENIENT)
    lines = judged(tmp_path, dense, pruned, given)
    assert [(line.rule, line.scope, line.verdict, line.why) for line in lines] == [
        ("languages", "sw", "undecided", "no items in sw; there are en"),
        ("generation drop <= 0.1, certain", "overall", "undecided", "no items in tydiqa/sw"),
        ("generation drop <= 0.1, certain", "tydiqa/en", "pass", "the whole interval keeps the limit"),
        ("generation drop <= 0.1, certain", "tydiqa/sw", "undecided", "no items"),
    ]
    assert exit_code(lines) == 2


def test_a_language_that_nobody_asked_never_passes(tmp_path):
    lines = judged(tmp_path, *planted(0), rules("generation drop <= 0.5", languages=("en", "th"), **LENIENT))
    assert [(line.scope, line.verdict) for line in lines] == [("th", "undecided"), ("overall", "pass")]
    assert exit_code(lines) == 2


def test_a_condition_that_was_not_run_never_passes(tmp_path):
    given = rules("gap far <= 0.9", "MC drop far <= 0.9, possible", "excess gap far <= 0.9", **LENIENT)
    lines = judged(tmp_path, *planted(0), given, conditions=("mc", "gen"))
    never_passes(lines, "not measured in every language: mc_far")


def test_items_left_out_never_pass(tmp_path):
    """A broken model answers 90 of 100 items with NaN: what it survived says nothing."""
    dense, pruned = planted(0)
    for question in pruned[:6]:
        question.valid, question.invalid_reason = False, "non_finite"
    given = rules("generation drop <= 0.9", **LENIENT)
    never_passes(judged(tmp_path, dense, pruned, given), "6 of 100 items are left out (6 non_finite), more than")
    (line,) = judged(tmp_path, dense, pruned, rules("generation drop <= 0.9", max_left_out=0.06))
    assert line.verdict == "pass"


def test_items_in_one_run_only_never_pass(tmp_path):
    dense, pruned = planted(0)
    given = rules("generation drop <= 0.9", **LENIENT)
    never_passes(judged(tmp_path, dense, pruned[10:], given), "10 of 100 items are left out (10 unmatched_dense)")


def test_a_gap_at_chance_is_undecided(tmp_path):
    """25 of 100 right of four options: a guesser; it answers nothing, and yet its gap of 0.25 keeps a limit of 0.5."""
    dense, pruned = pattern("b" * 100), pattern("r" * 25 + "n" * 75)
    given = rules("gap <= 0.5", "excess gap <= 1", "recognition-only <= 0.5", "induced illusion <= 0.5", **LENIENT)
    lines = judged(tmp_path, dense, pruned, given)
    assert len(lines) == 8
    never_passes(lines, "cannot be told from chance 0.25")
    (line,) = judged(tmp_path, dense, pruned, rules("generation drop <= 0.1"))
    assert line.verdict == "fail"  # chance bars gaps alone


def test_a_change_needs_a_dense_model_that_knows_something(tmp_path):
    dense, pruned = pattern("r" * 25 + "n" * 75), pattern("b" * 60 + "n" * 40)
    lines = judged(tmp_path, dense, pruned, rules("excess gap near <= 1", "gap near <= 0.5", **LENIENT))
    assert [line.verdict for line in lines] == ["undecided", "pass"]
    assert "the dense model's MC near 0.25" in lines[0].why


def test_a_run_without_a_receipt_has_no_sparsity(tmp_path):
    given = rules("sparsity reached >= 0.4", "coverage >= 0.9", **LENIENT)
    never_passes(judged(tmp_path, *planted(5), given, pruning=None), "the run carries no pruning receipt")


def test_calibration_on_evaluated_text_never_passes(tmp_path):
    dense, pruned = planted(0)
    dense[0].passage = pruned[0].passage = "The passage that calibration saw."
    seen = receipt(texts=[dense[0].passage])
    given = rules("generation drop <= 0.9", "coverage >= 0.9", **LENIENT)
    never_passes(judged(tmp_path, dense, pruned, given, pruning=seen), "was calibrated on texts that are evaluated")


def test_another_model_never_passes(tmp_path):
    dense, pruned = planted(1)
    write_run(tmp_path / "dense", dense, model={"parameters": 100})
    write_run(tmp_path / "pruned", pruned, pruning=SPARSE, model={"parameters": 99})
    given = rules("generation drop <= 0.9", **LENIENT)
    never_passes(judged(tmp_path, dense, pruned, given), "is another model than dense: parameters 99 against 100")


def test_a_pruned_run_that_is_the_dense_one_never_passes(tmp_path):
    given = rules("generation drop <= 0.9", "coverage >= 0.9", **LENIENT)
    never_passes(judged(tmp_path, pattern("b" * 40), pattern("b" * 40), given), "is it the same model?")


def test_a_checkpoint_elsewhere_that_answers_like_the_dense_one_never_passes(tmp_path):
    dense, pruned = pattern("b" * 40), pattern("b" * 40)
    write_run(tmp_path / "dense", dense, model={"pretrained": "org/dense"}, config={"model": "hf"})
    write_run(tmp_path / "pruned", pruned, model={"pretrained": "out/gptq"}, config={"model": "hf"})
    never_passes(judged(tmp_path, dense, pruned, rules("generation drop <= 0.9", **LENIENT)), "is it the same model?")


def test_two_runs_of_one_dense_model_pass(tmp_path):
    given = rules("generation drop <= 0.1", "flips <= 0.1", "MC drop <= 0.05, equivalent", "excess gap <= 0.1")
    lines = judged(tmp_path, pattern("b" * 100), pattern("b" * 100), given, pruning=None)
    assert {line.verdict for line in lines} == {"pass"}
    assert exit_code(lines) == 0


def test_every_pruned_run_is_judged(tmp_path):
    dense, pruned = planted(20)
    write_run(tmp_path / "a", dense)
    write_run(tmp_path / "b", planted(1)[1], pruning=receipt(sparsity=0.3))
    write_run(tmp_path / "c", pruned, pruning=receipt(sparsity=0.6))
    file = build_report([tmp_path / name for name in "abc"]).file
    lines = judge(file, rules("generation drop <= 0.1"))
    assert [(line.pruned, line.verdict) for line in lines] == [("wanda 0.3", "pass"), ("wanda 0.6", "fail")]


def test_exit_codes():
    def line(word):
        from lm_eval_illusion.report.gate.judge import Line

        return Line("p", "d", "r", "s", word, "", None, None, None, None, 0)

    for words, code in (("p", 0), ("pp", 0), ("pf", 1), ("pu", 2), ("fu", 1), ("u", 2), ("", 2)):
        names = {"p": "pass", "f": "fail", "u": "undecided"}
        assert exit_code([line(names[word]) for word in words]) == code


def test_an_item_counts_once_whatever_its_language_is_called(tmp_path):
    dense = [Question(n, language="no") for n in range(40)]
    (line,) = judged(
        tmp_path,
        dense,
        [Question(n, language="no", gen=n > 3) for n in range(40)],
        rules("generation drop <= 0.5, each language"),
    )
    assert (line.scope, line.verdict, line.items) == ("tydiqa/no", "pass", 40)
