"""The grammar of rules, and gate.yaml with its traps: everything else is refused, in one line."""

import re

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.build import DEFAULTS
from lm_eval_illusion.report.gate.metrics import METRICS
from lm_eval_illusion.report.gate.rule_file import Rules, read_rules
from lm_eval_illusion.report.gate.rules import LEAST_ITEMS, Rule, parse_rule


def parsed(text):
    return parse_rule(text, "here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("generation drop <= 0.10", [Rule("generation drop", False, 0.1)]),
        ("generation drop <= 0.10, certain", [Rule("generation drop", False, 0.1)]),
        ("Generation_Drop<0.10 , POSSIBLE", [Rule("generation drop", True, 0.1, "possible")]),
        ("gap<=0.10", [Rule("gap near", False, 0.1), Rule("gap far", False, 0.1)]),
        ("gap near > -0.5", [Rule("gap near", False, -0.5)]),
        ("gap far >= 0.1", [Rule("gap far", True, 0.1)]),
        ("mc-drop near <= 0.05, equivalent", [Rule("MC drop near", False, 0.05, "equivalent")]),
        ("flips <= 0.1", [Rule(f"flips {part}", False, 0.1) for part in ("near", "far", "generation")]),
        (
            "recognition only far <= 0.3, each language, n >= 100",
            [Rule("recognition-only far", False, 0.3, scope="each language", least=100)],
        ),
        (
            "excess gap near <= 1, dataset xquad",
            [Rule("excess gap near", False, 1.0, scope="dataset", dataset="xquad")],
        ),
        ("coverage >= 0.99", [Rule("coverage", False, 0.99)]),
        ("coverage < 0.99", [Rule("coverage", False, 0.99)]),
        ("sparsity reached > 0.5", [Rule("sparsity reached", True, 0.5)]),
        ("sparsity reached <= 0.5", [Rule("sparsity reached", True, 0.5)]),
    ],
)
def test_a_rule_is_read(text, expected):
    assert sorted(parsed(text), key=lambda r: r.metric) == sorted(expected, key=lambda r: r.metric)


@pytest.mark.parametrize("name", METRICS)
def test_what_a_line_shows_is_a_rule_again(name):
    limit = 0.25 if METRICS[name].bad_side > 0 else 0.75
    for strict in (True, False):
        rule = Rule(name, strict, limit)
        assert parsed(rule.text) == [rule]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no rule; expected METRIC OP NUMBER"),
        ("gap near", "'gap near' is no rule"),
        ("gap near == 0.1", "is no rule"),
        ("gap near = 0.1", "is no rule"),
        ("0.1 >= gap near", "is no rule"),
        ("loss <= 0.1", r"unknown metric 'loss'\. Known: gap near, excess gap near"),
        ("gap middle <= 0.1", "unknown metric 'gap middle'"),
        ("generaton drop <= 0.1", r"'generaton drop'\. Did you mean generation drop\? Known"),
        ("flips sideways <= 0.1", "unknown metric"),
        ("generation <= 0.1", "unknown metric 'generation'"),
        ("gap near <= 10%", r"'10%' is no limit of gap near; expected a plain number such as 0.10 \(10 % is 0.10\)"),
        ("gap near <= nan", "'nan' is no limit"),
        ("gap near <= 1e-2", "'1e-2' is no limit"),
        ("gap near <= .1", "'.1' is no limit"),
        ("gap near <=", "'' is no limit"),
        ("gap near <= ١", "is no limit"),
        ("gap near <= 0.1 certain", "'0.1 certain' is no limit"),
        ("gap near <= 0.1, surely", "'surely' in .* is no word of a rule; known: certain"),
        ("gap near <= 0.1,", "'' in .* is no word"),
        ("gap near <= 0.1, certain, possible", "gives how sure twice"),
        ("gap near <= 0.1, overall, each language", "gives a scope twice"),
        ("gap near <= 0.1, n >= 50, n >= 60", "gives a least n twice"),
        ("gap near <= 0.1, dataset", "'dataset' in .* is no word"),
        ("gap near <= 0.1, n > 50", "is no word"),
        ("gap near <= 0.1, n >= 10", "n >= 10 is below 30, the fewest items"),
        ("gap near <= 10", "limit 10 of gap near lies outside -1 to 1"),
        ("empty share <= -0.1", "lies outside 0 to 1"),
        ("generation drop <= 1", "can never fail"),
        ("coverage >= 0", "can never fail"),
        ("flips near < 0", "can never pass"),
        ("sparsity reached > 1", "can never pass"),
        (
            "gap near <= 0.1, equivalent",
            r"cannot be judged equivalent; expected a change \(excess gap near, MC drop near",
        ),
        ("MC drop near <= 0, equivalent", "a margin above 0"),
        ("coverage >= 0.9, each language", "counted over the whole model"),
        ("coverage >= 0.9, equivalent", "cannot be judged equivalent"),
        ("sparsity reached >= 0.5, n >= 50", "counted over the whole model"),
        ("gap near <= 0.1\nflips near <= 1", "is no limit"),
    ],
)
def test_everything_else_is_refused(text, said):
    with pytest.raises(IllusionError, match=said) as caught:
        parsed(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("here: ")


def test_the_least_sizes_are_those_of_the_report():
    assert DEFAULTS.min_items == LEAST_ITEMS


def written(tmp_path, text):
    path = tmp_path / "gate.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read(tmp_path):
    path = written(
        tmp_path,
        'undecided: pass\nlanguages: [en, "no"]\nmax_left_out: 0.1\n'
        "rules:\n  - generation drop <= 0.10, certain  # the main one\n  - gap near <= 0.3, each language\n",
    )
    assert read_rules(path, ["coverage >= 0.99"]) == Rules(
        (
            Rule("generation drop", False, 0.1),
            Rule("gap near", False, 0.3, scope="each language"),
            Rule("coverage", False, 0.99),
        ),
        "pass",
        ("en", "no"),
        0.1,
        str(path),
    )


GOOD = "rules: [gap near <= 0.1]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            GOOD + "languages: [en, no]\n",
            'line 2: YAML reads no as a truth value; expected text: write it in quotes, "no"',
        ),
        (GOOD + "on: 1\n", "line 2: YAML reads on as a truth value"),
        (GOOD + "undecided: on\n", "line 2: YAML reads on as a truth value"),
        (GOOD + "languages: [2:4]\n", 'line 2: YAML reads 2:4 as a number or a date; .* in quotes, "2:4"'),
        (GOOD + "max_left_out: 1:30\n", "line 2: YAML reads 1:30 as a number"),
        (GOOD + "max_left_out: 010\n", "YAML reads 010 as a number"),
        (GOOD + "max_left_out: .nan\n", "YAML reads .nan as a number"),
        (GOOD + "languages: [2024-01-01]\n", "YAML reads 2024-01-01 as a number or a date"),
        ("rules: [no]\n", "line 1: YAML reads no as a truth value"),
        ("rules: [2:4]\n", "line 1: YAML reads 2:4"),
        ("rules: [0.1]\n", "rules.0: input should be a valid string, found 0.1; a rule with a colon"),
        ("rules:\n - gap near <= 0.1, dataset: x\n", "rules.0: input should be a valid string, found .*wants quotes"),
        (GOOD + GOOD, "line 1: rules stands twice: expected each key once"),
        ("rules: &a [gap near <= 0.1]\nlanguages: *a\n", r"an alias \(\*name\): expected every rule written out"),
        ("rules: []\n", "rules: list should have at least 1 item"),
        ("languages: [en]\n", "rules is missing; expected a list such as"),
        (GOOD + "undecied: pass\n", "unknown key undecied; expected some of rules, undecided, languages, max_left_out"),
        (GOOD + "undecided: maybe\n", "undecided: input should be 'undecided', 'pass' or 'fail'"),
        (GOOD + "max_left_out: 1.0\n", "max_left_out: input should be less than 1"),
        ("rules: [gap near <= 0.1, certain]\n", "rule 2: 'certain' is no rule"),
        ("rules: [gap near <= 5]\n", "gate.yaml: rule 1: limit 5"),
        ("rules: [gap near <= 0.1, gap <= 0.1]\n", "the rule 'gap near <= 0.1, certain, overall' stands twice"),
        (GOOD + "languages: [en, en]\n", "the language 'en' stands twice"),
        ("", "holds a NoneType; expected keys such as rules:"),
        ("- gap near <= 0.1\n", "holds a list"),
        ("rules: [", "cannot be read .* expected a YAML file"),
        ("rules: !!python/object/apply:os.system [x]\n", "cannot be read"),
        ("a: " + "[" * 1000, "cannot be read"),
    ],
)
def test_a_trap_is_refused(tmp_path, text, said):
    path = written(tmp_path, text)
    with pytest.raises(IllusionError, match=said) as caught:
        read_rules(path, [])
    assert re.match(rf"{re.escape(str(path))}: ", str(caught.value))


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(IllusionError, match="cannot be read"):
        read_rules(tmp_path / "none.yaml", [])
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(IllusionError, match="cannot be read"):
        read_rules(tmp_path / "bytes.yaml", [])


def test_no_rule_is_no_pass():
    with pytest.raises(IllusionError, match=r"no rule given; expected --rules gate\.yaml or --fail-if"):
        read_rules(None, [])
    with pytest.raises(IllusionError, match="--fail-if: 'x' is no rule"):
        read_rules(None, ["x"])
