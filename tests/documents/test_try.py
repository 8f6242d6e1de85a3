"""The page that answers in the browser: its answers are Python's, and it asks for nothing."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kdey import KDEyML
from tests.documents.pages import ROOT

TRY = ROOT / "docs" / "try"
NODE = shutil.which("node")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
#: Labels, their share of class 1, new items, their share, distance of the classes, bandwidth.
CASES = {
    "usual": (900, 0.5, 300, 0.2, 1.0, 0.1),
    "few labels": (16, 0.5, 40, 0.6, 1.0, 0.1),
    "rare class": (200, 0.3, 500, 0.0, 1.0, 0.05),
    "hard to tell apart": (400, 0.5, 200, 0.5, 0.1, 0.1),
    "more rows than spreads use": (4000, 0.4, 100, 0.9, 2.0, 0.1),
}
HARNESS = """
require({script});
const fs = require("fs");
eval(fs.readFileSync({core}, "utf8"));
(async () => {{
  const core = await kdeyTry.loadCore(kdeyTryData.core);
  const cases = JSON.parse(fs.readFileSync(0));
  console.log(JSON.stringify(cases.map(({{ scores, labels, sample, bandwidth }}) =>
    kdeyTry.estimate(kdeyTry.fit(core, scores, labels, bandwidth), sample))));
}})();
"""


def build_core() -> Any:
    if str(TRY) not in sys.path:
        sys.path.append(str(TRY))
    import build_core

    return build_core


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of the page."""
    if build_core().compiled_core() is None:
        pytest.skip("the core of the page needs Zig: `make docs`, or `pip install --group site`")
    folder = tmp_path_factory.mktemp("try")
    build_core().write(folder)
    return folder


def scored(rng: np.random.Generator, n: int, share: float, apart: float) -> Any:
    labels = np.arange(n) < round(n * share)
    return 1 / (1 + np.exp(-rng.normal(np.where(labels, apart, -apart)))), labels.astype(int)


def python_answer(case: dict[str, Any]) -> list[float]:
    scores, sample = np.array(case["scores"]), np.array(case["sample"])
    q = KDEyML(bandwidth=case["bandwidth"], kernel="gaussian")
    q.fit_posteriors(np.column_stack([1 - scores, scores]), case["labels"])
    estimate = q.estimate_posteriors(np.column_stack([1 - sample, sample]))
    return [estimate.estimate[1], estimate.low[1], estimate.high[1], (sample > 0.5).mean()]


def in_node(site: Path, cases: list[dict[str, Any]]) -> list[list[float]]:
    if NODE is None:
        pytest.skip("node is not installed")
    names = {"script": json.dumps(str(site / "try.js")), "core": json.dumps(str(site / "core.js"))}
    done = subprocess.run(
        [NODE, "-e", HARNESS.format(**names)],
        input=json.dumps(cases), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [[a["share"], a["low"], a["high"], a["count"]] for a in json.loads(done.stdout)]


@pytest.mark.filterwarnings("ignore")  # of few labels, and classes hard to tell apart
def test_answers_are_those_of_python(site: Path) -> None:
    rng, cases = np.random.default_rng(0), []
    for n, prior, m, share, apart, bandwidth in CASES.values():
        scores, labels = scored(rng, n, prior, apart)
        sample, _ = scored(rng, m, share, apart)
        parts = {"scores": scores, "labels": labels, "sample": sample}
        cases.append({"bandwidth": bandwidth, **{key: v.tolist() for key, v in parts.items()}})
    found = in_node(site, cases)
    for name, case, answer in zip(CASES, cases, found, strict=True):
        np.testing.assert_allclose(answer, python_answer(case), atol=1e-4, err_msg=name)


def test_page_is_small(site: Path) -> None:
    files = [site / name for name in ("core.js", "try.js", "try.css")]
    sizes = [len(gzip.compress(file.read_bytes())) for file in files]
    assert sum(sizes) + len(gzip.compress((TRY / "index.md").read_bytes())) < 150_000


def test_without_zig_the_page_says_what_is_missing() -> None:
    script = build_core().core_script(None)
    data = json.loads(script.partition(" = ")[2].rstrip(";\n"))
    assert data["core"] is None
    assert "make docs" in data["missing"]
    assert len(data["scores"]) == len(data["labels"]) > data["labelled"]


@pytest.fixture(scope="module")
def browser(site: Path) -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("browser tests need Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, site: Path) -> Iterator[Any]:
    """The forms of the page under a strict policy, opened as a file in a real browser."""
    policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'"
    html = (TRY / "index.md").read_text(encoding="utf-8")
    forms = "".join(re.findall(r"^```\{raw\} html\n(.*?)^```", html, re.M | re.S))
    (site / "page.html").write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Try</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f'<link rel="stylesheet" href="try.css"><main>{forms}</main>'
        '<script src="core.js"></script><script src="try.js"></script>',
        encoding="utf-8",
    )
    page = browser.new_page(viewport={"width": 400, "height": 800})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((site / "page.html").as_uri())
    page.wait_for_selector("#kdey-try-demo form", state="visible")
    yield page
    assert said == []
    page.close()


def test_sliders_move_the_answer(page: Any) -> None:
    caption = page.locator("#kdey-try-demo figcaption")
    page.locator("input[name=share]").fill("90")
    page.locator("input[name=size]").fill("200")
    assert caption.inner_text().startswith("Of 200 new beans, 90 % are seker. Counting")
    page.locator("button[name=hundred]").click()
    said = page.locator(".kdey-try-repeated").inner_text()
    found = re.search(r"counting is ([\d.]+) points .* kdey ([\d.]+)\. (\d+) of the 100", said)
    assert float(found[1]) > 3 * float(found[2])
    assert int(found[3]) >= 80
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_file_is_answered(page: Any, tmp_path: Path, mark: str) -> None:
    rng = np.random.default_rng(1)
    scores, labels = scored(rng, 120, 0.5, 1.0)
    sample, _ = scored(rng, 200, 0.2, 1.0)
    case = {"scores": scores, "labels": labels, "sample": sample, "bandwidth": 0.1}
    rows = [
        [str(i), f"{s!r}", ["no", '"oh, ""yes"""'][y]]
        for i, (s, y) in enumerate(zip(scores.tolist(), labels, strict=True))
    ]
    rows += [["x", f"{s!r}", ""] for s in sample.tolist()]
    text = "\r\n".join(mark.join(row) for row in [["id", "p", "what it is"], *rows])
    (tmp_path / "mine.csv").write_text(text, encoding="utf-8-sig")
    page.locator("input[type=file]").set_input_files(tmp_path / "mine.csv")
    caption = page.locator("#kdey-try-file figcaption")
    caption.wait_for()
    said = caption.inner_text()
    assert 'are "oh, "yes"". kdey says' in said
    assert said.endswith("from 120 labels.")
    count, share, _, low, high = (float(number) for number in re.findall(r"([\d.]+) %", said))
    np.testing.assert_allclose(
        [share, low, high, count], 100 * np.array(python_answer(case)), atol=0.6
    )


def test_a_file_that_cannot_be_answered_is_refused(page: Any, tmp_path: Path) -> None:
    wrong = {
        'Row 1 has "1.5" in the column "p"': "p,y\n1.5,a\n",
        "no rows below": "p,y\n",
        "3 different labels": "p,y\n.5,a\n.6,b\n.7,c\n.7,\n",
        '"a" labels 1 row(s)': "p,y\n.5,a\n.6,b\n.7,\n",
        "Every row has a label": "p,y\n" + ".5,a\n.6,b\n" * 5,
    }
    for number, (message, text) in enumerate(wrong.items()):
        file = tmp_path / f"{number}.csv"
        file.write_text(text, encoding="utf-8")
        page.locator("input[type=file]").set_input_files(file)
        said = page.locator("#kdey-try-file .kdey-try-message", has_text=message)
        said.wait_for(timeout=10_000)
        assert page.locator("#kdey-try-file figure").is_hidden()
