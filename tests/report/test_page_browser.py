"""The page in headless Chromium: filters, search, keys, links, and that nothing acts or leaves. See CONTRIBUTING.md."""

import json

import pytest
from chromium import Window
from selenium.webdriver.common.keys import Keys

from lm_eval_illusion.report.build import build_report
from lm_eval_illusion.report.page import render_page
from scripts.synthetic_runs import write_runs

ITEMS = 240


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return build_report(write_runs(tmp_path_factory.mktemp("runs"), ITEMS, probes=True, hostile=True))


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(report), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened():
    window = Window()
    yield window
    window.driver.quit()


@pytest.fixture
def window(opened, page):
    opened.open(page)
    return opened


def items(report, test):
    return [line for line in report.items if test(line)]


def shown(found):
    return f"{len(found)} of {ITEMS} items."


def test_filters_find_what_the_items_say(window, report):
    assert window.text("count") == shown(report.items)
    window.set("lang", "tydiqa ar")
    assert window.text("count") == shown(items(report, lambda i: i["language"] == "ar"))
    window.set("lang", "")
    window.set("run", "wanda 0.7")
    window.set("verdict", "demoted")
    found = items(report, lambda i: i["runs"]["wanda 0.7"]["verdict"] == "demoted")
    assert found
    assert window.text("count") == shown(found)
    window.set("verdict", "")
    window.set("options", "far")
    window.set("move", "both-recognition_only")
    quadrants = [("dense", "both"), ("wanda 0.7", "recognition_only")]
    found = items(report, lambda i: all(i["runs"][run]["quadrant_far"] == name for run, name in quadrants))
    assert found
    assert window.text("count") == shown(found)
    window.set("move", "")
    window.set("probe", "beam4-right")
    found = items(report, lambda i: i["runs"]["wanda 0.7"]["probes"]["beam4"]["right"])
    assert found
    assert window.text("count") == shown(found)


def test_search_looks_into_questions_passages_options_and_answers(window, report):
    for line in (report.items[0], report.items[130]):
        for text in (line["question"], line["passage"][20:60], line["far"]["choices"][1]):
            window.set("q", f" {text.upper()} ")
            assert window.text("count") == shown([line])
    window.set("q", "\\u202eevil")
    assert int(window.text("count").split()[0]) > 0
    window.set("q", "no such text anywhere")
    assert window.text("count") == shown([])


def test_clear_brings_all_items_back(window, report):
    window.set("lang", "tydiqa th")
    window.run("document.querySelector('#filters button[type=reset]').click()")
    assert window.driver.execute_async_script(
        "const done = arguments[0]; setTimeout(() => done(document.getElementById('count').innerText), 50)"
    ) == shown(report.items)


def test_only_rows_in_sight_are_in_the_page(window):
    assert window.run("return document.querySelectorAll('[role=option]').length") < 40
    assert window.run("return document.getElementById('spacer').offsetHeight") == ITEMS * 72


def test_keys_move_open_and_come_back(window):
    window.run("document.getElementById('list').focus()")
    window.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    picked = "const e = document.querySelector('[aria-selected=true]'); return [e.id, e.getAttribute('aria-posinset')]"
    assert window.run(picked) == ["row-1", "2"]
    assert window.run("return document.getElementById('list').getAttribute('aria-activedescendant')") == "row-1"
    window.press(Keys.END)
    assert window.run(picked) == [f"row-{ITEMS - 1}", str(ITEMS)]
    window.press(Keys.HOME, Keys.PAGE_DOWN, Keys.ARROW_UP)
    assert window.run("return document.activeElement.id") == "list"
    window.press(Keys.ENTER)
    assert window.run("return document.activeElement.id") == "detail"
    window.press(Keys.ESCAPE)
    assert window.run("return document.activeElement.id") == "list"


def test_the_first_tab_skips_to_the_report(window):
    window.press(Keys.TAB)
    assert window.run("return document.activeElement.className") == "skip"


def test_a_link_keeps_the_filter_and_the_item(window, page):
    window.set("lang", "tydiqa ar")
    window.set("q", "؟" if "؟" in window.text("items") else "?")
    window.run("document.getElementById('list').focus()")
    window.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    place = window.run("return location.hash")
    title, count = window.run("return document.querySelector('#detail h3').innerText"), window.text("count")
    window.open(page, place)
    assert window.run("return document.querySelector('#detail h3').innerText") == title
    assert window.text("count") == count
    assert window.run("return document.getElementById('f-lang').value") == "tydiqa ar"


def test_a_number_of_the_flow_shows_its_items(window, report):
    window.run("document.querySelector('a[href*=\"run=wanda%200.7&options=far&move=both-recognition_only\"]').click()")
    moves = report.file.comparisons[1].rows[0].contrast.far.transitions
    count = f"{moves['both']['recognition_only']} of {ITEMS} items."
    assert (
        window.driver.execute_async_script(
            "const done = arguments[0]; setTimeout(() => done(document.getElementById('count').innerText), 100)"
        )
        == count
    )
    assert window.run("return document.getElementById('f-run').value") == "wanda 0.7"


@pytest.mark.parametrize(
    "place", ["#items?lang=<b>&verdict=x&run=%E0%A4%A", "#items?item=nobody&q=%00", "#items?", "#gap"]
)
def test_a_damaged_link_shows_something_sensible(window, page, place):
    window.open(page, place)
    assert window.text("count").endswith(f"of {ITEMS} items.")


def test_an_item_is_shown_in_full(window, page, report):
    line = report.items[0]
    window.open(page, f"#items?item={line['item_id']}")
    detail = window.text("detail")
    for text in (line["question"], line["passage"], *line["near"]["choices"], *line["far"]["choices"]):
        assert " ".join(text.split()) in " ".join(detail.split())
    for words in (
        "dense",
        "wanda 0.5",
        "wanda 0.7",
        "open answer",
        "beam4: four beams",
        "log-probability per character",
    ):
        assert words in detail
    assert window.run("return document.querySelector('#detail mark').innerText") == line["gold"]


def test_text_runs_as_its_script_does(window, page, report):
    for language, direction in (("ar", "rtl"), ("th", "ltr")):
        line = items(report, lambda i, language=language: i["language"] == language)[0]
        window.open(page, f"#items?item={line['item_id']}")
        found = window.run(
            "const q = document.querySelector('#detail .foreign'); "
            "return [q.innerText, q.dir, q.matches(':dir(rtl)') ? 'rtl' : 'ltr']"
        )
        assert found == [line["question"], "auto", direction]


def test_hostile_answers_stay_text_and_nothing_leaves(window, page, report):
    window.driver.get_log("browser")
    window.driver.get_log("performance")
    window.open(page)
    title = window.driver.title
    for line in items(report, lambda i: int(i["item_id"][-6:]) % 4 == 1)[:12]:
        window.open(page, f"#items?item={line['item_id']}")
        assert "open answer" in window.text("detail")
    assert window.driver.title == title
    assert window.run("return document.querySelectorAll('#detail script, #detail img, #detail svg').length") == 0
    assert [entry for entry in window.driver.get_log("browser") if entry["level"] != "INFO"] == []
    events = [json.loads(entry["message"])["message"] for entry in window.driver.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert {url.partition("#")[0] for url in asked} <= {page.as_uri(), "about:blank"}


def test_colours_follow_the_system_and_the_choice(window):
    ground = "return getComputedStyle(document.body).backgroundColor"
    mark = "return getComputedStyle(document.querySelector('#gap svg path[stroke*=c0]')).stroke"
    found = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        found.append((window.run(ground), window.run(mark)))
    assert found == [("rgb(255, 255, 255)", "rgb(6, 153, 245)"), ("rgb(20, 24, 29)", "rgb(27, 245, 191)")]
    window.run(
        "theme = document.getElementById('theme'); theme.value = 'light'; theme.dispatchEvent(new Event('change'))"
    )
    assert window.run(ground) == "rgb(255, 255, 255)"


def test_no_page_is_wider_than_a_phone(page):
    window = Window()
    try:
        size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        window.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        window.open(page, "#items?item=tydiqa/sw/000017")
        assert window.run("return document.documentElement.scrollWidth") == 390
    finally:
        window.driver.quit()
