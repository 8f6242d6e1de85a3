"""Make pictures of an example report: ``python docs/gallery/report.py [FOLDER]``.

Needs Chromium and playwright.
"""

from __future__ import annotations

import datetime as dt
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from kdey import KDEyML, make_report
from kdey.report import Report

#: Pictures by name: the colour scheme and the window.
_WINDOWS = {
    "report-light": ("light", {"width": 1000, "height": 1180}),
    "report-dark": ("dark", {"width": 1000, "height": 1180}),
    "report-phone": ("light", {"width": 400, "height": 1400}),
}
_NAMES = np.array(["negative", "neutral", "positive"])
_CENTRES = np.array([[-1.3, 0.0], [0.0, 1.6], [1.3, 0.0]])


def posts(codes: Any, rng: np.random.Generator) -> Any:
    """Return made-up features of posts, whose kinds overlap."""
    return _CENTRES[codes] + rng.normal(size=(len(codes), 2))


def example() -> Report:
    """Return the report on half a year of posts whose mix drifts from week to week."""
    rng = np.random.default_rng(0)
    known = np.arange(1500) % 3
    model = KDEyML(LogisticRegression(), random_state=0).fit(posts(known, rng), _NAMES[known])
    weeks = [dt.date(2026, 1, 5) + dt.timedelta(7 * number) for number in range(26)]
    codes = [rng.choice(3, 250, p=_drift(number)) for number in range(26)]
    every = np.concatenate(codes)
    bags = np.arange(len(every)).reshape(26, 250)
    made = model.estimate_bags(posts(every, rng), [bags.ravel(), *bags])
    return make_report(
        made[0],
        replace(made[1:], keys=nw.from_native(pd.DataFrame({"week": weeks}))),
        time="week",
        quantifier=model,
        truth=[np.mean(_NAMES[every] == label) for label in model.classes_],
        title="Sentiment of posts by week",
    )


def _drift(week: int) -> Any:
    share = 1 / (1 + np.exp(-(week - 12) / 4))
    return np.array([0.2 + 0.5 * share, 0.2, 0.6 - 0.5 * share])


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
