"""Rules over a report: pass, fail or undecided, for people and for CI."""

from lm_eval_illusion.report.gate.conduct import Judgement, run_gate
from lm_eval_illusion.report.gate.judge import Line, exit_code, judge
from lm_eval_illusion.report.gate.noise import NoiseFloor, measure_noise
from lm_eval_illusion.report.gate.rule_file import Rules, read_rules
from lm_eval_illusion.report.gate.rules import Rule, parse_rule

__all__ = [
    "Judgement",
    "Line",
    "NoiseFloor",
    "Rule",
    "Rules",
    "exit_code",
    "judge",
    "measure_noise",
    "parse_rule",
    "read_rules",
    "run_gate",
]
