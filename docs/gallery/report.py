"""Make pictures of an example report: ``python docs/gallery/report.py [FOLDER]``.

Needs Chromium and playwright.
"""

from __future__ import annotations

import datetime as dt
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from kdey import KDEyML, make_report
from kdey.report import Report

#: Pictures by name: the colour scheme and the window.
_WINDOWS = {
    "report-light": ("light", {"width": 1180, "height": 1240}),
    "report-dark": ("dark", {"width": 1180, "height": 1240}),
    "report-phone": ("light", {"width": 400, "height": 1400}),
}
_NAMES = np.array(["negative", "neutral", "positive"])
_CENTRES = np.array([[-1.3, 0.0], [0.0, 1.6], [1.3, 0.0]])


_COUNTRIES = ("Austria", "Belgium", "Denmark", "Finland", "France", "Ireland", "Norway", "Spain")


def posts(codes: Any, rng: np.random.Generator) -> pd.DataFrame:
    """Return made-up features of posts, whose kinds overlap."""
    values = _CENTRES[codes] + rng.normal(size=(len(codes), 2))
    return pd.DataFrame(values, columns=["warmth", "length"])


def example() -> Report:
    """Return the report on half a year of posts, whose mix changes in two countries."""
    rng = np.random.default_rng(0)
    known = np.arange(3000) % 3
    model = KDEyML(LogisticRegression(), random_state=0).fit(posts(known, rng), _NAMES[known])
    parts = []
    for number, country in enumerate(_COUNTRIES):
        usual = rng.dirichlet([8, 8, 8])
        for week in range(26):
            # Mostly negative from April on in one country, and more and more so in another.
            moved = {2: 0.5 * (week > 12), 4: week / 60}.get(number, 0.0)
            share = (1 - moved) * usual + moved * np.array([1.0, 0.0, 0.0])
            codes = rng.choice(3, 12 if country == "Ireland" else 90, p=share)
            day = dt.date(2026, 1, 5) + dt.timedelta(7 * week)
            parts.append(posts(codes, rng).assign(country=country, day=day))
    table = pd.concat(parts, ignore_index=True)
    keys: Any = {"by": "country", "time": "day", "every": "1w"}
    return make_report(model, table, title="Sentiment of posts by country", **keys)


def main(folder: Path) -> None:
    """Write pictures of the page, light, dark and on a phone."""
    from playwright.sync_api import sync_playwright

    report = example()
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        page_file = report.write(Path(scratch) / "report.html")
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (scheme, window) in _WINDOWS.items():
            page = browser.new_page(color_scheme=scheme, viewport=window)
            page.goto(page_file.as_uri())
            page.screenshot(path=folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
