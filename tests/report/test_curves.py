"""Points of right answers against sparsity, worked out by hand; no run is lost and none is moved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Question, pattern, receipt, write_run

from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.curves import gather_curves
from lm_eval_illusion.report.measures import DistanceFigures, Estimate, ModelFigures
from lm_eval_illusion.report.naming import distinguish, numbered, pattern_family, settings_of, structured
from lm_eval_illusion.report.numbers import interval
from lm_eval_illusion.report.render.curve_tables import curve_tables
from lm_eval_illusion.report.schema import Comparison, PruningSummary, Row, RunSummary

DENSE = "bbbbrrgn"  # R 6/8, G 5/8


def sweep(tmp_path, *points, dense=DENSE, **fields):
    """A report of a dense run and points (letters, receipt)."""
    runs = [write_run(tmp_path / "dense", pattern(dense, **fields), pruning=receipt("none", 0.0))]
    for number, (letters, pruning) in enumerate(points):
        runs.append(write_run(tmp_path / f"run{number}", pattern(letters, **fields), pruning=pruning))
    return build_report(runs).file


def points_of(file, panel=0):
    """name -> [(run, sparsity, near, far, generation)]."""
    curves = file.curves
    return {
        curves.lines[line.line].name: [
            (p.run, p.sparsity, *(None if e is None else e.value for e in (p.near, p.far, p.generation)))
            for p in line.points
        ]
        for line in curves.panels[panel].lines
    }


def test_points_stand_where_the_tables_say(tmp_path):
    file = sweep(
        tmp_path,
        ("bbbrrrnn", receipt("wanda", 0.4)),
        ("brrnrngn", receipt("magnitude", 0.5)),
        ("rrnnnnnn", receipt("wanda", 0.6)),
    )
    assert points_of(file) == {
        "wanda": [("wanda 0.4", 0.4, 0.75, 0.75, 0.375), ("wanda 0.6", 0.6, 0.25, 0.25, 0.0)],
        "magnitude": [("magnitude 0.5", 0.5, 0.5, 0.5, 0.25)],
    }
    panel = file.curves.panels[0]
    assert (panel.scope, panel.chance, panel.decided) == ("overall", {"near": 0.25, "far": 0.25}, False)
    assert (panel.dense.sparsity, panel.dense.near.value, panel.dense.generation.value) == (0.0, 0.75, 0.625)
    assert panel.lines[0].points[1].generation == file.comparisons[2].rows[0].pruned.generation
    assert [(m.sparsity, m.runs, m.near, m.generation) for m in panel.lines[0].means] == [
        (0.4, 1, 0.75, 0.375),
        (0.6, 1, 0.25, 0.0),
    ]
    assert [p.scope for p in file.curves.panels] == ["overall", "language"]


def test_one_sparsity_a_method_is_no_curve(tmp_path):
    file = sweep(tmp_path, (DENSE, receipt("wanda", 0.5)), (DENSE, receipt("magnitude", 0.6)))
    assert file.curves is None
    assert curve_tables(file.curves) == []


def test_two_seeds_of_one_sparsity_are_no_curve(tmp_path):
    assert sweep(tmp_path, *((DENSE, receipt("wanda", 0.5, prune_seed=seed)) for seed in (0, 1))).curves is None


def test_patterns_stand_at_one_minus_n_over_m(tmp_path):
    file = sweep(
        tmp_path,
        ("bbbbrrnn", receipt("wanda", 0.75, pattern="1:4")),
        ("bbbbrnnn", receipt("wanda", 0.5, pattern="2:4")),
        ("bbbbnnnn", receipt("wanda", 0.5, pattern="4:8")),
        ("bbbbbbbb", receipt("wanda", 0.5)),
    )
    assert points_of(file) == {
        "wanda n:4": [("wanda 1:4", 0.75, 0.75, 0.75, 0.5), ("wanda 2:4", 0.5, 0.625, 0.625, 0.5)],
        "wanda 4:8": [("wanda 4:8", 0.5, 0.5, 0.5, 0.5)],
        "wanda": [("wanda 0.5", 0.5, 1.0, 1.0, 1.0)],
    }
    assert [mean.sparsity for mean in file.curves.panels[0].lines[0].means] == [0.5, 0.75]
    assert [(line.method, line.pattern) for line in file.curves.lines] == [
        ("wanda", "n:4"),
        ("wanda", "n:8"),
        ("wanda", "unstructured"),
    ]
    cells = [row[0] for row in curve_tables(file.curves)[0].rows]
    assert cells == ["dense", "wanda n:4 0.5 (2:4)", "wanda n:4 0.75 (1:4)", "wanda 4:8 0.5", "wanda 0.5"]


def test_a_pattern_and_a_share_are_two_sparsities(tmp_path):
    file = sweep(tmp_path, (DENSE, receipt("wanda", 0.5, pattern="2:4")), (DENSE, receipt("wanda", 0.6)))
    assert [line.name for line in file.curves.lines] == ["wanda 2:4", "wanda"]


def test_seeds_are_points_of_one_line_with_their_mean(tmp_path):
    file = sweep(
        tmp_path,
        ("bbbbrrnn", receipt("wanda", 0.5, prune_seed=0)),
        ("bbnnnnnn", receipt("wanda", 0.5, prune_seed=7)),
        ("bnnnnnnn", receipt("wanda", 0.6, prune_seed=0)),
    )
    line = file.curves.panels[0].lines[0]
    assert [(p.run, p.seed) for p in line.points] == [
        ("wanda 0.5 seed 0", 0),
        ("wanda 0.5 seed 7", 7),
        ("wanda 0.6", 0),
    ]
    assert [(m.sparsity, m.runs, m.near, m.far, m.generation) for m in line.means] == [
        (0.5, 2, 0.5, 0.5, 0.375),
        (0.6, 1, 0.125, 0.125, 0.125),
    ]
    table = curve_tables(file.curves)[0]
    assert table.rows[1] == ["wanda 0.5", "2", *["0.50 (0.25 to 0.75)"] * 2, "0.38 (0.25 to 0.50)"]
    assert "Several runs of one point: mean (least to greatest)." in table.note


def test_settings_make_lines_and_only_what_differs_is_named(tmp_path):
    other = {**receipt("wanda", 0.5)["calibration"], "source": "/data/my/texts"}
    file = sweep(
        tmp_path,
        (DENSE, receipt("wanda", 0.5)),
        (DENSE, receipt("wanda", 0.6)),
        (DENSE, receipt("wanda", 0.5, allocation="owl")),
        (DENSE, receipt("wanda", 0.5, sequential="block")),
        (DENSE, {**receipt("wanda", 0.5), "calibration": other}),
    )
    assert [run.label for run in file.runs] == [
        "dense",
        "wanda 0.5 calibration builtin",
        "wanda 0.6",
        "wanda 0.5 owl calibration builtin",
        "wanda 0.5 order block calibration builtin",
        "wanda 0.5 calibration my_texts",
    ]
    assert [line.name for line in file.curves.lines] == [
        "wanda calibration builtin",
        "wanda owl calibration builtin",
        "wanda order block calibration builtin",
        "wanda calibration my/texts",
    ]
    assert [len(line.points) for line in file.curves.panels[0].lines] == [2, 1, 1, 1]


def test_usual_settings_are_the_same_as_unsaid_ones():
    said = {"allocation": "uniform", "sequential": "weight", "calibration_dtype": "model", "calibration_languages": []}
    calibration = {"source": "c4", "rows": 128, "length": 2048}
    assert settings_of(said, calibration) == settings_of({}, calibration) == {"calibration": "c4", "rows": "128 x 2048"}
    unusual = {"calibration_dtype": "bfloat16", "calibration_languages": ["en", "sw"], "allocation": "owl"}
    assert settings_of(unusual, {"source": "c4"}) == {
        "allocation": "owl",
        "calibration": "c4",
        "languages": "en+sw",
        "dtype": "bfloat16",
    }
    assert settings_of(unusual, {}) == {"allocation": "owl"}  # a method that needs no calibration


@pytest.mark.parametrize(
    ("text", "pair", "family"),
    [
        ("2:4", (2, 4), "n:4"),
        ("0:4", (0, 4), "n:4"),
        ("5:4", None, "5:4"),
        ("0:0", None, "0:0"),
        ("unstructured", None, "unstructured"),
        (None, None, "unstructured"),
        ("²:4", None, "²:4"),
        ("2:4\n", None, "2:4\n"),
    ],
)
def test_patterns_are_read(text, pair, family):
    assert (structured(text), pattern_family(text)) == (pair, family)


def test_runs_that_stand_on_no_curve_are_named(tmp_path):
    runs = [write_run(tmp_path / "dense", pattern(DENSE))]
    for number, sparsity in enumerate((0.5, 0.6)):
        runs.append(write_run(tmp_path / f"w{number}", pattern(DENSE), pruning=receipt("wanda", sparsity)))
    runs.append(write_run(tmp_path / "exported", pattern(DENSE), config={"model": "hf", "illusion": None}))
    runs.append(write_run(tmp_path / "again", pattern(DENSE), pruning=receipt("none", 0.0)))
    unknown = {**receipt("wanda"), "sparsity_asked": None, "sparsity_reached": None}
    runs.append(write_run(tmp_path / "unknown", pattern(DENSE), pruning=unknown))
    curves = build_report(runs).file.curves
    assert [(left.run, left.why) for left in curves.left_out] == [
        ("exported", "no pruning receipt: another backend"),
        ("dense #2", "not pruned"),
        ("wanda 0.5 #2", "its receipt tells no sparsity"),
    ]
    assert "Not on a curve: exported (no pruning receipt: another backend)." in curve_tables(curves)[0].note


def test_near_is_never_shown_without_far(tmp_path):
    runs = []
    for name, pruning in (("a", None), ("b", receipt("wanda", 0.5)), ("c", receipt("wanda", 0.6))):
        runs.append(write_run(tmp_path / name, pattern(DENSE), pruning=pruning, conditions=("mc", "gen")))
    file = build_report(runs).file
    panel = file.curves.panels[0]
    assert (panel.missing, panel.chance, panel.dense.near) == (["mc_far"], {}, None)
    assert points_of(file) == {"wanda": [("wanda 0.5", 0.5, None, None, 0.625), ("wanda 0.6", 0.6, None, None, 0.625)]}
    written = interval(file.comparisons[0].rows[0].pruned.generation)
    assert curve_tables(file.curves)[0].rows[1] == ["wanda 0.5", "1", "–", "–", written]


def test_a_run_without_generation_has_both_distances(tmp_path):
    runs = []
    for name, pruning in (("a", None), ("b", receipt("wanda", 0.5)), ("c", receipt("wanda", 0.6))):
        runs.append(write_run(tmp_path / name, pattern(DENSE), pruning=pruning, conditions=("mc", "mc_far")))
    file = build_report(runs).file
    assert points_of(file)["wanda"][0] == ("wanda 0.5", 0.5, 0.75, 0.75, None)


def test_each_language_has_a_panel_and_a_column(tmp_path):
    def questions(english, swahili):
        return [*pattern(english, language="en"), *pattern(swahili, language="sw")]

    runs = [write_run(tmp_path / "a", questions("bbbb", "rrrr"))]
    for sparsity, letters in ((0.5, "bbrr"), (0.6, "nnnr")):
        runs.append(
            write_run(tmp_path / f"w{sparsity}", questions(letters, "rrnn"), pruning=receipt("wanda", sparsity))
        )
    file = build_report(runs).file
    assert [(p.scope, p.language) for p in file.curves.panels] == [
        ("overall", None),
        ("language", "en"),
        ("language", "sw"),
    ]
    assert [points_of(file, panel)["wanda"][1][2:] for panel in range(3)] == [
        (0.375, 0.375, 0.0),
        (0.25, 0.25, 0.0),
        (0.5, 0.5, 0.0),
    ]
    table = curve_tables(file.curves)[1]
    assert (table.columns, table.brief) == (["line and sparsity", "tydiqa en *", "tydiqa sw *"], False)
    assert table.rows == [
        ["dense", "1.00 / 1.00 / 1.00", "1.00 / 1.00 / 0.00"],
        ["wanda 0.5", "1.00 / 1.00 / 0.50", "0.50 / 0.50 / 0.00"],
        ["wanda 0.6", "0.25 / 0.25 / 0.00", "0.50 / 0.50 / 0.00"],
    ]


def test_many_languages_make_several_tables(tmp_path):
    def questions(letters):
        return [q for number in range(13) for q in pattern(letters, language=f"l{number:02}")]

    runs = [write_run(tmp_path / "a", questions("br"))]
    runs += [write_run(tmp_path / f"w{s}", questions("rn"), pruning=receipt("wanda", s)) for s in (0.5, 0.6)]
    tables = curve_tables(build_report(runs).file.curves)
    assert [len(table.columns) for table in tables] == [5, 7, 7, 2]


def test_runs_with_other_items_say_how_many(tmp_path):
    runs = [write_run(tmp_path / "a", pattern("bbbbrrrr"))]
    for sparsity, count in ((0.5, 6), (0.6, 8)):
        runs.append(write_run(tmp_path / f"w{count}", pattern("bbbbrrrr"[:count]), pruning=receipt("wanda", sparsity)))
    panel = build_report(runs).file.curves.panels[0]
    assert (panel.dense.joined, panel.dense.generation.value) == (8, 0.5)  # the fullest comparison's
    assert [point.joined for point in panel.lines[0].points] == [6, 8]
    note = curve_tables(build_report(runs).file.curves)[0].note
    assert "Each point has the items that it shares with the dense run: 6 to 8." in note


def test_a_language_wholly_excluded_keeps_an_empty_panel(tmp_path):
    def questions():
        gone = [Question(n, language="sw", valid=False, invalid_reason="does_not_fit") for n in range(2)]
        return [*pattern("bbrn"), *gone]

    runs = [write_run(tmp_path / "a", questions())]
    runs += [write_run(tmp_path / f"w{s}", questions(), pruning=receipt("wanda", s)) for s in (0.5, 0.6)]
    file = build_report(runs).file
    assert (file.curves.panels[2].language, file.curves.panels[2].dense) == ("sw", None)
    assert points_of(file, 2)["wanda"][0] == ("wanda 0.5", 0.5, None, None, None)
    assert curve_tables(file.curves)[1].rows[0] == ["dense", "0.75 / 0.75 / 0.50", "–"]
    write_report(build_report(runs), tmp_path / "out")
    assert "no items to compare" in (tmp_path / "out" / "curves.svg").read_text(encoding="utf-8")


def test_a_pruned_first_run_stands_at_its_own_sparsity(tmp_path):
    runs = [write_run(tmp_path / "a", pattern("bbbb"), pruning=receipt("wanda", 0.4))]
    runs.append(write_run(tmp_path / "b", pattern("bbrr"), pruning=receipt("wanda", 0.6)))
    file = build_report(runs).file
    assert file.curves.panels[0].dense is None
    assert points_of(file)["wanda"] == [("wanda 0.4", 0.4, 1.0, 1.0, 1.0), ("wanda 0.6", 0.6, 1.0, 1.0, 0.5)]
    assert [row[0] for row in curve_tables(file.curves)[0].rows] == ["wanda 0.4", "wanda 0.6"]


def estimate(value):
    return Estimate(value=value, low=None, high=None, items=4, clusters=4)


def model(value):
    distance = DistanceFigures.model_construct(accuracy=estimate(value), chance=0.25)
    return ModelFigures.model_construct(near=distance, far=distance, generation=estimate(value))


def summary(method, sparsity, shape, seed, number):
    pruning = PruningSummary.model_construct(
        method=method, pattern=shape, sparsity_asked=sparsity, sparsity_reached=sparsity, seed=seed, settings={}
    )
    return RunSummary.model_construct(label=f"run {number}", pruning=pruning)


def comparison(value):
    row = Row.model_construct(
        scope="overall", dataset=None, language=None, joined=4, decided=True, missing=[], dense=model(1.0)
    )
    return Comparison.model_construct(rows=[row.model_copy(update={"pruned": model(value)})])


POINTS = st.lists(
    st.tuples(
        st.sampled_from(["wanda", "magnitude"]),
        st.sampled_from([0.1, 0.25, 0.5, 0.75]),
        st.sampled_from(["unstructured", "2:4", "1:4", "4:8"]),
        st.integers(0, 2),
        st.floats(0, 1),
    ),
    min_size=1,
    max_size=12,
)


@given(POINTS)
def test_every_run_stands_on_one_line_at_its_own_value(points):
    runs = [RunSummary.model_construct(label="dense", pruning=None)]
    runs += [summary(*point[:4], number) for number, point in enumerate(points)]
    curves = gather_curves(runs, [comparison(point[4]) for point in points])
    stood = [(method, structured(shape), sparsity) for method, sparsity, shape, _, _ in points]
    places = {(method, 1 - pair[0] / pair[1] if pair else sparsity) for method, pair, sparsity in stood}
    if all(sum(other[0] == method for other in places) == 1 for method, _ in places):
        assert curves is None
        return
    found = {p.run: p for line in curves.panels[0].lines for p in line.points}
    assert sum(len(line.points) for line in curves.panels[0].lines) == len(points) == len(found)
    for number, point in enumerate(points):
        pair = structured(point[2])
        assert found[f"run {number}"].sparsity == (1 - pair[0] / pair[1] if pair else point[1])
        assert found[f"run {number}"].near.value == point[4]
    for line in curves.panels[0].lines:
        assert len({mean.sparsity for mean in line.means}) == len(line.means)
        assert sum(mean.runs for mean in line.means) == len(line.points)
        for mean in line.means:
            here = [p.near.value for p in line.points if p.sparsity == mean.sparsity]
            assert min(here) - 1e-12 <= mean.near <= max(here) + 1e-12
    assert len({line.name for line in curves.lines}) == len(curves.lines)


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=9))
def test_numbered_names_are_distinct_and_kept_in_order(names):
    found = numbered(names)
    assert len(set(found)) == len(names)
    assert [name.split(" #")[0] for name in found] == names


def test_names_tell_only_what_differs():
    settings = [
        {"calibration": "c4", "rows": "8 x 512"},
        {"calibration": "c4", "rows": "16 x 512"},
        {"allocation": "owl"},
    ]
    assert distinguish(["wanda", "wanda", "magnitude"], settings) == ["rows 8 x 512", "rows 16 x 512", "owl"]
