"""Figures as files: complete, drawn without the page, in the colours of paper."""

from __future__ import annotations

import struct
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from kdey.report import Report, make_report

from .cases import HOSTILE, full_report, group_rows

pytest.importorskip("jinja2")
SPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report() -> Report:
    return full_report(3, "time")


def texts(path: Path) -> list[str]:
    return [node.text or "" for node in ET.parse(path).iter(f"{SPACE}text")]


def png_size(data: bytes) -> tuple[int, int]:
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    wide, tall = struct.unpack(">II", data[16:24])
    return wide, tall


def test_every_figure_of_the_page_is_a_file(report: Report, tmp_path: Path) -> None:
    written = report.write_figures(tmp_path / "new" / "folder")
    names = [figure.name for figure in report.page().figures]
    assert [path.name for path in written] == [f"{name}.svg" for name in names]
    assert {"prevalence.svg", "time.svg", "confusion.svg"} <= {path.name for path in written}
    for path, figure in zip(written, report.page().figures, strict=True):
        root = ET.parse(path).getroot()
        assert root.find(f"{SPACE}title").text == figure.title
        style = root.find(f"{SPACE}style").text
        assert "var(" not in style, "not every program knows variables"
        assert "#" in style
        assert figure.title in texts(path)
    words = " ".join(texts(tmp_path / "new" / "folder" / "prevalence.svg"))
    assert "estimate with 95 % interval" in words
    assert "The uncorrected count is what" in words, "the caption goes with the figure"
    assert HOSTILE[:15] in words


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="PNG files need resvg: pip install 'kdey[png]'")
    alone = make_report(group_rows(["shop"], [("x",), ("y",)], ["a", "b"]), by=["shop"])
    svg, png = alone.write_figures(tmp_path, ["svg", "png"])
    assert (svg.name, png.name) == ("groups.svg", "groups.png")
    wide, tall = png_size(png.read_bytes())
    root = ET.parse(svg).getroot()
    assert wide == pytest.approx(2 * float(root.get("width")), abs=2)
    assert tall == pytest.approx(2 * float(root.get("height")), abs=2)


def test_what_cannot_be_written_is_said(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    formats: Any = ["svg", "gif"]
    with pytest.raises(ValueError, match="formats must be of svg, png, got 'gif'"):
        report.write_figures(tmp_path, formats)
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ImportError, match=r"pip install 'kdey\[png\]'"):
        report.write_figures(tmp_path, ["png"])
    assert list(tmp_path.iterdir()) == []
