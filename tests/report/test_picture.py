"""curves.svg: where things stand, that it can be read by many eyes, and that foreign text stays inert."""

import math
import os
import re
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import pattern, receipt, write_run

from lm_eval_illusion.report import build_report, write_report
from lm_eval_illusion.report.render.frame import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from lm_eval_illusion.report.render.legend import COLOURS, GROUNDS, SHAPES, legend, style_of
from lm_eval_illusion.report.render.picture import render_picture

EXPECTED = Path(__file__).parent / "expected" / "sweep"
SVG = "{http://www.w3.org/2000/svg}"
FLOOR = HEIGHT - BOTTOM


@pytest.fixture
def sweep(tmp_path):
    """Five runs of one language: two sparsities, an n:m pattern and a second seed of Wanda."""
    points = [
        (receipt("wanda", 0.4), "bbbbbbbbrrrrrrrrgnnn"),
        (receipt("wanda", 0.5, prune_seed=0), "bbbbrrrrrrrrrrnnnnnn"),
        (receipt("wanda", 0.5, prune_seed=1), "bbbrrrrrrrrrrrnnnnnn"),
        (receipt("wanda", 0.5, pattern="2:4"), "brrrrrrrrrrrnnnnnnnn"),
        (receipt("magnitude", 0.5), "rrrrrrrrnnnnnnnnnnnn"),
    ]
    runs = []
    for number, (pruning, letters) in enumerate([(receipt("none", 0.0), "bbbbbbbbbbbbrrrrgnnn"), *points]):
        questions = pattern(letters * 2)
        for question in questions:
            question.far = question.near or question.number % 2 == 1
        runs.append(write_run(tmp_path / f"run{number}", questions, pruning=pruning))
    return build_report(runs)


def panels(text):
    return ET.fromstring(text).findall(f"{SVG}g")


def marks(panel):
    """Text of a mark -> (x, y, element)."""
    found = {}
    for path in panel.findall(f"{SVG}path"):
        x, y = map(float, re.match(r"translate\((\S+) (\S+)\)", path.get("transform")).groups())
        found[path.find(f"{SVG}title").text] = (x, y, path)
    return found


@pytest.mark.parametrize("name", ["report.md", "curves.svg"])
def test_a_sweep_is_as_expected(sweep, tmp_path, name):
    write_report(sweep, tmp_path / "out")
    written = (tmp_path / "out" / name).read_text(encoding="utf-8")
    if os.environ.get("REWRITE_EXPECTED"):
        EXPECTED.mkdir(parents=True, exist_ok=True)
        (EXPECTED / name).write_text(written, encoding="utf-8")
    assert written == (EXPECTED / name).read_text(encoding="utf-8")


def test_marks_stand_at_their_sparsity_and_share(sweep):
    text = render_picture(sweep.file.curves)
    assert len(panels(text)) == 1  # one language: overall would be the same again
    found = marks(panels(text)[0])
    assert len(found) == 3 * 6
    dense = next(value for key, value in found.items() if key.startswith("dense: generation 0.65"))
    one = next(value for key, value in found.items() if key.startswith("magnitude 0.5: MC far 0.70"))
    near = next(value for key, value in found.items() if key.startswith("wanda 0.4: MC near 0.80"))
    room = WIDTH - LEFT - RIGHT - 8  # 8 units before the dense model; the axis ends at 0.6
    assert dense[0] == LEFT + 8
    assert one[0] == pytest.approx(LEFT + 8 + room * 0.5 / 0.6, abs=4.1)  # lines are set apart by 4 units
    assert near[0] == pytest.approx(LEFT + 8 + room * 0.4 / 0.6, abs=4.1)
    for mark, share in ((dense, 0.65), (one, 0.7), (near, 0.8)):
        assert mark[1] == pytest.approx(TOP + (1 - share) * (FLOOR - TOP), abs=0.05)


def test_lines_differ_by_measure_and_go_through_means(sweep):
    text = render_picture(sweep.file.curves)
    traces = panels(text)[0].findall(f"{SVG}polyline")
    assert [trace.get("class").split() for trace in traces[:3]] == [
        ["line", "c0", "near"],
        ["line", "c0", "far"],
        ["line", "c0", "generation"],
    ]
    heights = [float(point.split(",")[1]) for point in traces[2].get("points").split()]
    shares = (0.65, 0.45, (0.2 + 0.15) / 2)  # dense, 0.4, the mean of two seeds
    assert heights == pytest.approx([TOP + (1 - share) * (FLOOR - TOP) for share in shares], abs=0.05)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert ".near { stroke-dasharray: 7 4 }" in style
    assert re.search(r"\.far \{ stroke-dasharray: \.1 4", style)


def test_patterns_are_hollow_and_seeds_small(sweep):
    found = marks(panels(render_picture(sweep.file.curves))[0])
    hollow = {key.split(":")[0] for key, value in found.items() if "hollow" in value[2].get("class")}
    small = {key.split(":")[0] for key, value in found.items() if "scale" in value[2].get("transform")}
    assert hollow == {"wanda 2"}
    assert small == {"wanda 0.5 seed 0", "wanda 0.5 seed 1"}
    assert "hollow: n:m pattern" in render_picture(sweep.file.curves)


def test_chance_is_drawn(sweep):
    lines = panels(render_picture(sweep.file.curves))[0].findall(f"{SVG}line[@class='chance']")
    assert [float(line.get("y1")) for line in lines] == [pytest.approx(TOP + 0.75 * (FLOOR - TOP), abs=0.05)]


def test_it_has_a_title_and_says_its_numbers(sweep):
    root = ET.fromstring(render_picture(sweep.file.curves))
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title description"
    assert root.find(f"{SVG}title").get("id") == "title"
    description = root.find(f"{SVG}desc")
    assert description.get("id") == "description"
    assert "dense: MC near 0.80, MC far 0.90, generation 0.65; wanda at sparsity 0.4: MC near 0.80" in description.text


def test_text_is_large_and_follows_the_page_s_theme(sweep):
    text = render_picture(sweep.file.curves)
    assert min(int(size) for size in re.findall(r"(\d+)px", text)) >= 11
    dark = text.split("@media (prefers-color-scheme: dark)")[1].split("</style>")[0]
    assert GROUNDS["dark"] in dark
    assert all(colour in dark for colour in COLOURS["dark"])
    assert ET.fromstring(text).find(f"{SVG}rect").get("class") == "ground"


def test_the_same_report_gives_the_same_bytes(sweep, tmp_path):
    for name in ("one", "two"):
        write_report(sweep, tmp_path / name)
    assert (tmp_path / "one" / "curves.svg").read_bytes() == (tmp_path / "two" / "curves.svg").read_bytes()
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "curves.svg",
        "items.jsonl",
        "report.json",
        "report.md",
    ]
    assert "](curves.svg)" in (tmp_path / "one" / "report.md").read_text(encoding="utf-8")


def test_an_older_picture_goes_when_there_are_no_curves(sweep, tmp_path):
    out = tmp_path / "out"
    write_report(sweep, out)
    one = write_run(tmp_path / "a", pattern("bbrn"))
    write_report(build_report([one, write_run(tmp_path / "b", pattern("brrn"), pruning=receipt())]), out)
    assert not (out / "curves.svg").exists()
    assert "curves.svg" not in (out / "report.md").read_text(encoding="utf-8")


def test_near_is_not_drawn_without_far(tmp_path):
    runs = []
    for name, pruning in (("a", None), ("b", receipt("wanda", 0.5)), ("c", receipt("wanda", 0.6))):
        runs.append(write_run(tmp_path / name, pattern("bbrn"), pruning=pruning, conditions=("mc", "gen")))
    (panel,) = panels(render_picture(build_report(runs).file.curves))
    assert {key.split(": ")[1].split()[0] for key in marks(panel)} == {"generation"}
    assert panel.findall(f"{SVG}line[@class='chance']") == []
    assert "MC far not measured: MC not drawn" in "".join(panel.itertext())


def test_foreign_names_stay_text(tmp_path):
    hostile = '<script>alert(1)</script>"&\x1b[2J\u202e\ufffe' + "x" * 200
    runs = [write_run(tmp_path / "a", pattern("bbrn"))]
    for sparsity in (0.5, 0.6):
        spec = receipt(hostile, sparsity, pattern=hostile, allocation=hostile)
        runs.append(write_run(tmp_path / f"w{sparsity}", pattern("bbrn"), pruning=spec))
    report = build_report(runs)
    text = render_picture(report.file.curves)
    root = ET.fromstring(text)  # well-formed
    assert root.findall(f".//{SVG}script") == []
    assert not set("\x1b\u202e\ufffe") & set(text)
    write_report(report, tmp_path / "out")
    assert "<script" not in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


@given(st.lists(st.text(max_size=80), min_size=1, max_size=40), st.floats(480, 1100), st.booleans())
def test_the_legend_names_every_line_within_its_width(names, width, structured):
    entries, height = legend(names, width, structured)
    methods = [entry for entry in entries if entry.style.startswith("c") and entry.measure is None]
    assert len(methods) == len(names)
    assert len({(entry.x, entry.y) for entry in entries}) == len(entries)
    assert all(0 <= entry.x < width and 0 < entry.y < height for entry in entries)


def test_thirty_lines_differ_by_colour_or_mark():
    assert len({style_of(line) for line in range(30)}) == 30
    assert len(SHAPES) == 5


def linear(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one, two):
    """Contrast ratio, WCAG 2."""
    lights = sorted(sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear(c), strict=True)) for c in (one, two))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


EYES = {  # Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def seen(colour, eye):
    """CIE L*a*b* (D65) of a colour as an eye sees it."""
    rgb = [min(1.0, max(0.0, part)) for part in times(EYES[eye], linear(colour))]
    x, y, z = (
        part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116
        for part in (value / white for value, white in zip(times(XYZ, rgb), (0.9505, 1, 1.089), strict=True))
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_ground(theme):
    assert min(contrast(colour, GROUNDS[theme]) for colour in COLOURS[theme]) >= 3


@pytest.mark.parametrize("eye", sorted(EYES))
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_differ_for_every_kind_of_eye(theme, eye):
    apart = {pair: math.dist(seen(pair[0], eye), seen(pair[1], eye)) for pair in combinations(COLOURS[theme], 2)}
    assert min(apart.values()) >= 20, min(apart, key=apart.get)
