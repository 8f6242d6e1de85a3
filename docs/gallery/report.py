"""Make pictures of a report on the beans that come with kdey.

``python docs/gallery/report.py [FOLDER]`` needs Chromium and playwright.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from kdey import Quantifier, write_report
from kdey.datasets import load_beans

#: Pictures by name: the colour scheme and the window.
_WINDOWS = {
    "report-light": ("light", {"width": 1180, "height": 1240}),
    "report-dark": ("dark", {"width": 1180, "height": 1240}),
    "report-phone": ("light", {"width": 400, "height": 1400}),
}


def write_example(path: Path) -> Path:
    """Write the report on the deliveries of three suppliers, month by month."""
    labelled, new, _ = load_beans()
    model = Quantifier(random_state=0)
    model.fit(labelled[["area", "perimeter"]], labelled["variety"])
    title = "Beans by supplier and month"
    write_report(path, model, new, by="supplier", time="day", every="1mo", title=title)
    return path


def main(folder: Path) -> None:
    """Write pictures of the page, light, dark and on a phone."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        page_file = write_example(Path(scratch) / "report.html")
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
