"""The page in a real browser: no errors, no network, it sorts, changes its theme and downloads."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from .cases import HOSTILE, HOSTILE_KEY, full_report, relabelled

pytest.importorskip("jinja2")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="browser tests need playwright: pip install 'kdey[test]'"
)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="browser tests need Chromium: apt-get install chromium"
)
TRIANGLES = {"region", *(f"simplex-{number}" for number in range(4))}
FIGURES = {
    (3, "groups"): {"prevalence", "groups", "fit", *TRIANGLES, "reliability", "confusion"},
    (3, "time"): {"prevalence", "time", "fit", *TRIANGLES, "reliability", "confusion"},
    (30, "groups"): {"prevalence", "groups", "fit", "reliability", "confusion"},
    (30, "time"): {"prevalence", "time", "fit", "reliability", "confusion"},
}


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
    return {key: full_report(*key).write(folder / f"{key[0]}-{key[1]}.html") for key in FIGURES}


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    page = browser.new_page(color_scheme="light", accept_downloads=True)
    yield Watched(page)
    page.close()


@pytest.mark.parametrize("case", FIGURES, ids=str)
def test_a_page_opens_in_silence_with_every_figure(
    watched: Watched, pages: dict[tuple[int, str], Path], case: tuple[int, str]
) -> None:
    watched.open(pages[case])
    assert watched.said == []
    assert watched.asked == []
    page = watched.page
    drawings = page.locator("figure svg[role=img]:visible")
    figures = {figure.get_attribute("id") for figure in drawings.all()}
    assert figures == FIGURES[case]
    for figure in drawings.all():
        box = figure.bounding_box()
        assert box["width"] > 100
        assert box["height"] > 40
        for part in figure.get_attribute("aria-labelledby").split():
            assert page.locator(f"#{part}").text_content().strip()
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, "the page itself scrolls sideways"


@pytest.mark.parametrize("case", FIGURES, ids=str)
def test_hostile_names_are_text(
    watched: Watched, pages: dict[tuple[int, str], Path], case: tuple[int, str]
) -> None:
    watched.open(pages[case])
    page = watched.page
    assert page.locator("main script, main img, h1 b").count() == 0
    assert page.locator("script").count() == 1
    assert page.title() == f"Report <b>{case[0]}</b>"
    assert page.locator("#classes tbody th", has_text=HOSTILE).count() == 1
    assert page.locator("#group-rows tbody th", has_text=HOSTILE_KEY).count() > 0
    assert HOSTILE in page.locator(".lead").inner_text() or case[0] == 30


def _column(page: Any, number: int) -> list[float]:
    cells = page.locator(f"#classes tbody tr > :nth-child({number + 1})")
    return [float(cell.get_attribute("data-value")) for cell in cells.all()]


def test_tables_sort_by_pointer_and_by_keyboard(
    watched: Watched, pages: dict[tuple[int, str], Path]
) -> None:
    watched.open(pages[30, "groups"])
    page = watched.page
    heading = page.locator("#classes thead th").nth(3)
    before = _column(page, 3)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert _column(page, 3) == sorted(before, reverse=True)
    assert before != sorted(before, reverse=True)
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert _column(page, 3) == sorted(before)
    first = page.locator("#classes thead th").nth(0)
    first.locator("button").press("Space")
    assert first.get_attribute("aria-sort") == "ascending"
    assert heading.get_attribute("aria-sort") is None
    labels = page.locator("#classes tbody th").all_inner_texts()
    assert labels[1:] == [f"class {number:02d}" for number in range(1, 30)]


def test_rows_can_be_filtered(watched: Watched, pages: dict[tuple[int, str], Path]) -> None:
    watched.open(pages[30, "groups"])
    page = watched.page
    rows = page.locator("#group-rows tbody tr")
    assert rows.count() == 90
    page.locator("input[data-filter=group-rows]").fill("SOUTH")
    assert rows.locator("visible=true").count() == 30


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


def test_figures_can_be_saved(watched: Watched, pages: dict[tuple[int, str], Path]) -> None:
    watched.open(pages[3, "groups"])
    page = watched.page

    def saved(kind: str) -> bytes:
        with page.expect_download() as held:
            page.locator(f"#groups-section button[data-format={kind}]").click()
        assert held.value.suggested_filename == f"groups.{kind}"
        return Path(held.value.path()).read_bytes()

    root = ElementTree.fromstring(saved("svg"))
    marks = root.findall(".//{http://www.w3.org/2000/svg}circle[@class='estimate']")
    assert len(marks) > 3
    assert "fill:rgb(11, 95, 165)" in marks[0].get("style", ""), "the colours go with the figure"
    assert saved("png").startswith(b"\x89PNG")
    assert watched.said == []
    assert watched.asked == []


#: Texts of drawings that stick out of them, by how many of the drawing's own units.
_CUT_OFF = """() => {
  const out = [];
  document.querySelectorAll("svg[role=img]").forEach((svg) => {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) return;
    svg.querySelectorAll("text").forEach((text) => {
      const box = text.getBoundingClientRect();
      const over = Math.max(frame.left - box.left, box.right - frame.right,
        frame.top - box.top, box.bottom - frame.bottom);
      if (over > 1) out.push([svg.id, text.textContent, over]);
    });
  });
  return out;
}"""


@pytest.mark.parametrize("case", FIGURES, ids=str)
def test_no_label_is_cut_off(browser: Any, tmp_path: Path, case: tuple[int, str]) -> None:
    k, kind = case
    labels = [
        "BARBUNYA WWWWWWWWWW",
        "日本語の名前" * 3,
        "Ünïcödé",
        *map(str, range(k)),
    ]
    keys = ["SOUTHERN HEMISPHERE", "東京都千代田区霞が関一丁目", "y"]
    report = relabelled(full_report(k, kind), labels[:k], keys)
    page = browser.new_page()
    page.goto(report.write(tmp_path / "r.html").as_uri())
    assert page.evaluate(_CUT_OFF) == []
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate(_CUT_OFF) == []
    page.close()


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
    page.goto(full_report(4, "groups").write(tmp_path / "r.html").as_uri())
    violations = axe.run(page).response["violations"]
    assert [(found["id"], found["nodes"][0]["html"][:200]) for found in violations] == []
    page.evaluate("document.querySelector('main').innerHTML = '<img src=\"data:,\">'")
    assert "image-alt" in [found["id"] for found in axe.run(page, "main").response["violations"]]
    page.close()


#: Drawings that are wider than the window, and texts of them that are smaller than so many pixels.
_TOO_SMALL = """() => {
  const out = [];
  document.querySelectorAll("figure svg[role=img]").forEach((svg) => {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) return;
    if (frame.right > innerWidth) out.push([svg.id, "wide", frame.right]);
    const scale = frame.width / svg.viewBox.baseVal.width;
    svg.querySelectorAll("text").forEach((text) => {
      const size = scale * parseFloat(getComputedStyle(text).fontSize);
      if (size < 9.5) out.push([svg.id, text.textContent, size]);
    });
  });
  return out;
}"""


@pytest.mark.parametrize("case", [(3, "time"), (30, "groups")], ids=str)
def test_a_phone_shows_whole_figures_in_readable_letters(
    browser: Any, pages: dict[tuple[int, str], Path], case: tuple[int, str]
) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 800})
    page.goto(pages[case].as_uri())
    assert page.evaluate(_TOO_SMALL) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    shown = page.locator("figure svg[role=img]:visible")
    assert "prevalence-narrow" in {svg.get_attribute("id") for svg in shown.all()}
    page.emulate_media(media="print")
    shown = page.locator("figure svg[role=img]:visible")
    assert "prevalence" in {svg.get_attribute("id") for svg in shown.all()}, "paper is not narrow"
    page.close()


def test_what_can_be_used_can_be_reached_by_keyboard(
    watched: Watched, pages: dict[tuple[int, str], Path]
) -> None:
    watched.open(pages[3, "groups"])
    page = watched.page
    unnamed = (
        "[...document.querySelectorAll('a, button, input')].filter(n => n.tabIndex < 0).length"
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
