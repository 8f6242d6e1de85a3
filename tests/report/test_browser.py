"""The page in a real browser: no errors, no network, it sorts, changes its theme and downloads."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kdey import Options, make_report
from kdey.report import Report

from .cases import HOSTILE, HOSTILE_KEY, full_report, group_rows, relabelled, weeks

pytest.importorskip("jinja2")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="browser tests need playwright: pip install 'kdey[test]'"
)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="browser tests need Chromium: apt-get install chromium"
)
CASES = [(3, "groups"), (3, "time"), (30, "groups"), (30, "time")]
FIGURES = {"fit", "reliability"}


class Watched:
    """A page, what it said, and what it asked the network for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: Path) -> None:
        self.page.goto(path.as_uri())
        # Opening the file is the one request there may be; data addresses stay inside the page.
        self.asked = [url for url in self.asked if not url.startswith(("data:", path.as_uri()))]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {key: full_report(*key).write(folder / f"{key[0]}-{key[1]}.html") for key in CASES}


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    page = browser.new_page(color_scheme="light", accept_downloads=True)
    yield Watched(page)
    page.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_page_opens_in_silence_with_every_figure(
    watched: Watched, pages: dict[tuple[int, str], Path], case: tuple[int, str]
) -> None:
    watched.open(pages[case])
    assert watched.said == []
    assert watched.asked == []
    page = watched.page
    drawings = page.locator("figure [role=img]:visible")
    assert {figure.get_attribute("id") for figure in drawings.all()} == FIGURES
    for figure in drawings.all():
        box = figure.bounding_box()
        assert box["width"] > 100
        assert box["height"] > 40
        assert figure.get_attribute("aria-label").strip()
    assert page.locator(".tools:visible").count() >= 1
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, "the page itself scrolls sideways"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_hostile_names_are_text(
    watched: Watched, pages: dict[tuple[int, str], Path], case: tuple[int, str]
) -> None:
    watched.open(pages[case])
    page = watched.page
    assert page.locator("main script:not([type='application/json']), main img, h1 b").count() == 0
    assert page.locator("script:not([type='application/json'])").count() == 1
    assert page.title() == f"Report <b>{case[0]}</b>"
    assert page.locator("#classes .name", has_text=HOSTILE).count() == 1
    assert page.locator("#group-rows tbody th", has_text=HOSTILE_KEY).count() > 0
    assert page.locator("#groups .name", has_text=HOSTILE_KEY).count() == 1
    assert HOSTILE in page.locator("#groups .pick").inner_text()


def test_tables_sort_by_pointer_and_by_keyboard_and_can_be_filtered(
    watched: Watched, pages: dict[tuple[int, str], Path]
) -> None:
    watched.open(pages[30, "groups"])
    page = watched.page
    heading = page.locator("#group-rows thead th").nth(3)

    def column() -> list[float]:
        cells = page.locator("#group-rows tbody tr > :nth-child(4)").all()
        return [float(cell.get_attribute("data-value")) for cell in cells]

    before = column()
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert column() == sorted(before, reverse=True)
    assert before != sorted(before, reverse=True)
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert column() == sorted(before)
    rows = page.locator("#group-rows tbody tr")
    assert rows.count() == 90
    page.locator("input[data-filter=group-rows]").fill("SOUTH")
    assert rows.locator("visible=true").count() == 30


def towns(focus: str) -> Report:
    """Return eight towns over twelve weeks, with gaps, one town that changed, and a small one."""
    rng = np.random.default_rng(0)
    keys = [(f"town {t}", w) for t in range(8) for w in weeks(12)]
    rows = group_rows(["town", "week"], keys, ["a", "b", "c"])
    for number in range(len(keys)):
        town, week = divmod(number, 12)
        a = 0.1 + 0.05 * town + 0.25 * (town == 2 and week > 5) + rng.normal(0, 0.01)
        for row, share in zip(rows[3 * number : 3 * number + 3], (a, 0.2, 0.8 - a), strict=True):
            row |= {"estimate": share, "low": share - 0.04, "high": share + 0.05}
            row["n"] = 9 if town == 5 else 120
            if (town, week) in ((1, 3), (1, 5)):
                row |= {"estimate": None, "low": None, "high": None, "status": "empty", "n": 0}
    options = Options(focus=focus)
    return make_report(rows, by=["town"], time="week", options=options, title="Towns")


#: What a reader sees of the rows: all texts, and all paths with what they are.
_DRAWN = """() => [...document.querySelectorAll("#groups tbody tr")].map((row) => [
  row.id, row.className, row.innerText,
  ...[...row.querySelectorAll("svg")].map((svg) => svg.getAttribute("viewBox")),
  ...[...row.querySelectorAll("path")].map((p) => p.getAttribute("class") + p.getAttribute("d"))])
  .concat([...document.querySelectorAll("#groups caption, #groups thead")].map((n) => n.innerText))
"""


def test_the_script_draws_what_python_draws(watched: Watched, tmp_path: Path) -> None:
    drawn = {}
    for label in "abc":
        watched.open(towns(label).write(tmp_path / f"{label}.html"))
        drawn[label] = watched.page.evaluate(_DRAWN)
    for label in "abc":  # On the page of "c", which is drawn by Python for "c".
        watched.page.locator("#groups .pick").select_option(label=label)
        assert watched.page.evaluate(_DRAWN) == drawn[label]
    assert drawn["a"] != drawn["b"]
    assert "h0" in str(drawn["a"]), "a single week between two gaps is a dot"
    assert watched.said == []


def test_rows_are_picked_sorted_and_searched(watched: Watched, tmp_path: Path) -> None:
    watched.open(towns("a").write(tmp_path / "towns.html"))
    page = watched.page

    def rows() -> list[str]:
        return [row.split()[1] for row in page.locator("#groups .name:visible").all_inner_texts()]

    assert rows() == ["2", "7", "6", "4", "3", "1", "0", "5"], "flagged first, small last"
    page.locator("#groups .sort").select_option("share")
    assert rows() == ["7", "6", "5", "2", "4", "3", "1", "0"]
    page.locator("#groups .sort").select_option("change")
    assert rows()[0] == "2"
    page.locator("#groups .sort").select_option("name")
    assert rows() == list("01234567")
    page.locator("#groups .sort").select_option("flag")
    assert rows() == ["2", "7", "6", "4", "3", "1", "0", "5"], "as Python sorts them"
    page.locator("#groups .find").fill("TOWN 3")
    assert rows() == ["3"]
    assert page.locator("#groups .count").inner_text() == "(1 of 8 rows)"
    page.locator(".findings a").first.click()
    assert len(rows()) == 8, "a link shows its row, though it was filtered away"
    assert page.evaluate("document.activeElement.id") == "groups-2"


def test_a_pointer_reads_a_time_and_covers_nothing(watched: Watched, tmp_path: Path) -> None:
    watched.open(towns("a").write(tmp_path / "towns.html"))
    page = watched.page
    row = page.locator("#groups-2")
    svg, said = row.locator(".time svg"), row.locator(".said")
    assert said.inner_text().startswith("week 13 of 2026: ")
    before = page.evaluate("document.querySelector('#groups table').getBoundingClientRect().height")
    svg.hover(position={"x": 1, "y": 10})
    assert re.fullmatch(
        r"week 2 of 2026: \d+\.\d\u00a0% \(\d+\.\d–\d+\.\d\), 120 records", said.inner_text()
    )
    after = page.evaluate("document.querySelector('#groups table').getBoundingClientRect().height")
    assert after == before, "nothing moves, and nothing lies on another row"
    assert page.locator("#groups .cursor").count() == 1
    page.mouse.move(0, 0)
    assert said.inner_text().startswith("week 13 of 2026: ")
    assert page.locator("#groups .cursor").count() == 0


def test_arrow_keys_go_through_rows_and_times(watched: Watched, tmp_path: Path) -> None:
    watched.open(towns("a").write(tmp_path / "towns.html"))
    page = watched.page
    active = "document.activeElement.id"
    assert page.locator("#groups tbody tr[tabindex='0']").count() == 1, "one stop for all rows"
    page.locator("#groups-2").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(active) == "groups-7"
    page.keyboard.press("End")
    assert page.evaluate(active) == "groups-5"
    page.keyboard.press("Home")
    assert page.evaluate(active) == "groups-2"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#groups-2 .said").inner_text().startswith("week 12 of 2026: ")
    assert page.locator("#groups .spoken").inner_text().startswith("week 12 of 2026: ")
    page.keyboard.press("ArrowDown")
    assert page.locator("#groups-2 .said").inner_text().startswith("week 13 of 2026: ")
    assert page.locator("#groups tbody tr[tabindex='0']").get_attribute("id") == "groups-7"


def test_panels_have_axes(watched: Watched, tmp_path: Path) -> None:
    watched.open(towns("a").write(tmp_path / "towns.html"))
    page = watched.page
    page.locator("#groups [value=panels]").check()
    axes = page.locator("#groups-2 .axis:visible")
    assert [mark.inner_text() for mark in axes.all()] == [
        *("0", "60\u00a0%", "week 2 of 2026", "week 13 of 2026")
    ]
    boxes = [row.bounding_box() for row in page.locator("#groups tbody tr").all()[:2]]
    assert boxes[0]["y"] == boxes[1]["y"], "panels stand beside each other"
    page.locator("#groups .pick").select_option(label="c")
    assert page.locator("#groups-2 .y1").inner_text() == "80\u00a0%"
    page.locator("#groups [value=table]").check()
    assert page.locator("#groups .axis:visible").count() == 0


def test_without_scripts_the_page_is_whole(browser: Any, tmp_path: Path) -> None:
    path = towns("a").write(tmp_path / "towns.html")
    page = browser.new_page(java_script_enabled=False)
    page.goto(path.as_uri())
    assert page.locator("#groups tbody tr:visible").count() == 8
    assert page.locator("#groups .said:visible").count() == 8
    assert page.locator(".tools:visible, #theme:visible").count() == 0
    page.close()


def test_the_policy_forbids_other_scripts_and_styles(watched: Watched, tmp_path: Path) -> None:
    watched.open(towns("a").write(tmp_path / "towns.html"))
    watched.page.evaluate(
        """() => {
        document.body.append(Object.assign(document.createElement("script"), {text: "hacked = 1"}));
        document.body.insertAdjacentHTML("beforeend", "<p id=styled style='color:red'>x</p>");
    }"""
    )
    assert watched.page.evaluate("window.hacked") is None
    colour = watched.page.evaluate("getComputedStyle(document.getElementById('styled')).color")
    assert colour != "rgb(255, 0, 0)"
    assert len([text for text in watched.said if "Content Security Policy" in text]) == 2


def test_the_theme_follows_the_system_and_the_button(
    browser: Any, pages: dict[tuple[int, str], Path]
) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(pages[3, "time"].as_uri())

    def paper() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = "rgb(255, 255, 255)", "rgb(20, 24, 29)"
    assert paper() == dark
    button = page.locator("#theme")
    button.focus()
    page.keyboard.press("Enter")
    assert (button.inner_text(), paper()) == ("Theme: light", light)
    page.reload()
    assert paper() == light, "the choice is forgotten"
    page.emulate_media(color_scheme="light")
    button.click()
    assert (button.inner_text(), paper()) == ("Theme: dark", dark)
    page.emulate_media(media="print")
    assert paper() == light
    assert not button.is_visible()
    page.close()


def test_files_can_be_downloaded(watched: Watched, pages: dict[tuple[int, str], Path]) -> None:
    watched.open(pages[3, "time"])
    page = watched.page

    def fetched(name: str) -> str:
        with page.expect_download() as held:
            page.locator(f"a[download='{name}']").click()
        assert held.value.suggested_filename == name
        return Path(held.value.path()).read_text(encoding="utf-8")

    rows = list(csv.DictReader(io.StringIO(fetched("classes.csv"))))
    assert rows[0]["class"] == HOSTILE
    assert sum(float(row["estimate"]) for row in rows) == pytest.approx(1)
    groups = list(csv.DictReader(io.StringIO(fetched("groups.csv"))))
    assert len(groups) == 30
    assert groups[-1]["region"] == HOSTILE_KEY
    whole = json.loads(fetched("report.json"))
    assert whole["estimate"]["classes"][0] == HOSTILE
    assert whole["groups"]["class"] == [row["class"] for row in groups]
    assert groups[0].keys() >= {"classify_and_count", "training_prevalence", "fit_p_value"}
    assert watched.said == []


@pytest.mark.parametrize("scripts", [True, False])
def test_a_large_file_comes_out_whole(browser: Any, tmp_path: Path, scripts: bool) -> None:
    rows = group_rows(["id"], [(n,) for n in range(400)], ["a", "日本"])
    report = make_report(rows, by=["id"])
    page = browser.new_page(java_script_enabled=scripts, accept_downloads=True)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(report.write(tmp_path / "r.html").as_uri())
    with page.expect_download() as held:
        page.locator("#files a").first.click()
    assert held.value.suggested_filename == ("groups.csv" if scripts else "groups.csv.gz")
    assert page.locator("#files a").first.inner_text() == held.value.suggested_filename
    data = Path(held.value.path()).read_bytes()
    text = (data if scripts else gzip.decompress(data)).decode()
    assert text == report.page().downloads["groups.csv"].text
    assert said == []
    page.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_long_names_fit_desks_and_phones(
    browser: Any, tmp_path: Path, case: tuple[int, str]
) -> None:
    k, kind = case
    labels = [
        "BARBUNYA WWWWWWWWWW",
        "日本語の名前" * 3,
        "Ünïcödé" * 9,
        *map(str, range(k)),
    ]
    keys = ["SOUTHERN HEMISPHERE", "東京都千代田区霞が関一丁目", "y" * 60]
    report = relabelled(full_report(k, kind), labels[:k], keys)
    page = browser.new_page()
    page.goto(report.write(tmp_path / "r.html").as_uri())
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(_TOO_WIDE) == []
    page.close()


#: Cells of the table to explore, and texts of figures, that stick out of the window.
_TOO_WIDE = """() => [...document.querySelectorAll(".explorer :is(th, td, select), .plot text")]
  .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
  .map((node) => [node.textContent.slice(0, 40), node.getBoundingClientRect().right])"""


#: Contrast of WCAG 2: the ratio of relative luminances of a text and what lies behind it.
_CONTRAST = """() => {
  const parts = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => {
    const [r, g, b] = parts(c).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const c = getComputedStyle(one).backgroundColor;
      const p = parts(c);
      if (p.length < 4 || p[3] > 0) return c;
    }
    return "rgb(255, 255, 255)";
  };
  const out = [];
  document.querySelectorAll("p, a, td, th, dt, dd, figcaption, button, caption, svg text, strong")
    .forEach((node) => {
      const style = getComputedStyle(node);
      const colour = node.closest("svg") ? style.fill : style.color;
      const [a, b] = [light(colour), light(behind(node))].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      if (ratio < 4.5) out.push([node.tagName, node.textContent.slice(0, 30), ratio]);
    });
  return out;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(
    browser: Any, pages: dict[tuple[int, str], Path], scheme: str
) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(pages[3, "groups"].as_uri())
    assert page.evaluate(_CONTRAST) == []
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_axe_finds_no_barrier(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="the check needs axe: pip install 'kdey[test]'",
    ).Axe()
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(towns("a").write(tmp_path / "r.html").as_uri())
    page.locator("#groups [value=panels]").check() if scheme == "dark" else None
    violations = axe.run(page).response["violations"]
    assert [(found["id"], found["nodes"][0]["html"][:200]) for found in violations] == []
    page.evaluate("document.querySelector('main').innerHTML = '<img src=\"data:,\">'")
    assert "image-alt" in [found["id"] for found in axe.run(page, "main").response["violations"]]
    page.close()


@pytest.mark.parametrize("case", [(3, "time"), (30, "groups")], ids=str)
def test_a_phone_shows_everything_and_paper_all_rows(
    browser: Any, pages: dict[tuple[int, str], Path], case: tuple[int, str]
) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 800})
    page.goto(pages[case].as_uri())
    assert page.evaluate(_TOO_WIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    sizes = "[...document.querySelectorAll('.plot text')].map(n => getComputedStyle(n).fontSize)"
    assert set(page.evaluate(sizes)) == {"12px"}, "letters do not shrink with the figure"
    rows = page.locator("#groups tbody tr").count()
    page.locator("#groups .find").fill("nothing") if rows > 5 else None
    page.emulate_media(media="print")
    assert page.locator("#groups tbody tr:visible").count() == rows
    assert page.locator(".tools:visible").count() == 0
    page.close()


def test_what_can_be_used_can_be_reached_by_keyboard(
    watched: Watched, pages: dict[tuple[int, str], Path]
) -> None:
    watched.open(pages[3, "groups"])
    page = watched.page
    unnamed = (
        "[...document.querySelectorAll('a, button, input, select')]"
        ".filter(n => n.tabIndex < 0).length"
    )
    assert page.evaluate(unnamed) == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator("table caption").count() == page.locator("table").count()
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(n => n.tagName)")
    first = levels.index("H3")
    assert levels[0] == "H1"
    assert set(levels[1:first]) == {"H2"}
    assert set(levels[first:]) == {"H3"}
