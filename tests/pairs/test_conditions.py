"""The table of conditions: what hangs together does."""

from lm_eval_illusion.pairs.conditions import CONDITIONS, GROUPS, HALVES, PROBE_GROUPS
from lm_eval_illusion.pairs.display import DISPLAYS
from lm_eval_illusion.pairs.probes import EXTRAS


def test_the_halves_come_first_and_every_other_condition_is_a_probe_with_rows():
    assert tuple(CONDITIONS)[:3] == HALVES
    assert [*HALVES, *EXTRAS] == list(CONDITIONS)


def test_groups_cover_the_conditions_once():
    assert [name for members in GROUPS.values() for name in members] == list(CONDITIONS)
    assert GROUPS["beam"] == ("beam4", "beam8")
    assert GROUPS["closed"] == ("closed_mc", "closed_gen")
    assert set(GROUPS) - set(PROBE_GROUPS) == {*HALVES, "rank_spans", "revise1", "revise2"}


def test_recovering_probes():
    assert {name for name, c in CONDITIONS.items() if c.recovers} == {
        "beam4", "beam8", "sample", "oneshot", "shown", "shown_nogold", "revise1_gen", "revise2_gen",
    }  # fmt: skip


def test_earlier_answers_are_of_the_same_kind():
    fed = {name: c.answers_from for name, c in CONDITIONS.items() if c.answers_from}
    assert fed == {
        "revise1_mc": "mc",
        "revise1_gen": "gen",
        "revise2_mc": "revise1_mc",
        "revise2_gen": "revise1_gen",
    }
    assert all(CONDITIONS[name].kind == CONDITIONS[source].kind for name, source in fed.items())


def test_what_reads_the_pair_s_prompt_displays_nothing_else():
    shown_more = set(DISPLAYS) | {"oneshot"}
    assert shown_more == {name for name, c in CONDITIONS.items() if not c.same_prompt}
    assert {n for n, c in CONDITIONS.items() if c.needs_pruned_hf} == {"beam4", "beam8", "sample", "rank"}
