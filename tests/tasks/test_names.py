"""Which tasks stand behind the names given to `--tasks`."""

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.names import all_groups, all_tasks, expand, with_all_halves


def test_a_group_of_one_condition():
    assert [(t.condition, t.language) for t in expand(["tydiqa_mc_letters"])] == [
        ("mc_letters", code) for code in ("ar", "bn", "en", "fi", "id", "ko", "ru", "sw", "te")
    ]


def test_a_group_of_two():
    assert [t.name for t in expand(["illusion_mini_beam"])][::8] == ["illusion_mini_beam4_ar", "illusion_mini_beam8_ar"]
    assert len(expand(["illusion_mini_beam"])) == 16


def test_the_probes_are_all_but_the_long_and_the_fed():
    asked = {t.condition for t in expand(["xquad_probes"])}
    assert asked == {
        "mc_letters", "mc_graded", "shown", "shown_nogold", "beam4", "beam8", "sample", "oneshot", "closed_mc",
        "closed_gen", "choices_only", "question_only", "rank",
    }  # fmt: skip
    assert len(expand(["xquad_probes"])) == 13 * 12


def test_patterns_and_names_of_others():
    assert {t.condition for t in expand(["tydiqa_revise1_*_sw"])} == {"revise1_mc", "revise1_gen"}
    assert expand(["hellaswag", "tydiqa"]) == []
    assert [t.name for t in expand(["tydiqa_gen_sw", "tydiqa_gen_s?"])] == ["tydiqa_gen_sw"]


def test_every_task_is_in_its_group_alone():
    groups = all_groups()
    single = [name for group, members in groups.items() if not group.endswith("_probes") for name in members]
    assert sorted(single) == sorted(all_tasks())


def test_a_data_set_means_its_three_halves():
    assert with_all_halves(["tydiqa"]) == ["tydiqa_mc", "tydiqa_mc_far", "tydiqa_gen"]
    assert with_all_halves(["tydiqa_sw"]) == ["tydiqa_mc_sw", "tydiqa_mc_far_sw", "tydiqa_gen_sw"]
    asked = ["tydiqa_beam", "xquad_probes", "tydiqa_beam4_sw", "tydiqa_gen"]
    assert with_all_halves(asked) == asked
    said = r"--tasks: unknown name 'tydiqa_beam2'\. Did you mean tydiqa_beam[48]?\? Expected a data set"
    with pytest.raises(IllusionError, match=said):
        with_all_halves(["tydiqa_beam2"])
