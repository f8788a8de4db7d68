"""What two runs of one model differ by: worked out by hand, refused where it is none, and left open by the gate."""

import json

import pytest
from synthetic import pattern, receipt, write_run

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.report.gate.conduct import run_gate
from lm_eval_illusion.report.gate.noise import NoiseFloor, measure_noise, read_noise
from lm_eval_illusion.report.gate.rule_file import Rules
from lm_eval_illusion.report.gate.rules import parse_rule

LATER = {"date": 1796036400.0}


def rules(*texts):
    return Rules(tuple(one for text in texts for one in parse_rule(text, "here")))


def twice(tmp_path, first, second, **kinds):
    write_run(tmp_path / "one", first)
    write_run(tmp_path / "two", second, **{"results": LATER, **kinds})
    return [tmp_path / "one", tmp_path / "two"]


def test_the_floor_by_hand(tmp_path):
    """100 items. Two go from both to recognition-only, one back, one from both to neither, one answer becomes empty.

    Near flips 1, generation flips 4 of 100. Gaps: 1 + 4 of 100. Recognition-only: 3 items moved in or out of it.
    Induced: 3 moves between both and recognition-only over the 80 that were both.
    """
    first, second = pattern("b" * 80 + "r" * 20), pattern("rrn" + "b" * 78 + "r" * 19)
    second[0].flags = {"empty": True}
    noise = measure_noise(twice(tmp_path, first, second))
    overall = noise.places[0]
    assert (overall.scope, overall.items, overall.clusters) == ("overall", 100, 100)
    assert overall.changed == {"near": 1, "far": 1, "generation": 4}
    expected = {
        **{
            f"{name} {distance}": value
            for distance in ("near", "far")
            for name, value in (
                ("gap", 0.05),
                ("excess gap", 0.05),
                ("recognition-only", 0.03),
                ("induced illusion", 3 / 80),
                ("MC drop", 0.01),
                ("flips", 0.01),
            )
        },
        "generation drop": 0.04,
        "flips generation": 0.04,
        "empty share": 0.01,
        "repeated share": 0.0,
    }
    assert overall.floors == {name: pytest.approx(value) for name, value in expected.items()}
    assert [(place.scope, place.language) for place in noise.places] == [("overall", None), ("language", "en")]


def test_a_deterministic_model_has_no_floor(tmp_path):
    noise = measure_noise(twice(tmp_path, pattern("b" * 40), pattern("b" * 40)))
    assert set(noise.places[0].floors.values()) == {0.0}


def test_the_gate_leaves_the_floor_open(tmp_path):
    paths = twice(tmp_path, pattern("b" * 100), pattern("r" * 3 + "b" * 97))
    (tmp_path / "noise.json").write_text(measure_noise(paths).model_dump_json(), encoding="utf-8")
    pruned = write_run(tmp_path / "pruned", pattern("r" * 18 + "b" * 82), pruning=receipt())
    given = rules("generation drop <= 0.09", "MC drop <= 0.1", "coverage >= 0.9")
    with_noise = run_gate([paths[0], pruned], given, tmp_path / "noise.json").lines
    without = run_gate([paths[0], pruned], given).lines
    assert [line.verdict for line in without] == ["fail", "pass", "pass", "pass"]
    assert [line.verdict for line in with_noise] == ["undecided", "pass", "pass", "pass"]
    assert with_noise[0].why == "the interval holds the limit, noise 0.03"


def test_noise_of_another_language_is_no_pass(tmp_path):
    paths = twice(tmp_path, pattern("b" * 60), pattern("b" * 60))
    (tmp_path / "noise.json").write_text(measure_noise(paths).model_dump_json(), encoding="utf-8")
    both = [*pattern("b" * 60), *pattern("b" * 60, language="sw")]
    for question in both:
        question.answer = "Paris"
    dense = write_run(tmp_path / "dense", both)
    pruned = write_run(tmp_path / "pruned", [*pattern("r" + "b" * 59), *pattern("b" * 60, language="sw")])
    lines = run_gate([dense, pruned], rules("generation drop <= 0.2, each language"), tmp_path / "noise.json").lines
    assert [(line.scope, line.verdict) for line in lines] == [("tydiqa/en", "pass"), ("tydiqa/sw", "undecided")]
    assert lines[1].why == "the noise file has no generation drop of tydiqa/sw"


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"results": {}}, "are one run .the same file, or a copy., which says nothing of noise"),
        ({"pruning": receipt()}, "spec_digest differs between .* expected two runs of one model"),
        ({"model": {"pretrained": "other/model"}}, "the model's pretrained differs"),
        ({"model": {"dtype": "float32"}}, "the model's dtype differs"),
        ({"config": {"model": "hf"}}, "the model differs"),
        ({"version": "2.0"}, "task .* has version 1.0 in"),
    ],
)
def test_what_is_no_second_run(tmp_path, kinds, said):
    paths = twice(tmp_path, pattern("b" * 40), pattern("b" * 40), **kinds)
    with pytest.raises(IllusionError, match=said):
        measure_noise(paths)


def test_a_rerun_elsewhere_is_a_second_run(tmp_path):
    paths = twice(tmp_path, pattern("b" * 40), pattern("b" * 40), model={"device": "cuda", "torch": "2.9"})
    assert measure_noise(paths).places[0].items == 40


def test_one_folder_twice_is_one_run(tmp_path):
    path = write_run(tmp_path / "one", pattern("b" * 40), results={"date": None})
    with pytest.raises(IllusionError, match="are one run"):
        measure_noise([path, path])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_two_runs_are_needed(tmp_path, count):
    with pytest.raises(IllusionError, match=rf"{count} run\(s\) given, expected two of one model"):
        measure_noise([tmp_path] * count)


def test_too_few_items_have_no_noise(tmp_path):
    with pytest.raises(IllusionError, match=r"29 items in 29 passages are shared by .* expected at least 30 in 8"):
        measure_noise(twice(tmp_path, pattern("b" * 29), pattern("b" * 29)))


def test_items_in_one_run_only_have_no_noise(tmp_path):
    with pytest.raises(IllusionError, match=r"5 items are in one of .* only; expected the same items in both"):
        measure_noise(twice(tmp_path, pattern("b" * 40), pattern("b" * 35)))


def test_a_noise_file_is_checked(tmp_path):
    paths = twice(tmp_path, pattern("b" * 40), pattern("b" * 40))
    file = tmp_path / "noise.json"
    good = json.loads(measure_noise(paths).model_dump_json())
    file.write_text(json.dumps(good), encoding="utf-8")
    assert read_noise(file) == NoiseFloor.model_validate(good)
    for change, said in (
        ({"schema_version": 2}, "no noise file"),
        ({"places": [{**good["places"][0], "floors": {"gap near": -1.0}}]}, "a floor below 0 or above 4"),
        ({"places": [{**good["places"][0], "floors": {"gap near": "0"}}]}, "valid number"),
        ({"surprise": 1}, "Extra inputs"),
    ):
        file.write_text(json.dumps({**good, **change}), encoding="utf-8")
        with pytest.raises(IllusionError, match=said):
            read_noise(file)
    with pytest.raises(IllusionError, match=r"expected what `lm-eval-illusion noise RUN RUN --out .*` writes"):
        read_noise(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"asked": {}}, r"\(all tasks differ\)"),
        ({"identity": {"pretrained": "other"}}, r"\(the model's pretrained differ\)"),
        (
            {"asked": {"tydiqa_mc_en": {"version": "9", "num_fewshot": 1, "generation": None}}},
            r"\(tydiqa_mc_en differ\)",
        ),
    ],
)
def test_noise_of_other_runs_is_refused(tmp_path, change, said):
    paths = twice(tmp_path, pattern("b" * 40), pattern("r" + "b" * 39))
    file = tmp_path / "noise.json"
    file.write_text(json.dumps({**json.loads(measure_noise(paths).model_dump_json()), **change}), encoding="utf-8")
    with pytest.raises(IllusionError, match=said):
        run_gate(paths, rules("generation drop <= 0.5"), file)
